"""Advisory change points of a series of nightly values: where its level moved and stayed. The gate never reads them.

The search is ruptures' kernel change point detection (linear kernel, exact, penalised). What is ours: the noise is estimated
from the differences of neighbours, which a step of the level moves once and not at every run; values are cut at ``CLIP`` of it,
so that a single bad night is not a change; and a change counts only if the medians of both sides differ by ``EFFECT`` of the
level and by ``SEPARATION`` standard deviations. ``benchmarks/change_points.py`` measures false alarms and power of this code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: Runs a level must last: fewer say nothing yet, so that a change is reported four nights late.
SHORTEST = 5
#: Where values are cut, in standard deviations from the median.
CLIP = 4.0
#: The penalty of one more change, in variances times log(n). 2 is the usual criterion of independent normal noise; nights are
#: neither, and the rates in docs/reports.md are those of this value.
PENALTY = 12.0
#: The smallest change worth a word, relative to the level before: the effect of the gate's own timing rule.
EFFECT = 0.015
SEPARATION = 2.0
#: The standard deviation of a normal sample is 1.4826 of its median absolute deviation; a difference has twice the variance.
_MAD_TO_SIGMA = 1.4826
#: What a series without any noise is taken to have, relative to its level: the resolution of float32 counters.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class Change:
    """The level moved at ``place`` (index of the first value of the new level) from ``before`` to ``after`` (medians)."""

    place: int
    before: float
    after: float

    @property
    def relative(self) -> float:
        """The move relative to the level before; infinite from a level of 0."""
        return self.after / self.before - 1 if self.before else math.copysign(math.inf, self.after)


def change_points(values: Sequence[float]) -> list[Change]:
    """The changes of the level of finite ``values``, oldest first; none for fewer than two levels' worth of values.

    Raises ImportError where ruptures (extra ``history``) is not installed.
    """
    if len(values) < 2 * SHORTEST:
        return []
    import numpy as np
    import ruptures

    series = np.asarray(values, dtype=float)
    sigma = noise(values)
    middle = median(values)
    cut = np.clip((series - middle) / sigma, -CLIP, CLIP)
    found = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST, jump=1).fit(cut.reshape(-1, 1))
    ends = found.predict(pen=PENALTY * math.log(len(values)))
    places = [0, *(int(end) for end in ends)]
    levels = [median(values[start:end]) for start, end in itertools.pairwise(places)]
    changes = []
    for place, before, after in zip(places[1:], levels, levels[1:], strict=False):
        moved = abs(after - before)
        if moved >= SEPARATION * sigma and moved >= EFFECT * abs(before):
            changes.append(Change(place, before, after))
    return changes


def noise(values: Sequence[float]) -> float:
    """The standard deviation of a value about its level, from the differences of neighbours; above 0."""
    differences = [after - before for before, after in itertools.pairwise(values)]
    centre = median(differences)
    spread = _MAD_TO_SIGMA * median(abs(each - centre) for each in differences) / math.sqrt(2)
    return max(spread, _LEAST_NOISE * abs(median(values)), math.ulp(0.0) * 1e6)
