"""Baseline keys: ``suite/case[param=value,…]``, one text for one set of values, and back.

The rules, so that a key may be written by hand:

* parameters are sorted by name; no brackets where there are none;
* a value is canonical JSON (no spaces, map keys sorted, ASCII), so ``1``, ``1.0``, ``true`` and ``"true"`` are four keys, and
  ``1e3`` in a suite is the float ``1000.0``, not the integer ``1000``;
* text stands bare where it is made of letters, digits and ``_.:+/@%~-`` and could be nothing but text; else it is a JSON
  string in which what separates (``, = [ ] { }`` and ``::``) is escaped as ``\\u002c`` and so on;
* a name follows the same rule as text, but may look like a number.

A key depends on the case's own values alone: inserting a case or a matrix value changes no other key.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_accel.suite.types import Json

_BARE = re.compile(r"[A-Za-z0-9_.:+/@%~-]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = frozenset({"true", "false", "null", "nan", "inf", "infinity", "-inf", "-infinity"})
_SEPARATORS = re.compile(r"[,=\[\]{}]|:(?=:)|(?<=:):|\x7f")
_BARE_AT = re.compile(r"[^,=\]]*")
_NAME_FORBIDDEN = re.compile(r"""[\[\]/\\:,=*?"'<>|{}&!`$]""")
_decode = json.JSONDecoder().raw_decode
MAX_NAME_BYTES = 150  # a suite's name is a file's name; file systems allow 255


def name_problem(name: str) -> str | None:
    """Why ``name`` cannot name a suite or a case, in words, or None: it stands bare in keys, file names and node ids."""
    bad = _NAME_FORBIDDEN.search(name)
    if bad:
        return f"holds `{bad.group()}`"
    if not name.isprintable():
        return "holds a character that cannot be printed"
    if not name or name != name.strip() or name.startswith((".", "-")):
        return "is empty, begins with a point or hyphen, or has space around it"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None


def make_key(suite: str, case: str, values: Mapping[str, Any]) -> str:
    """The key of a variant. ``values`` are its params, matrix values and settings (JSON values, finite).

    Raises ValueError for a name that would make the key ambiguous and for a value that is no finite JSON.
    """
    for name in (suite, case):
        problem = _checked_name(name)
        if problem:
            raise ValueError(f"the name {name!r} {problem}")
    if not values:
        return f"{suite}/{case}"
    inside = ",".join([f"{_name(name)}={value_text(values[name])}" for name in sorted(values)])
    return f"{suite}/{case}[{inside}]"


def split_key(key: str) -> tuple[str, str, dict[str, Json]]:
    """Suite, case and values of a key that ``make_key`` made; for a Python test's key (``py:…``) suite is ``py``.

    Raises ValueError for text that is no key.
    """
    head, bracket, inside = key.partition("[")
    suite, separator, case = head.partition(":" if head.startswith("py:") else "/")
    if not separator or not suite or not case or (bracket and not inside.endswith("]")):
        raise ValueError(f"{key!r} is not a key of the form suite/case[name=value,…]")
    values: dict[str, Json] = {}
    at, end = 0, len(inside) - 1
    while bracket:
        name, at = _read(inside, at, text_only=True)
        if at >= end or inside[at] != "=" or not isinstance(name, str) or name in values:
            raise ValueError(f"{key!r}: `name=value` is wanted at {inside[at:][:20]!r}")
        values[name], at = _read(inside, at + 1, text_only=False)
        if at == end:
            break
        if at > end or inside[at] != ",":
            raise ValueError(f"{key!r}: `,` or `]` is wanted at {inside[at:][:20]!r}")
        at += 1
    return suite, case, values


def short_name(key: str) -> str:
    """Sixteen hex digits that stand for ``key`` in a file's name, however long and odd the key is."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@functools.lru_cache(maxsize=1024)
def _checked_name(name: str) -> str | None:
    return name_problem(name)


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) and "::" not in name else _quoted(name)


def value_text(value: Any) -> str:
    """A value as it stands in a key. Raises ValueError for what is no finite JSON."""
    if isinstance(value, str):
        bare = (
            _BARE.fullmatch(value)
            and value.lower() not in _WORDS
            and not _NUMBER.fullmatch(value)
            and "::" not in value
        )
        return value if bare else _quoted(value)
    if isinstance(value, (dict, list, tuple)):
        return _canonical(value)
    return json.dumps(value, allow_nan=False)


def _canonical(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _quoted(text: str) -> str:
    return _SEPARATORS.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text))


def _read(inside: str, at: int, *, text_only: bool) -> tuple[Json, int]:
    """The name or value that begins at ``at``, and where it ends."""
    if inside[at : at + 1] in ('"', "[", "{"):
        value, end = _decode(inside, at)
        return value, end
    found = _BARE_AT.match(inside, at)
    bare = found.group() if found else ""
    if not bare:
        raise ValueError(f"a name or value is wanted at {inside[at:][:20]!r}")
    if not text_only and (bare in _WORDS or _NUMBER.fullmatch(bare)):
        return json.loads(bare), at + len(bare)
    return bare, at + len(bare)
