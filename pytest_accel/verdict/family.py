"""What all timings of a baseline file say together: how many are judged, how far sessions spread, how far devices differ.

A variant's own variance, from six sessions, is known to a factor of two; the file's other timings tell what variances are
likely, so each is drawn towards them (an empirical-Bayes, "moderated" variance: Smyth 2004, doi:10.2202/1544-6115.1027). All
of it comes from the file, never from what a run selected: a verdict does not depend on ``-k``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_accel.verdict.distributions import digamma, trigamma, trigamma_inverse
from pytest_accel.verdict.text import middle

LEAST_SPREAD = (
    2e-4  # no clock is truer: the steadiest of the recorded timings, a copy of 1 GiB, spreads by 2 to 3 parts in 1e4
)
FEW_VARIANCES = (
    10  # fewer do not say how variances vary: moderated by 3 to 8 of them, 2.4 % of suites had a false red, not 1 %
)


@dataclass(frozen=True)
class Series:
    """The accepted sessions of one timing: logarithms of the values, split by physical device."""

    groups: tuple[tuple[float, ...], ...]
    devices: tuple[str, ...]

    @property
    def count(self) -> int:
        """Sessions in all."""
        return sum(map(len, self.groups))

    @property
    def within(self) -> tuple[float, int]:
        """Variance between sessions of one device, pooled, and its degrees of freedom (0 where it cannot be told)."""
        squares, df = 0.0, 0
        for group in self.groups:
            mean = sum(group) / len(group)
            squares += sum((value - mean) ** 2 for value in group)
            df += len(group) - 1
        return (max(squares / df, LEAST_SPREAD**2), df) if df else (0.0, 0)

    @property
    def means(self) -> list[float]:
        """The mean of each device's sessions."""
        return [sum(group) / len(group) for group in self.groups]


def series(values: Sequence[float], devices: Sequence[str]) -> Series:
    """The series of accepted values (finite, positive; any unit). Where devices are not named, all are one."""
    by: dict[str, list[float]] = {}
    for index, value in enumerate(values):
        by.setdefault(devices[index] if index < len(devices) else "", []).append(math.log(value))
    return Series(tuple(map(tuple, by.values())), tuple(by))


@dataclass(frozen=True)
class Family:
    """What the timings of one baseline file share.

    ``size``: timings in it, between which the risk of a false alarm is divided. ``variance`` and ``df``: the likely variance
    between sessions (of logarithms), and how many degrees of freedom that knowledge is worth (0: none). ``device_variance``:
    between devices, pooled over the timings, and ``devices``: the most devices that one of them has sessions of (1: the file
    cannot tell).
    """

    size: int = 1
    variance: float = 0.0
    df: float = 0.0
    device_variance: float = 0.0
    devices: int = 1

    def moderated(self, own: float, df: int) -> tuple[float, float]:
        """A timing's own variance drawn towards the family's: the variance and its degrees of freedom."""
        if self.df + df <= 0:
            return LEAST_SPREAD**2, 0.0
        return max((self.df * self.variance + df * own) / (self.df + df), LEAST_SPREAD**2), self.df + df


ALONE = Family()  # of a timing without a file


def family_of(timings: Iterable[Series]) -> Family:
    """The family of a file's timings (those that have sessions to compare here)."""
    found = [timing for timing in timings if timing.count]
    known = [(variance, df) for variance, df in (timing.within for timing in found) if df]
    variance, df = _prior(known)
    partial = Family(max(1, len(found)), variance, df)
    between, devices = _between(found, partial)
    return Family(partial.size, variance, df, between, devices)


def _prior(known: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """The scaled inverse chi-squared prior that the variances show: (variance, df), by moments of their logarithms.

    It is worth at most as many degrees of freedom as there are variances to know it from.
    """
    if len(known) < FEW_VARIANCES:
        return 0.0, 0.0
    logs = [math.log(s2) - digamma(d / 2) + math.log(d / 2) for s2, d in known]
    mean = sum(logs) / len(logs)
    surplus = sum((e - mean) ** 2 for e in logs) / (len(logs) - 1) - sum(trigamma(d / 2) for _, d in known) / len(known)
    if surplus <= 1e-6:
        return math.exp(mean), float(len(known))
    df = min(2 * trigamma_inverse(surplus), float(len(known)))
    return math.exp(mean + digamma(df / 2) - math.log(df / 2)), df


def _between(found: Sequence[Series], family: Family) -> tuple[float, int]:
    """The variance between devices that the timings with several of them show, and the most devices of one; 0 where none.

    Their median, so that timings of the host's clock, which differ by a factor between machines, do not stand for the rest.
    Each is divided by the median of its distribution, chi-squared over its degrees of freedom (Wilson and Hilferty).
    """
    shown = []
    for timing in (timing for timing in found if len(timing.groups) > 1):
        usual = (1 - 2 / (9 * (len(timing.groups) - 1))) ** 3
        shown.append(own_between(timing, family.moderated(*timing.within)[0]) / usual)
    return (max(0.0, middle(shown)) if shown else 0.0), max((len(timing.groups) for timing in found), default=1)


def own_between(timing: Series, variance: float) -> float:
    """One timing's variance between its devices, at least two: that of their means less what sessions explain (may be < 0)."""
    means = timing.means
    centre = sum(means) / len(means)
    spread = sum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    return spread - variance * sum(1 / len(group) for group in timing.groups) / len(means)
