"""Sizes, durations, tolerances, dates, compute capabilities: how they are written, and what they mean."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from pytest_accel.errors import ConfigError
from pytest_accel.suite.scalars import number, shown, text, wrong
from pytest_accel.suite.types import Tolerance

_SIZES: Mapping[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGTP", 1)},
    "kB": 1000,
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", 1)},
}
_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WITH_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?([A-Za-z]*)")
_CAPABILITY = re.compile(r"(>=|<=|==|!=|>|<) ?([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
MAX_SECONDS = 7 * 24 * 3600.0
SMALLEST_PLAIN_SIZE = 2**20


def size_in_bytes(value: object) -> int:
    """``2GiB``, ``512MiB``, ``8GB`` (units as SI and IEC write them), or plain bytes from 1 MiB. Raises ConfigError."""
    mend = "write it like 2GiB, 512MiB or 8GB"
    count, unit = _split(value, f"{shown(value)} is no size", mend)
    if unit and unit not in _SIZES:
        raise wrong(f"{shown(value)} is no size: there is no unit `{unit}`", mend)
    size = count * _SIZES[unit or "B"]
    if not unit and size < SMALLEST_PLAIN_SIZE:
        raise wrong(f"{shown(value)} has no unit, and that few bytes are not meant", mend)
    if not 1 <= size < 2**63:
        raise wrong(f"{shown(value)} is no size that a device can have", mend)
    return round(size)


def seconds(value: object) -> float:
    """``60s``, ``5m``, ``500ms``, ``1h``, or a plain number of seconds; from 1 ms to 7 days. Raises ConfigError."""
    mend = "write it like 60s, 5m or 500ms"
    count, unit = _split(value, f"{shown(value)} is no duration", mend)
    if unit and unit not in _SECONDS:
        raise wrong(f"{shown(value)} is no duration: there is no unit `{unit}`", mend)
    found = count * _SECONDS[unit or "s"]
    if not 0.001 <= found <= MAX_SECONDS:
        raise wrong(f"{shown(value)} is outside 1ms to 7 days", mend)
    return found


def tolerance(value: object) -> Tolerance:
    """``3%`` of the baseline, or an absolute amount in the metric's unit; not negative. Raises ConfigError."""
    relative = isinstance(value, str) and value.rstrip().endswith("%")
    bare = value.strip()[:-1] if relative and isinstance(value, str) else value
    try:
        amount = number(bare)
    except ConfigError:
        raise wrong(
            f"{shown(value)} is no tolerance", "write it like 3%, or as a number in the metric's unit"
        ) from None
    if amount < 0:
        raise wrong(
            f"{shown(value)} is negative", "a tolerance says how much worse is too much: write it without a sign"
        )
    return Tolerance(amount / 100 if relative else amount, relative)


def date(value: object) -> datetime.date:
    """``2027-01-31``. Raises ConfigError."""
    found = text(value)
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", found):
            return datetime.date.fromisoformat(found)
    except ValueError:
        pass
    raise wrong(f"{shown(value)} is no date", "write it like 2027-01-31")


def capability_clauses(value: object) -> list[tuple[str, tuple[int, int]]]:
    """``>=8.0`` or ``>=8.0,<10`` as comparisons with (major, minor); a minor left out is 0. Raises ConfigError."""
    clauses = []
    for part in text(value).split(","):
        match = _CAPABILITY.fullmatch(part.strip())
        if not match:
            raise wrong(f"{shown(value)} is no capability", 'write it like ">=8.0", or ">=8.0,<10.0"')
        clauses.append((match[1], (int(match[2]), int(match[3] or 0))))
    return clauses


def capability_fits(value: str, capability: tuple[int, int]) -> bool:
    """True where ``capability`` meets all of ``value``'s comparisons: as pairs, so that 10.0 is above 9.0."""
    return all(_COMPARE[sign](capability, wanted) for sign, wanted in capability_clauses(value))


def _split(value: object, what: str, mend: str) -> tuple[float, str]:
    """A positive number and the unit behind it; int and float come from Python callers."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(what, mend)
    match = _WITH_UNIT.fullmatch(str(value).strip())
    if not match or not math.isfinite(float(match[1])):
        raise wrong(what, mend)
    return float(match[1]), match[2]
