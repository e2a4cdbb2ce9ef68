"""Numbers and words as sentences show them, and reducing one session's observation to one value."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence


def as_number(value: object) -> float | None:
    """The value as a float, None for a word; an integer too large for a float is infinite."""
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def show(value: object, unit: str = "") -> str:
    """A value in a sentence: six significant digits, or the word as it is, with its unit."""
    number = as_number(value)
    if number is None or isinstance(value, bool):
        return f"`{value}`"
    return f"{number:.6g} {unit}".rstrip()


def share(change: float) -> str:
    """A relative change in a sentence: ``+3.2 %``."""
    return f"{change * 100:+.3g} %"


def relative_change(value: object, baseline: object) -> float | None:
    """(value - baseline) / |baseline|; None for words, and where the baseline is 0 or the quotient not finite."""
    new, old = as_number(value), as_number(baseline)
    if new is None or old is None or old == 0:
        return None
    change = new / abs(old) - math.copysign(1.0, old)  # divided first: the difference of two floats may overflow
    return change if math.isfinite(change) else None


def middle(values: Sequence[float]) -> float:
    """The median; safe for huge values, whose sum overflows."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else ordered[half - 1] / 2 + ordered[half] / 2


def standard_error(samples: Sequence[float]) -> float:
    """The standard error of the median of one session's samples, from their median absolute deviation.

    For normal samples sd = 1.4826 MAD and the median's error is sqrt(pi / 2) sd / sqrt(n). 0 below three samples, where
    it cannot be told, and for samples without variance.
    """
    if len(samples) < 3:
        return 0.0
    centre = middle(samples)
    deviation = middle([abs(sample - centre) for sample in samples])
    return math.sqrt(math.pi / 2) * 1.4826 * deviation / math.sqrt(len(samples))


def spread(values: Sequence[float]) -> float:
    """The sample standard deviation; 0 for fewer than two values."""
    scale = max((abs(value) for value in values), default=0.0)
    if len(values) < 2 or scale == 0:
        return 0.0
    return statistics.stdev([value / scale for value in values]) * scale  # scaled: squares of huge values overflow


def differing_settings(accepted: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """A phrase for each setting that differs from the accepted one, both values named, sorted.

    A setting that the entry does not name is not compared: it was stored before the plugin read that setting. One that
    the entry names and this run could not read differs.
    """
    return [
        f"{name} was {show(old)}, now {show(now.get(name))}"
        for name, old in sorted(accepted.items())
        if now.get(name) != old
    ]
