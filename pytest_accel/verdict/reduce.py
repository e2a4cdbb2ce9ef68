"""One session's samples become one number, since a fresh process is the unit of the statistics and is what baselines store.

A time is reduced to its low twentieth, a rate to its high one: what disturbs a device only ever slows it, and a device at
its power limit steps between two speeds in the middle of its samples. On 14 unchanged sessions of two H200 the spread
between sessions (root mean square over 12 variants) is 0.4 to 0.7 % for the low twentieth and 0.8 to 3.8 % for the median,
on either half of the sessions. An older baseline holds medians; it says so by not naming a reduction, and is judged by medians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_accel.verdict.text import middle
from pytest_accel.verdict.types import Rule, Word

MEDIAN = ""
FAST_TWENTIETH = "q05"
REDUCTIONS = (MEDIAN, FAST_TWENTIETH)
_SHARE = 0.05


def reduction_for(rule: Rule | None) -> str:
    """How samples are reduced where no baseline says otherwise: timings with a direction to their fast twentieth."""
    directed = rule is not None and rule.kind == "timing" and rule.better != "equal"
    return FAST_TWENTIETH if directed else MEDIAN


def session_value(value: Word | Sequence[float], rule: Rule | None = None, reduction: str = MEDIAN) -> Word:
    """One session's observation reduced to what is stored: samples by ``reduction``, or to the first non-finite one."""
    if isinstance(value, (str, int, float)):
        return value
    numbers = [float(sample) for sample in value]
    wrong = [number for number in numbers if not math.isfinite(number)]
    if wrong:
        return wrong[0]
    if not numbers:
        return math.nan
    if reduction == FAST_TWENTIETH:
        return quantile(numbers, 1 - _SHARE if rule is not None and rule.better == "higher" else _SHARE)
    return middle(numbers)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan), at least one value."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    part = place - below
    return ordered[below] * (1 - part) + ordered[above] * part  # weighted: the difference of huge values overflows
