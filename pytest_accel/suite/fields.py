"""The types of a suite file's fields: how each is read, and what an editor is told of it.

Imports pydantic: only ``model.py`` imports this module, and only ``load.py`` and ``schema.py`` import that.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite import scalars, units
from pytest_accel.suite.keys import name_problem, value_text
from pytest_accel.suite.scalars import wrong
from pytest_accel.suite.source import Map, Seq
from pytest_accel.suite.types import TIERS, Json

SCHEMA = "pytest-accel/suite/1"
RESERVED_SUITES = ("py",)  # the key prefix of Python tests
STATUS_WORDS = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Known:
    """What the caller knows and a suite may name: platforms, and settings with their types (none: any setting)."""

    platforms: Collection[str] = ()
    settings: Mapping[str, type] = field(default_factory=dict)


def nearest(word: str, known: Collection[str]) -> str:
    """How to mend a word that is not among ``known``."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(sorted(known))}"


def _told(read: Callable[[Any], Any]) -> BeforeValidator:
    """``read`` as a validator whose ConfigError pydantic collects with its place."""

    def validate(value: Any) -> Any:
        try:
            return read(value)
        except ConfigError as error:
            raise _as_pydantic(error) from None

    return BeforeValidator(validate)


def _told_knowing(read: Callable[[Any, Known], Any]) -> BeforeValidator:
    """The same for a reader that needs what the caller knows."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        try:
            return read(value, info.context if isinstance(info.context, Known) else Known())
        except ConfigError as error:
            raise _as_pydantic(error) from None

    return BeforeValidator(validate)


def _as_pydantic(error: ConfigError) -> PydanticCustomError:
    return PydanticCustomError("config", "wrong", {"problems": error.problems})


# --- readers of one value each ---------------------------------------------------------------------------------------------
def _read_schema(value: Any) -> str:
    found = scalars.text(value)
    if found != SCHEMA:
        newer = re.fullmatch(r"pytest-accel/suite/[0-9]+", found)
        mend = "upgrade pytest-accel, or write the older form" if newer else f"write `schema: {SCHEMA}`"
        raise wrong(f"{scalars.shown(found)} is a schema that this version does not know", mend)
    return found


def _read_name(value: Any) -> str:
    found = scalars.filled(value)
    problem = name_problem(found)
    if problem:
        raise wrong(f"the name {scalars.shown(found)} {problem}", "use letters, digits, `_`, `-` and `.`")
    return found


def read_suite_name(value: Any) -> str:
    """A suite's name. Raises ConfigError for one that a key or a file's name cannot hold, and for a reserved one."""
    found = _read_name(value)
    if found in RESERVED_SUITES:
        raise wrong(f"the suite name `{found}` is reserved", "`py` stands for Python tests in keys: choose another")
    return found


def _read_function(value: Any) -> str:
    found = scalars.filled(value)
    module, _, function = found.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise wrong(f"{scalars.shown(found)} names no function", "write it like my_pkg.kernels:register")
    return found


def _read_workload(value: Any) -> str:
    found = scalars.filled(value)
    return _read_function(value) if ":" in found else found


def _one_of(words: Collection[str]) -> BeforeValidator:
    def read(value: Any) -> str:
        found = scalars.text(value)
        if found not in words:
            near = difflib.get_close_matches(found, words, n=1)
            hint = f"did you mean `{near[0]}`? " if near else ""
            raise wrong(f"{scalars.shown(found)} is not one of them", f"{hint}write {', '.join(words)}")
        return found

    return _told(read)


def _words(read: Callable[[Any, Known], str], what: str) -> BeforeValidator:
    """A reader of one word or a list of them, as a tuple."""

    def read_all(value: Any, known: Known) -> tuple[str, ...]:
        if isinstance(value, Map) or (isinstance(value, Seq) and not value):
            found = "an empty list" if isinstance(value, Seq) else "a map"
            raise wrong(f"must be {what} or a list of them, not {found}", "name at least one")
        return tuple(read(item, known) for item in (value if isinstance(value, Seq) else [value]))

    return _told_knowing(read_all)


def _read_platform(value: Any, known: Known) -> str:
    found = scalars.filled(value)
    if known.platforms and found not in known.platforms:
        raise wrong(f"there is no platform {scalars.shown(found)}", nearest(found, known.platforms))
    return found


def _read_package(value: Any, known: Known) -> str:
    found = scalars.filled(value)
    if not all(part.isidentifier() for part in found.split(".")):
        raise wrong(f"{scalars.shown(found)} is no package that can be imported", "write the name that `import` takes")
    return found


def _read_status(value: Any, known: Known) -> str:
    found = scalars.filled(value)
    if not STATUS_WORDS.fullmatch(found):
        raise wrong(f"{scalars.shown(found)} is no status word", "write one like unsupported")
    return found


def _read_capability(value: Any) -> str:
    units.capability_clauses(value)
    return str(value)


def _read_devices(value: Any) -> int:
    found = scalars.whole(value)
    if not 1 <= found <= 4096:
        raise wrong(f"{scalars.shown(value)} is no number of devices", "write 1 or more")
    return found


def _read_positive(value: Any) -> float:
    found = scalars.number(value)
    if found < 0:
        raise wrong(f"{scalars.shown(value)} is negative", "write it without a sign")
    return found


def _read_axis(value: Any) -> tuple[Json, ...]:
    if not isinstance(value, Seq):
        raise wrong(f"must be a list of values, not {scalars.shown(value)}", "write it like [float16, bfloat16]")
    if not value:
        raise wrong("is an empty list, so that the case would have no variant", "give it a value, or remove it")
    found = scalars.free(value)
    assert isinstance(found, list)
    lines: dict[str, int] = {}
    for item, line in zip(found, value.lines, strict=True):
        text = value_text(item)
        if text in lines:
            problem = Problem(
                f"the value `{text[:40]}` stands twice: lines {lines[text]} and {line}", "remove one", line=line
            )
            raise ConfigError(problem)
        lines[text] = line
    return tuple(found)


def _read_setting_map(value: Any, known: Known) -> Any:
    """Settings by name, each of the type that is known for it; all that is wrong is told at once."""
    if not isinstance(value, Map):
        return value  # the field's own check says so
    problems = []
    read: dict[str, Any] = {}
    for key, given in value.items():
        try:
            name = scalars.name_key(key)
            if known.settings and name not in known.settings:
                raise wrong(f"there is no setting `{name}`", nearest(name, known.settings))
            read[name] = _setting(given, known.settings.get(name))
        except ConfigError as error:
            line = value.lines[key]
            problems += [Problem(f"`{key}`: {p.what}", p.mend, line=line) for p in error.problems]
    if problems:
        raise ConfigError(problems)
    return read


def _setting(value: Any, wanted: type | None) -> Any:
    readers: Mapping[type, Callable[[Any], Any]] = {
        bool: scalars.boolean,
        int: scalars.whole,
        float: scalars.number,
        str: scalars.filled,
    }
    return readers.get(wanted, scalars.free_scalar)(value) if wanted else scalars.free_scalar(value)


# --- the types of fields, each with what an editor is told of it -------------------------------------------------------------
def _schema(kind: str | list[str], **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": kind, **more})


_UNSIGNED = r"^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NUMBER = _UNSIGNED.replace("[+]", "[+-]", 1) + "$"
Text = Annotated[str, _told(scalars.filled), _schema("string", minLength=1)]
Unit = Annotated[str, _told(scalars.text), _schema("string")]
Name = Annotated[str, _told(_read_name), _schema("string", minLength=1)]
SuiteName = Annotated[
    str, _told(read_suite_name), _schema("string", **{"minLength": 1, "not": {"enum": list(RESERVED_SUITES)}})
]
SchemaName = Annotated[str, _told(_read_schema), WithJsonSchema({"const": SCHEMA})]
Function = Annotated[str, _told(_read_function), _schema("string", pattern=r"^[^:\s]+:[^:\s]+$")]
Workload = Annotated[str, _told(_read_workload), _schema("string", minLength=1)]
NameKey = Annotated[str, _told(scalars.name_key)]
PlatformKey = Annotated[str, _told_knowing(_read_platform)]
Free = Annotated[Any, _told(scalars.free), WithJsonSchema({})]
Scalar = Annotated[Any, _told(scalars.free_scalar), _schema(["string", "number", "boolean"])]
Axis = Annotated[Any, _told(_read_axis), _schema("array", minItems=1)]
Number = Annotated[
    float,
    _told(scalars.number),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": _NUMBER}]}),
]
Positive = Annotated[
    float,
    _told(_read_positive),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _UNSIGNED + "$"}]}),
]
Share = Annotated[
    Any,
    _told(units.tolerance),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _UNSIGNED + " ?%?$"}]}),
]
Size = Annotated[
    int,
    _told(units.size_in_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": units.SMALLEST_PLAIN_SIZE},
                {"type": "string", "pattern": "^[0-9.]+ ?([kKMGTP]i?)?B$"},
            ]
        }
    ),
]
Duration = Annotated[
    float,
    _told(units.seconds),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": "^[0-9.]+ ?(ms|s|m|h)$"}]}
    ),
]
Date = Annotated[datetime.date, _told(units.date), _schema("string", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Devices = Annotated[int, _told(_read_devices), _schema("integer", minimum=1)]
Capability = Annotated[
    str, _told(_read_capability), _schema("string", pattern=r"^ *(>=|<=|==|!=|>|<)", examples=[">=8.0"])
]
_WORD_OR_LIST = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)
Platforms = Annotated[tuple[str, ...], _words(_read_platform, "a platform"), _WORD_OR_LIST]
Packages = Annotated[tuple[str, ...], _words(_read_package, "a package"), _WORD_OR_LIST]
Statuses = Annotated[tuple[str, ...], _words(_read_status, "a status word"), _WORD_OR_LIST]
TierName = Annotated[str, _one_of(TIERS), WithJsonSchema({"enum": list(TIERS)})]
BetterName = Annotated[
    str, _one_of(("lower", "higher", "equal")), WithJsonSchema({"enum": ["lower", "higher", "equal"]})
]
Settings = Annotated[
    dict[str, Any],
    _told_knowing(_read_setting_map),
    _schema("object", additionalProperties={"type": ["string", "number", "boolean"]}),
]
