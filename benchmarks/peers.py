"""What a user would otherwise gate with, applied to two recorded sessions: the saved run and the new one.

Each rule says whether the new session's samples are slower than the saved one's. Lower is better throughout.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from statistics import NormalDist

Samples = Sequence[float]
Slower = Callable[[Samples, Samples], bool]

MWU_LEVEL = 0.002  # asv's level, two-sided
GAP = 0.005  # nvbench's robust comparison: a gap of 0.5 % between the intervals [min, third quartile]


def compare_fail(stat: Callable[[Samples], float], share: float) -> Slower:
    """pytest-benchmark's ``--benchmark-compare-fail=stat:N%`` of two saved runs."""
    return lambda old, new: stat(new) > stat(old) * (1 + share)


def mann_whitney(old: Samples, new: Samples) -> bool:
    """Mann-Whitney's U on the samples, normal approximation with ties and continuity (as SciPy's asymptotic method)."""
    merged = sorted([(value, 0) for value in old] + [(value, 1) for value in new])
    ranks = [0.0, 0.0]
    ties, start, total = 0.0, 0, len(merged)
    while start < total:
        end = start
        while end < total and merged[end][0] == merged[start][0]:
            end += 1
        for place in range(start, end):
            ranks[merged[place][1]] += (start + 1 + end) / 2
        ties += (end - start) ** 3 - (end - start)
        start = end
    n, m = len(old), len(new)
    u = ranks[1] - m * (m + 1) / 2
    deviation = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    if deviation == 0:
        return False
    z = (u - n * m / 2 - 0.5) / deviation
    return 2 * (1 - NormalDist().cdf(z)) < MWU_LEVEL if z > 0 else False


def interval_gap(old: Samples, new: Samples) -> bool:
    """Intervals [min, third quartile] apart by 0.5 %, as nvbench's robust comparison asks of times (not of cycles)."""
    return min(new) > statistics.quantiles(old, n=4, method="inclusive")[2] * (1 + GAP)


def rules() -> dict[str, Slower]:
    """All rules, by the name that the table has."""
    found: dict[str, Slower] = {}
    for name, stat in (("min", min), ("mean", statistics.fmean), ("median", statistics.median)):
        for share in (0.02, 0.05):
            found[f"pytest-benchmark {name}:{share:.0%}"] = compare_fail(stat, share)
    found[f"Mann-Whitney p<{MWU_LEVEL}"] = mann_whitney
    found["interval gap 0.5 % (nvbench-like)"] = interval_gap
    return found
