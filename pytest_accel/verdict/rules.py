"""How a metric is judged: what its workload declares, with what the suite says laid over it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Protocol, get_args

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.verdict.text import as_number
from pytest_accel.verdict.types import BETWEEN_DEVICES, Better, Kind, Rule, Word

_TIMES = {"s", "ms", "us", "µs", "μs", "ns", "sec", "second", "seconds", "min", "minutes"}
_RATE_UNIT = re.compile(r"/\s*(s|sec|second|ms|us|min|h)$|flop|[kmgt]?i?b?ps$", re.IGNORECASE)
_RATE_NAMES = {"throughput", "bandwidth", "rate", "flops", "tflops", "gflops", "gbps", "qps", "ips", "per", "speed"}
_DECLARE = "give it `better` and `worse_by` (or `max`, `min`) in the case's `metrics`, or declare it with the workload"


class _Amount(Protocol):
    """A tolerance as the suite reads it."""

    @property
    def amount(self) -> float: ...

    @property
    def relative(self) -> bool: ...


def rule_for(name: str, spec: object = None, override: object = None, value: object = None) -> Rule:
    """The rule of one metric.

    ``spec``: what the workload declares, ``override``: what the suite (or ``accel_check``) says; each None, a mapping,
    or an object with the attributes ``unit``, ``better``, ``kind``, ``worse_by``, ``floor``, ``min``, ``max``,
    ``equals``, ``order``, ``effect``, ``between_devices``, ``better_by`` (those it has; None says nothing). ``value``: what
    was measured, which tells samples. ``worse_by`` and ``better_by`` are "3%", an absolute number, or an object with
    ``amount`` and ``relative``; the other two are shares. A ``worse_by`` of the suite's is the least effect as well.
    Raises ConfigError where it cannot be told how to judge the metric; the caller adds file and line.
    """
    declared, said = _says(spec), _says(override)
    words = {**declared, **said}
    samples = isinstance(value, (list, tuple))
    better, kind = words.get("better"), declared.get("kind", said.get("kind"))
    unit = str(words.get("unit", ""))
    _check(name, "better", better, (*get_args(Better), None))
    _check(name, "kind", kind, (*get_args(Kind), None))
    limits = {key: _number(name, key, words[key]) for key in ("min", "max") if key in words}
    floor = _number(name, "floor", words.get("floor", 0.0))
    if floor < 0:
        raise _wrong(name, f"floor must not be negative, and is {floor:g}")
    if "min" in limits and "max" in limits and limits["min"] > limits["max"]:
        raise _wrong(name, f"min {limits['min']:g} is above max {limits['max']:g}: nothing can pass")
    tolerance = _tolerance(name, words["worse_by"]) if "worse_by" in words else None
    known = bool(declared) or better is not None or tolerance is not None or bool(limits) or "equals" in words
    if not declared:
        if samples and tolerance is None and not limits:
            raise _wrong(name, "samples differ from run to run, and nothing says how much worse is too much")
        if tolerance is not None and better is None:
            better = _direction(name, unit)
        if kind is None:
            kind = "timing" if (samples and not unit) or _is_time(unit) or _is_rate("", unit) else "exact"
        if tolerance is None and better is None and (limits or "equals" in words):
            tolerance = (math.inf, True)  # its own limits judge it, alone
    amount, relative = tolerance or (0.0, True)
    promised = _tolerance(name, words["better_by"], "better_by") if "better_by" in words else None
    if promised is not None and (better or ("lower" if declared else "equal")) == "equal":
        raise _wrong(
            name, "it must stay equal, so no gain can be expected of it", "give it `better: lower` or `higher`"
        )
    return Rule(
        kind=kind or "exact",
        unit=unit,
        better=better or ("lower" if declared else "equal"),
        worse_by=amount,
        relative=relative,
        floor=floor,
        min=limits.get("min"),
        max=limits.get("max"),
        equals=_word(name, words["equals"]) if "equals" in words else None,
        order=tuple(words.get("order", ())),
        declared=known,
        effect=_share(name, "effect", words["effect"]) if "effect" in words and "worse_by" not in said else None,
        between_devices=_share(name, "between_devices", words.get("between_devices", BETWEEN_DEVICES)),
        promised=promised,
    )


def _says(source: object) -> dict[str, Any]:
    """What a mapping or an object with attributes says; None says nothing."""
    if source is None:
        return {}
    keys = (
        *("unit", "better", "kind", "worse_by", "floor", "min", "max", "equals", "order"),
        *("effect", "between_devices", "better_by"),
    )
    found = source if isinstance(source, Mapping) else {key: getattr(source, key, None) for key in keys}
    return {key: found[key] for key in keys if found.get(key) is not None}


def _check(name: str, key: str, word: object, allowed: tuple[object, ...]) -> None:
    if word not in allowed:
        raise _wrong(name, f"{key} is {word!r}, and must be one of {', '.join(str(w) for w in allowed if w)}")


def _number(name: str, key: str, value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _wrong(name, f"{key} is {value!r}, and must be a number") from None
    number = None if isinstance(value, bool) else as_number(value)
    if number is None or not math.isfinite(number):
        raise _wrong(name, f"{key} is {value!r}, and must be a finite number")
    return number


def _word(name: str, value: object) -> Word:
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value
    return _number(name, "equals", value)


def _tolerance(name: str, value: str | float | _Amount, key: str = "worse_by") -> tuple[float, bool]:
    if isinstance(value, str):
        text, relative = value.strip(), value.strip().endswith("%")
        amount = _number(name, key, text[:-1].strip() if relative else text) / (100 if relative else 1)
    elif isinstance(value, (int, float)):
        amount, relative = _number(name, key, value), False
    else:
        amount, relative = _number(name, key, value.amount), value.relative
    if amount < 0:
        raise _wrong(name, f"{key} must not be negative, and is {amount:g}")
    return amount, relative


def _share(name: str, key: str, value: str | float) -> float:
    """A share of the baseline, written as "1.5%" or 0.015."""
    amount, _ = _tolerance(name, value, key)
    return amount


def _direction(name: str, unit: str) -> Better:
    if _is_rate(name, unit):
        raise _wrong(name, "it may be a rate, so say which way is better", "give it `better: higher` or `lower`")
    return "lower"


def _is_rate(name: str, unit: str) -> bool:
    return bool(_RATE_UNIT.search(unit)) or bool(_RATE_NAMES & set(re.split(r"[^a-z]+", name.lower())))


def _is_time(unit: str) -> bool:
    return unit.lower() in _TIMES


def _wrong(name: str, what: str, mend: str = _DECLARE) -> ConfigError:
    return ConfigError(Problem(what=f"metric `{name}`: {what}", mend=mend))
