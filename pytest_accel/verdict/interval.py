"""Where new sessions of an unchanged timing are expected, and how far off is more than chance.

Logarithms of values are modelled as ``mean + device + session``, both normal. The prediction for the device of a run is the
best linear one: its own sessions, drawn towards those of other devices as far as devices are alike; a device without
sessions gets the mean of devices with the spread between devices in its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_accel.verdict.distributions import normal_quantile, t_upper
from pytest_accel.verdict.family import Family, Series, own_between

# Chance that a suite of unchanged timings shows any false red. The promise is 1 %; the rest goes to what the formulas take for
# known: with variances spread log-normally and estimated from 12 timings, 1 % in the formulas was 1.4 % of 6000 simulated suites.
FALSE_RED = 0.006
SCREEN = 0.01  # chance that one unchanged timing is measured again
PAIR = (
    0.001  # the share of pairs of healthy devices that differ by more than what a metric declares as their difference
)
PRIOR_DEVICES = 3  # the declared difference between devices counts like three devices of the baseline's own
_MEDIAN_VARIANCE = {
    1: 1.0,
    2: 0.5,
    3: 0.4487,
    4: 0.2982,
    5: 0.2868,
}  # of normal order statistics, in units of one's own


@dataclass(frozen=True)
class Prediction:
    """Where the median of new sessions is expected, in logarithms.

    ``centre``: the expected value; ``session``: variance of one session; ``own``: the part of the centre's variance that
    sessions cause, in units of ``session``; ``df``: its degrees of freedom; ``device``: the part that devices cause.
    ``size``: timings that share the risk.
    """

    centre: float
    session: float
    own: float
    df: float
    device: float
    size: int

    def reach(self, sessions: int, tail: float | None = None) -> float:
        """How far the median of ``sessions`` may be off by chance, in logarithms, on one side.

        ``tail``: the chance to be farther off, where it is not this timing's share of FALSE_RED.
        """
        risk = FALSE_RED / self.size if tail is None else tail
        scatter = t_upper(risk, _steps(self.df)) * math.sqrt(self.session * (median_variance(sessions) + self.own))
        return math.hypot(scatter, self.apart(risk) if tail is None else normal_quantile(1 - tail) * self.device**0.5)

    def apart(self, risk: float) -> float:
        """How far devices alone may put it off, at least what is declared for them: so far healthy ones were seen to differ."""
        return normal_quantile(1 - min(risk, PAIR)) * math.sqrt(self.device)

    def takes(self, tolerance: float) -> float:
        """About how many sessions, in the baseline and in a run each, bring the reach below ``tolerance``; may be infinite."""
        risk = FALSE_RED / self.size
        room = tolerance**2 - self.apart(risk) ** 2
        if room <= 0:
            return math.inf
        count = 2.0
        for _ in range(20):  # more sessions are also more degrees of freedom
            needed = self.session * t_upper(risk, _steps(self.df + max(0.0, count - 6))) ** 2 * (math.pi / 2 + 1) / room
            count = (count + needed) / 2 if math.isfinite(needed) else count * 2
        return math.ceil(max(count, 2.0))


def _steps(df: float) -> float:
    """Degrees of freedom rounded down to tenths, above 30 to whole ones: few different quantiles are wanted then."""
    return df if math.isinf(df) else math.floor(df) if df > 30 else math.floor(df * 10) / 10


def median_variance(sessions: int) -> float:
    """The variance of the median of ``sessions`` normal values, in units of theirs."""
    return _MEDIAN_VARIANCE.get(sessions, math.pi / 2 / sessions)


def predict(timing: Series, family: Family, device: str, difference: float) -> Prediction:
    """Where unchanged sessions on ``device`` are expected.

    ``timing`` holds at least one session; ``difference``: how far two healthy devices of one model differ in this metric, as
    a share. Where neither the file nor the timing shows sessions of one device side by side, all are taken as of one device.
    """
    session, df = family.moderated(*timing.within)
    if df <= 0:
        timing = Series((tuple(value for group in timing.groups for value in group),), ("",))
        session, df = family.moderated(*timing.within)
    between = _device_variance(timing, family, session, difference)
    weights = [1 / (between + session / len(group)) for group in timing.groups]
    total = sum(weights)
    mean = sum(w * m for w, m in zip(weights, timing.means, strict=True)) / total
    place = own_place(timing, device)
    if place is None:
        return _split(mean, session, df, between + 1 / total, session / timing.count, family.size)
    count = len(timing.groups[place])
    drawn = between / (between + session / count)
    centre = mean + drawn * (timing.means[place] - mean)
    variance = between * (1 - drawn) + (1 - drawn) ** 2 / total
    return _split(centre, session, df, variance, min(variance, session / count), family.size)


def own_place(timing: Series, device: str) -> int | None:
    """Which of the series' devices the run's is; None where it is none of them."""
    if not device or timing.devices == ("",):
        return 0 if len(timing.groups) == 1 else None
    return timing.devices.index(device) if device in timing.devices else None


def prior_variance(difference: float) -> float:
    """The variance of one device such that two differ by more than ``difference`` (a share) only in PAIR of cases."""
    return (math.log1p(difference) / normal_quantile(1 - PAIR)) ** 2 / 2


def _device_variance(timing: Series, family: Family, session: float, difference: float) -> float:
    """The declared variance between devices, the file's and the timing's own, weighed by how many devices each knows."""
    declared = prior_variance(difference)
    if family.devices < 2:
        return declared
    own = len(timing.groups) - 1
    other = family.devices - 1
    of_own = max(0.0, own_between(timing, session)) if own else 0.0
    return (PRIOR_DEVICES * declared + other * family.device_variance + own * of_own) / (PRIOR_DEVICES + other + own)


def _split(centre: float, session: float, df: float, variance: float, scatter: float, size: int) -> Prediction:
    """A prediction whose variance is split into the part that sessions cause and the rest, which devices cause."""
    return Prediction(centre, session, scatter / session, df, max(0.0, variance - scatter), size)
