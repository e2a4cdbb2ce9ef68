"""From the bytes of a YAML file to plain data that remembers its lines and which scalars stood without quotes.

YAML's own guesses (``1e-3`` as text, ``on`` as a truth value, ``2:4`` as 124, ``2.10`` as 2.1) are not made here: a plain
scalar keeps its raw text as a ``Plain``, and whoever knows what is wanted there reads it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from pytest_accel.errors import ConfigError, Problem

MAX_DEPTH = 40  # a suite nests some eight deep; the rest is room for parameters
MAX_FROM_ALIASES = 100_000  # nodes that aliases may add when written out: a bomb of nine anchors would add 10**9

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events; the C parser is twelve times faster
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # YAML 1.1, section 5.1
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_STR_TAG = "tag:yaml.org,2002:str"
_OWN_TAGS = {_STR_TAG, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!"}


class Plain(str):
    """The raw text of a scalar without quotes; a quoted scalar, or one tagged ``!!str``, is a plain ``str``."""

    __slots__ = ()


class Map(dict[str, Any]):
    """A mapping; ``line`` is where it begins, ``lines`` the line of each key (from 1). Keys are ``str`` or ``Plain``."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.size = 1


class Seq(list[Any]):
    """A sequence; ``line`` is where it begins, ``lines`` the line of each item (from 1)."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []
        self.size = 1


Data: TypeAlias = "Map | Seq | str"


def read_source(path: Path) -> Map:
    """Read the file at ``path`` as ``parse_source`` does. Raises ConfigError where it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError.at(
            path, None, f"cannot be read: {error.strerror or error}", "name a file that can be read"
        ) from None
    return parse_source(raw, path)


def parse_source(raw: bytes, path: str | Path) -> Map:
    """The one mapping that a YAML file holds, as ``Map``, ``Seq``, ``str`` and ``Plain``.

    Anchors, aliases and merge keys (``<<``) are resolved. Raises ConfigError with the line for what is not UTF-8 text, not
    YAML, not one document, no mapping, a key given twice (both lines), a tag, an alias to itself, and nesting or aliases
    without measure.
    """
    text = decode(raw, path)
    try:
        return _Builder(str(path)).document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from None
    except yaml.YAMLError as error:  # the reader's own errors carry no mark
        raise ConfigError.at(path, None, f"not YAML: {error}", "correct the file") from None


def line_at(data: Data, steps: tuple[str | int, ...]) -> int:
    """The line of what ``steps`` (keys and list positions) lead to, or of the last step that is there."""
    line = data.line if isinstance(data, (Map, Seq)) else 1
    here: Any = data
    for step in steps:
        there = (
            step in here
            if isinstance(here, Map)
            else isinstance(here, Seq) and isinstance(step, int) and step < len(here)
        )
        if not there:
            break
        line, here = here.lines[step], here[step]
    return line


def decode(raw: bytes, path: str | Path) -> str:
    """``raw`` as text: UTF-8, with or without a byte order mark. Raises ConfigError naming encoding and byte offset."""
    mend = "save the file as UTF-8"
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            raise ConfigError.at(path, 1, f"the file is {encoding}, not UTF-8 (byte order mark at byte 0)", mend)
    zero = raw.find(0)
    if zero in (0, 1) and len(raw) > 2:
        encoding = "UTF-32" if raw[:4].count(0) == 3 else "UTF-16"
        raise ConfigError.at(path, 1, f"the file looks like {encoding}, not UTF-8 (zero byte at byte {zero})", mend)
    start = len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0
    try:
        text = raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = start + error.start
        line = raw.count(b"\n", 0, offset) + 1
        what = f"the file is not UTF-8: byte 0x{raw[offset]:02X} at byte {offset} (Latin-1 or Windows-1252, perhaps)"
        raise ConfigError.at(path, line, what, mend) from None
    odd = _UNPRINTABLE.search(text)
    if odd:
        offset = start + len(text[: odd.start()].encode("utf-8"))
        what = f"the character U+{ord(odd.group()):04X} at byte {offset} is not allowed in YAML"
        line = text.count("\n", 0, odd.start()) + 1
        raise ConfigError.at(path, line, what, "remove it, or write it as an escape in double quotes")
    return text


class _Builder:
    """Builds data from the parser's events; recursion is bounded by ``MAX_DEPTH``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.anchors: dict[str, Data | None] = {}  # None: still being built
        self.from_aliases = 0

    def fail(self, event: yaml.Event, what: str, mend: str) -> ConfigError:
        return ConfigError.at(self.path, _line(event), what, mend)

    def document(self, events: Iterator[yaml.Event]) -> Map:
        next(events)  # the stream's start
        event = next(events)
        if isinstance(event, yaml.StreamEndEvent):
            raise ConfigError.at(
                self.path, 1, "the file is empty", "a suite begins with `schema: pytest-accel/suite/1`"
            )
        top = self.value(next(events), events, 0)
        next(events)  # the document's end
        event = next(events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fail(
                event, "a second document begins here", "one file holds one suite; split it, or remove the `---`"
            )
        if isinstance(top, Map):
            return top
        kind = "a list" if isinstance(top, Seq) else "a single value"
        what = f"the file holds {kind}, not a map of keys"
        raise ConfigError.at(self.path, 1, what, "a suite begins with `schema: pytest-accel/suite/1`")

    def value(self, event: Any, events: Iterator[yaml.Event], depth: int) -> Data:
        if isinstance(event, yaml.ScalarEvent):
            return self.anchored(event, self.scalar(event))
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        if depth > MAX_DEPTH:
            raise self.fail(event, f"more than {MAX_DEPTH} levels of nesting", "flatten it")
        self.check_tag(event)
        if event.anchor:
            self.anchors[event.anchor] = None
        build = self.mapping if isinstance(event, yaml.MappingStartEvent) else self.sequence
        return self.anchored(event, build(event, events, depth))

    def anchored(self, event: Any, value: Data) -> Data:
        if event.anchor:
            self.anchors[event.anchor] = value
        return value

    def scalar(self, event: yaml.ScalarEvent) -> str:
        value: str = event.value
        if _UNPRINTABLE.search(value) and any("\ud800" <= char <= "\udfff" for char in value):
            raise self.fail(
                event, "an escape in this text is half a character (a lone surrogate)", "write the whole character"
            )
        if event.tag is not None:
            self.check_tag(event)
            return value
        return value if event.style else Plain(value)

    def check_tag(self, event: Any) -> None:
        tag = event.tag
        if tag is not None and tag not in _OWN_TAGS:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise self.fail(
                event, f"the tag `{shown}` is not allowed", "write numbers plain and text in quotes, without a tag"
            )

    def alias(self, event: yaml.AliasEvent) -> Data:
        if event.anchor not in self.anchors:
            what = f"the alias `*{event.anchor}` has no anchor `&{event.anchor}` above it"
            raise self.fail(event, what, "name an anchor that is there")
        value = self.anchors[event.anchor]
        if value is None:
            raise self.fail(event, f"the alias `*{event.anchor}` stands inside its own anchor", "write the value out")
        self.from_aliases += value.size if isinstance(value, (Map, Seq)) else 1
        if self.from_aliases > MAX_FROM_ALIASES:
            raise self.fail(event, f"aliases written out make more than {MAX_FROM_ALIASES} values", "use fewer of them")
        return value

    def sequence(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Seq:
        built = Seq(_line(event))
        for item in events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            value = self.value(item, events, depth + 1)
            built.append(value)
            built.lines.append(_line(item))
            built.size += _size(value)
        return built

    def mapping(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Map:
        own = Map(_line(event))
        merged: list[Map] = []
        merge_line = 0
        for item in events:
            if isinstance(item, yaml.MappingEndEvent):
                break
            key = self.value(item, events, depth + 1)
            if isinstance(key, (Map, Seq)):
                raise self.fail(
                    item, "a key that is itself a list or a map", "a key is a word; quote it if it holds brackets"
                )
            line = _line(item)
            first = merge_line if _is_merge(key) else own.lines.get(key, 0)
            if first:
                raise self.fail(item, f"the key `{key}` stands twice: lines {first} and {line}", "remove one of them")
            value = self.value(next(events), events, depth + 1)
            if _is_merge(key):
                merge_line = line
                merged = self.merge_sources(item, value)
                continue
            own[key] = value
            own.lines[key] = line
            own.size += 1 + _size(value)
        return _merge(own, merged) if merged else own

    def merge_sources(self, event: yaml.Event, value: Data) -> list[Map]:
        given = list(value) if isinstance(value, Seq) else [value]
        sources = [source for source in given if isinstance(source, Map)]
        if len(sources) < len(given):
            raise self.fail(event, "`<<` merges maps, and this is none", "write `<<: *anchor` or `<<: [*one, *two]`")
        return sources


def _merge(own: Map, sources: list[Map]) -> Map:
    """``own`` with the keys that it lacks taken from ``sources``, the first that has them (YAML's merge key)."""
    built = Map(own.line)
    for source in (*reversed(sources), own):
        for key, value in source.items():
            built[key] = value
            built.lines[key] = source.lines[key]
    built.size = 1 + sum(1 + _size(value) for value in built.values())
    return built


def _is_merge(key: object) -> bool:
    return isinstance(key, Plain) and key == "<<"


def _size(value: Data) -> int:
    return value.size if isinstance(value, (Map, Seq)) else 1


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: str | Path) -> ConfigError:
    mark: Any = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    what = f"not YAML: {error.problem or error.context}"
    began: Any = error.context_mark
    if mark and error.context and began and began.line != mark.line:
        what += f" ({error.context} from line {began.line + 1})"
    lines = text.splitlines()
    shown = lines[mark.line] if mark and mark.line < len(lines) else ""
    indent = shown[: len(shown) - len(shown.lstrip())]
    mend = "indent with spaces, not tabs" if "\t" in indent else "correct the file there, or quote the text"
    return ConfigError(Problem(what=what, mend=mend, path=str(path), line=line))
