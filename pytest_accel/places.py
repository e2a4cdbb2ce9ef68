"""Where in JSON text something stands, so that a message can name its line. Slow: called only when something is wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_PUNCTUATION = frozenset(",:]}")
MOST_DIGITS = 308  # an integer of more digits is no float, and Python refuses to read one of over 4300


@dataclass
class _Frame:
    """An open object or array during the walk through a text."""

    array: bool
    key: str | None = None
    index: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    value_next: bool = False

    @property
    def step(self) -> str | int | None:
        """The key or index at which the walk is in this object or array; None before an object's first key."""
        return self.index if self.array else self.key


def line_of(text: str, key: str) -> int | None:
    """The line in JSON ``text`` on which the key first stands, for messages; None where it does not."""
    at = re.search(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text)
    at = at or re.search(re.escape(json.dumps(key)) + r"\s*:", text)
    return text.count("\n", 0, at.start()) + 1 if at else None


def line_at(text: str, steps: Sequence[str | int]) -> int:
    """The line, from 1, of the value at ``steps`` (keys and indices, from the outside in) in sound JSON text.

    Where the text does not hold it, the line of the innermost value around it that it holds.
    """
    wanted, line, depth = list(steps), 1, 0
    for at, word, stack, _ in _walk(text):
        here = [frame.step for frame in stack]
        if word not in _PUNCTUATION and depth < len(here) and here == wanted[: len(here)]:
            line, depth = at, len(here)
            if depth == len(wanted):
                break
    return line


def faults(text: str) -> Iterator[tuple[int, str]]:
    """The (line, sentence) of each duplicate key and impossible number of a text that could not be parsed."""
    for line, word, stack, before in _walk(text):
        if before:
            yield line, f"key `{stack[-1].key}` stands twice, on lines {before} and {line}"
        elif not word.startswith('"') and word not in "{}[],:" and _impossible(word):
            where = "".join(f"[{frame.step}]" if frame.array else f".{frame.step}" for frame in stack).lstrip(".")
            shown = word if len(word) <= 40 else word[:40] + "…"
            yield line, f"`{where or 'the document'}` is {shown}, which is no finite number"


def _walk(text: str) -> Iterator[tuple[int, str, list[_Frame], int]]:
    """Each token with its line, what is open there, and for a key that stood in its object before, that line (else 0)."""
    stack: list[_Frame] = []
    line, done = 1, 0
    for token in _TOKEN.finditer(text):
        word = token.group()
        line, done = line + text.count("\n", done, token.start()), token.start()
        top, before = stack[-1] if stack else None, 0
        if word in "}]" and stack:
            stack.pop()
        elif word == "," and top:
            top.index, top.value_next = top.index + 1, False
        elif word == ":" and top:
            top.value_next = True
        elif word.startswith('"') and top and not top.array and not top.value_next:
            top.key = _text_of(word)
            before = top.seen.get(top.key, 0)
            top.seen.setdefault(top.key, line)
        yield line, word, stack, before
        if word in "{[":
            stack.append(_Frame(array=word == "["))


def _text_of(word: str) -> str:
    try:
        return str(json.loads(word))
    except ValueError:
        return word


def _impossible(word: str) -> bool:
    if word.lstrip("-") in ("NaN", "Infinity", "nan", "inf"):
        return True
    try:
        return len(word) > MOST_DIGITS or not math.isfinite(float(word))
    except ValueError:
        return False
