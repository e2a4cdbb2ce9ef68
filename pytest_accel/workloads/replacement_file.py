"""Files that put operators of one's own in the place of torch's: read, each entry with its line. No torch here.

``exclude_ops``: a list of operators; ``replace_ops``: operator -> ``package.module:function`` (or a map with
``implementation`` and ``dtypes``); ``fallback_policy``: one word, or operator -> word; ``precision_override``: operator ->
dtype. YAML or JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.source import Map, Seq, read_source

SECTIONS = ("exclude_ops", "replace_ops", "fallback_policy", "precision_override")
POLICIES = ("error", "warn", "cpu")
#: Other spellings of a policy and of a dtype.
SAME_POLICY = {"raise": "error", "fail": "error", "warning": "warn", "silent": "cpu", "allow": "cpu", "fallback": "cpu"}
DTYPES = {
    "float64": ("fp64", "double"),
    "float32": ("fp32", "float", "single"),
    "float16": ("fp16", "half"),
    "bfloat16": ("bf16",),
    "float8_e4m3fn": ("fp8", "fp8_e4m3", "e4m3"),
    "float8_e5m2": ("fp8_e5m2", "e5m2"),
}
_DTYPE_OF = {short: name for name, others in DTYPES.items() for short in (name, *others)}
_PREFIXES = ("torch.", "aten::", "aten.", "ops.aten.", "nn.functional.", "functional.", "F.")


@dataclass(frozen=True)
class Named:
    """A word of the file's (as written) and its line."""

    text: str
    line: int


@dataclass(frozen=True)
class Replacement:
    """What stands in an operator's place; ``dtypes`` empty: in whatever dtype it is asked for."""

    implementation: str
    line: int
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorFile:
    """The file's entries by plain operator name (``silu`` for ``aten::silu`` and ``nn.functional.silu``)."""

    path: str
    exclude: Mapping[str, Named] = field(default_factory=dict)
    replace: Mapping[str, Replacement] = field(default_factory=dict)
    policy: Named | None = None
    policy_of: Mapping[str, Named] = field(default_factory=dict)
    override: Mapping[str, Named] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> dict[str, int]:
        """Every operator that the file names, and the line where it stands first."""
        found: dict[str, int] = {}
        for section in (self.exclude, self.replace, self.policy_of, self.override):
            for name, entry in section.items():
                found.setdefault(name, entry.line)
        return found


def plain_name(text: str) -> str:
    """An operator's name without torch's prefixes, overload and trailing underscore of in-place operators."""
    name = text.strip()
    while True:
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
        if not prefix:
            break
        name = name[len(prefix) :]
    if text.startswith(("aten", "torch.ops")):
        name = name.partition(".")[0]
    return name if name.startswith("_") else name.rstrip("_") or name


def read_operator_file(path: Path) -> OperatorFile:
    """Read a replacement file. Raises ConfigError with every mistake of form, each with its line."""
    source = read_source(path)
    problems: list[Problem] = []
    reader = _Reader(problems)
    for key in source:
        if key not in SECTIONS:
            reader.tell(source.lines[key], f"unknown key `{key}`", f"a replacement file has {', '.join(SECTIONS)}")
    if not any(section in source for section in SECTIONS):
        reader.tell(1, "the file says nothing", f"it may have {', '.join(SECTIONS)}")
    exclude = reader.listed(source, "exclude_ops")
    replace = reader.replacements(source)
    policy, policy_of = reader.policies(source)
    override = {
        name: Named(reader.dtype(entry), entry.line)
        for name, entry in reader.mapped(source, "precision_override").items()
    }
    if problems:
        located = [Problem(p.what, p.mend, str(path), p.line) for p in problems]
        raise ConfigError(sorted(located, key=lambda p: p.line or 0))
    return OperatorFile(str(path), exclude, replace, policy, policy_of, override, reader.written)


class _Reader:
    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.written: dict[str, str] = {}

    def tell(self, line: int, what: str, mend: str) -> None:
        self.problems.append(Problem(what, mend, line=line))

    def name(self, section: str, text: str, line: int, seen: Mapping[str, Any]) -> str:
        found = plain_name(text)
        if found in seen:
            first = self.written.get(found, found)
            self.tell(line, f"{section}: `{text}` and `{first}` are one operator", "keep one of them")
        self.written.setdefault(found, text)
        return found

    def listed(self, source: Map, section: str) -> dict[str, Named]:
        value = source.get(section)
        found: dict[str, Named] = {}
        if value in (None, ""):
            return found
        if not isinstance(value, Seq):
            self.tell(source.lines[section], f"{section}: a list of operators is wanted", "write `[silu, cos]`")
            return found
        for item, line in zip(value, value.lines, strict=True):
            if not isinstance(item, str) or not item.strip():
                self.tell(line, f"{section}: an operator's name is wanted", "write its name, such as silu")
                continue
            found[self.name(section, item, line, found)] = Named(item, line)
        return found

    def mapped(self, source: Map, section: str) -> dict[str, Named]:
        """A map of operator to one word."""
        value = source.get(section)
        found: dict[str, Named] = {}
        if value in (None, ""):
            return found
        if not isinstance(value, Map):
            self.tell(source.lines[section], f"{section}: a map is wanted", "write `operator: value`")
            return found
        for key, item in value.items():
            if not isinstance(item, str) or not item.strip():
                self.tell(value.lines[key], f"{section}: `{key}` has no word", "write one")
                continue
            found[self.name(section, key, value.lines[key], found)] = Named(str(item).strip(), value.lines[key])
        return found

    def replacements(self, source: Map) -> dict[str, Replacement]:
        value = source.get("replace_ops")
        found: dict[str, Replacement] = {}
        if value in (None, ""):
            return found
        if not isinstance(value, Map):
            self.tell(
                source.lines["replace_ops"], "replace_ops: a map is wanted", "write `silu: my_package.kernels:silu`"
            )
            return found
        for key, item in value.items():
            line = value.lines[key]
            name = self.name("replace_ops", key, line, found)
            dtypes: tuple[str, ...] = ()
            implementation = item
            if isinstance(item, Map):
                implementation = item.get("implementation", "")
                for odd in set(item) - {"implementation", "dtypes"}:
                    self.tell(item.lines[odd], f"replace_ops: `{key}` has no `{odd}`", "it has implementation, dtypes")
                given = item.get("dtypes", [])
                words = given if isinstance(given, Seq) else [given]
                dtypes = tuple(self.dtype(Named(str(word), line)) for word in words if word)
            module, colon, function = str(implementation).partition(":")
            if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
                what = f"replace_ops: `{key}`: package.module:function is wanted, not `{implementation}`"
                self.tell(line, what, "write where the function is, such as my_package.kernels:silu")
                continue
            found[name] = Replacement(str(implementation), line, dtypes)
        return found

    def policies(self, source: Map) -> tuple[Named | None, dict[str, Named]]:
        value = source.get("fallback_policy")
        if value in (None, ""):
            return None, {}
        line = source.lines["fallback_policy"]
        if isinstance(value, Map):
            each = self.mapped(source, "fallback_policy")
            return None, {name: Named(self.policy(entry), entry.line) for name, entry in each.items()}
        return Named(self.policy(Named(str(value), line)), line), {}

    def policy(self, entry: Named) -> str:
        word = entry.text.strip().lower()
        word = SAME_POLICY.get(word, word)
        if word not in POLICIES:
            self.tell(entry.line, f"fallback_policy: `{entry.text}` is none", f"write one of {', '.join(POLICIES)}")
        return word

    def dtype(self, entry: Named) -> str:
        """The dtype's full name."""
        found = _DTYPE_OF.get(entry.text.strip().lower().removeprefix("torch."))
        if found is None:
            self.tell(entry.line, f"`{entry.text}` is no dtype known here", f"write one of {', '.join(DTYPES)}")
        return found or entry.text
