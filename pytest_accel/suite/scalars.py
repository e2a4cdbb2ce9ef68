"""What a scalar of a suite file means, once it is known what is wanted there: text, a number, a truth value, or free.

Free values follow YAML 1.2's core schema where it and YAML 1.1 agree with what a reader sees, and are refused where they do
not: nothing is guessed.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.source import Map, Plain, Seq
from pytest_accel.suite.types import Json

BOOLEAN_WORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off"}
)  # YAML 1.1, less `y` and `n`, which PyYAML keeps as text
NULL_WORDS = frozenset({"", "~", "null"})
MAX_DIGITS = 300  # a float has 309 before the point; Python refuses to print integers beyond 4300

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_LOSES_ZERO = re.compile(r"[+-]?[0-9]*\.[0-9]+0")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_ONLY_YAML_1_1 = re.compile(
    r"[+-]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9][0-9_]*)"
)
_NONFINITE = re.compile(r"[+-]?\.?(?:nan|inf|infinity)", re.IGNORECASE)


def wrong(what: str, mend: str) -> ConfigError:
    """A ConfigError without a place; whoever knows the place adds it."""
    return ConfigError(Problem(what=what, mend=mend))


def shown(value: object) -> str:
    """``value`` as a message shows it: cut after 40 characters; a list or map by its kind."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = str(value)
    return f"`{text[:40]}…`" if len(text) > 40 else f"`{text}`"


def text(value: object) -> str:
    """Text as it stands in the file. Raises ConfigError for what is none, and for a plain truth value or null."""
    if not isinstance(value, str):
        raise wrong(f"must be text, not {shown(value)}", "write one word or quoted text")
    if isinstance(value, Plain):
        if value.lower() in BOOLEAN_WORDS:
            raise wrong(f"text is wanted, and a plain `{value}` is a boolean to YAML", "quote it")
        if value.lower() in NULL_WORDS:
            given = f"a plain `{value}`" if value else "nothing"
            raise wrong(f"text is wanted, and {given} is null to YAML", "quote it, or remove the key")
    return str(value)


def filled(value: object) -> str:
    """Text that is not blank. Raises ConfigError."""
    found = text(value)
    if not found.strip():
        raise wrong("is blank", "write some text, or remove the key")
    return found


def name_key(value: object) -> str:
    """A key that is a name of the user's (a parameter, a metric). Raises ConfigError for a plain truth value or null."""
    if isinstance(value, Plain) and value.lower() in BOOLEAN_WORDS | NULL_WORDS:
        raise wrong(f"key `{value}`: a plain `{value}` is {_kind(value)} to YAML, not a name", "quote it")
    if not isinstance(value, str) or not value.strip():
        raise wrong("a blank key", "give it a name")
    return str(value)


def boolean(value: object) -> bool:
    """``true`` or ``false``, plain. Raises ConfigError."""
    found = free(value) if isinstance(value, Plain) else value
    if not isinstance(found, bool):
        raise wrong(f"must be true or false, not {shown(value)}", "write true or false without quotes")
    return found


def number(value: object) -> float:
    """A finite number, plain or quoted, in any usual form (``3``, ``1e-3``, ``1.0e3``). Raises ConfigError."""
    found = value.strip() if isinstance(value, str) else ""
    if not _FLOAT.fullmatch(found):
        raise wrong(f"must be a number, not {shown(value)}", "write it like 0.001 or 1e-3")
    if not math.isfinite(float(found)):
        raise wrong(f"{shown(value)} is larger than any number can be", "write a smaller number")
    return float(found)


def whole(value: object) -> int:
    """A whole number. Raises ConfigError."""
    if not isinstance(value, str) or not _INT.fullmatch(value) or len(value) > MAX_DIGITS:
        raise wrong(f"must be a whole number, not {shown(value)}", "write it like 2")
    return int(value)


def free_scalar(value: object) -> str | int | float | bool:
    """A free value that is one scalar and not null. Raises ConfigError."""
    found = free(value)
    if found is None or isinstance(found, (dict, list)):
        given = "null" if found is None else shown(found)
        raise wrong(f"must be a number, a word, true or false, not {given}", "write one value")
    return found


def free(value: Any) -> Json:
    """A parameter's value: a number, true, false, null, text, or lists and maps of them.

    Raises ConfigError, with the line of each item of a list or map that is wrong, where two readers of YAML would differ.
    """
    if isinstance(value, Plain):
        return _plain(value)
    if isinstance(value, str):
        return value
    problems: list[Problem] = []

    def item(found: Any, line: int) -> Json:
        try:
            return free(found)
        except ConfigError as error:
            problems.extend(Problem(p.what, p.mend, p.path, p.line or line) for p in error.problems)
            return None

    built: Json
    if isinstance(value, Seq):
        built = [item(found, line) for found, line in zip(value, value.lines, strict=True)]
    elif isinstance(value, Map):
        built = {}
        for key, found in value.items():
            built[str(key)] = item(found, value.lines[key])
            try:
                name_key(key)
            except ConfigError as error:
                problems.extend(Problem(p.what, p.mend, line=value.lines[key]) for p in error.problems)
    else:
        raise TypeError(f"{type(value).__name__} does not come from a suite file")
    if problems:
        raise ConfigError(problems)
    return built


def _plain(value: Plain) -> str | int | float | bool | None:
    raw, lower = str(value), value.lower()
    if raw in ("true", "True", "TRUE"):
        return True
    if raw in ("false", "False", "FALSE"):
        return False
    if lower in BOOLEAN_WORDS:
        what = f"a plain `{raw}` is a boolean to some readers of YAML and text to others"
        raise wrong(what, "write true or false, or quote it")
    if raw in ("", "~", "null", "Null", "NULL"):
        return None
    if lower in NULL_WORDS:
        raise wrong(f"a plain `{raw}` is no value for sure", "write null, or quote it")
    if raw[0].isdigit() or raw[0] in "+-.":
        return _number_or_text(raw)
    if _NONFINITE.fullmatch(raw):
        raise wrong(f"`{raw}` is not a finite number", "write a finite number, or quote it if it is text")
    return raw


def _number_or_text(raw: str) -> str | int | float:
    if _NONFINITE.fullmatch(raw):
        raise wrong(f"`{raw}` is not a finite number", "write a finite number, or quote it if it is text")
    numeric = bool(_FLOAT.fullmatch(raw))
    if numeric and _LEADING_ZERO.match(raw):
        raise wrong(
            f"`{raw}` begins with a zero: octal, decimal or text, by the reader", "write it without, or quote it"
        )
    if numeric and _LOSES_ZERO.fullmatch(raw):
        short = raw.rstrip("0")
        short += "0" if short.endswith(".") else ""
        raise wrong(f"`{raw}` as a number is {short}, as a version it is another", f"write {short}, or quote it")
    if _INT.fullmatch(raw) or _BASED.fullmatch(raw):
        if len(raw) > MAX_DIGITS:
            raise wrong(f"a whole number of {len(raw)} digits", "quote it if it is text")
        return int(raw, 0) if _BASED.fullmatch(raw) else int(raw)
    if numeric:
        found = float(raw)
        mantissa = re.split("[eE]", raw)[0]
        lost = not math.isfinite(found) or (found == 0.0 and any(digit in "123456789" for digit in mantissa))
        return raw if lost else found  # a commit such as 695e0514 is no number that a float can hold
    if _ONLY_YAML_1_1.fullmatch(raw):
        raise wrong(
            f"`{raw}` is a number to some readers of YAML and text to others", "write the plain digits, or quote it"
        )
    return raw


def _kind(value: str) -> str:
    return "a boolean" if value.lower() in BOOLEAN_WORDS else "null"
