"""Is memory growing? A robust slope over a soak, with an interval that allows for samples that hang together.

Pure functions, no torch. Bytes in, megabytes (1e6 bytes) an hour out.

The slope is the median of all slopes between two points (Theil 1950, Sen 1968), so that a few odd samples do not move it.
Its interval comes from the ordered slopes and the variance of Kendall's S (Sen 1968, n(n-1)(2n+5)/18), times
(1 + r) / (1 - r) for residuals of lag-one correlation r (Hamed and Rao 1998, for AR(1)): memory now is much like
memory just before, and an interval that ignored it would call every slow wave a leak.

Memory grows lawfully while caches and allocators fill up, so only the second half of a soak is judged: an allocator that
reached its plateau by then passes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MB = 1e6
SETTLE = 0.5  # share of the soak in which caches and pools may fill
BLOCKS = 40  # medians that the judged part is reduced to: enough for a slope, few enough that neighbours differ in kind
FEWEST_SAMPLES = 20  # fewer in the judged half, and there is no interval worth the name
CONFIDENCE = 0.99
SEEN = (
    2.0  # half-widths above the floor at which 9 of 10 soaks see it: one for the interval, one for chance (simulated)
)
MOST_CORRELATED = 0.9  # beyond, residuals are a random walk, of which no interval can be told from so few blocks
STEPS = (
    4.0  # growth by whole allocation steps looks like a line from about four steps on (simulated: see docs/memory.md)
)


@dataclass(frozen=True)
class Line:
    """A slope with its interval, in units of y a unit of x, and the residuals' lag-one correlation."""

    slope: float
    low: float
    high: float
    correlation: float


@dataclass(frozen=True)
class Growth:
    """What a soak says of one series. Megabytes an hour, unless said otherwise.

    ``low`` and ``high`` are the ends of the slope's interval; ``smallest`` is the smallest slope that this soak could have
    seen; ``leaking`` says that it grows beyond the floor; ``per_1000`` (with its ends) is megabytes a thousand requests.
    """

    slope: float
    low: float
    high: float
    smallest: float
    leaking: bool
    per_1000: float
    per_1000_low: float
    per_1000_high: float
    correlation: float


def growth(
    seconds: Sequence[float],
    requests: Sequence[float],
    held: Sequence[float],
    *,
    floor: float,
    step: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Growth | None:
    """Judge one series: ``held`` bytes after so many ``seconds`` and ``requests`` since the soak began (all ascending).

    ``floor`` in MB an hour: growth below it is none. ``step`` in bytes: what the allocator takes at a time. None where
    the soak gave too few samples (fewer than 20 in its second half).
    """
    if not len(seconds) == len(requests) == len(held):
        raise ValueError("a sample has a time, a number of requests and a number of bytes")
    if not seconds:
        return None
    begin = seconds[0] + SETTLE * (seconds[-1] - seconds[0])
    first = next(i for i, at in enumerate(seconds) if at >= begin)
    if len(seconds) - first < FEWEST_SAMPLES:
        return None
    hours = _blocks([each / 3600 for each in seconds[first:]])
    thousands = _blocks([each / 1000 for each in requests[first:]])
    mb = _blocks([each / MB for each in held[first:]])
    by_time = line(hours, mb, confidence)
    by_work = line(thousands, mb, confidence)
    return Growth(
        slope=by_time.slope,
        low=by_time.low,
        high=by_time.high,
        smallest=_smallest((by_time.high - by_time.low) / 2, hours[-1] - hours[0], floor, step),
        leaking=by_time.low > floor,
        per_1000=by_work.slope,
        per_1000_low=by_work.low,
        per_1000_high=by_work.high,
        correlation=by_time.correlation,
    )


def _smallest(width: float, hours: float, floor: float, step: float) -> float:
    """The least slope whose interval would lie above the floor in 9 of 10 such soaks, and that is some steps high."""
    by_step = STEPS * step / MB / hours if hours > 0 else math.inf
    return floor + max(SEEN * width, by_step)


def line(x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE) -> Line:
    """Theil and Sen's slope of y over x (at least 3 points, x ascending) with its interval at ``confidence``."""
    slopes = sorted((y[j] - y[i]) / (x[j] - x[i]) for i in range(len(x)) for j in range(i + 1, len(x)) if x[j] > x[i])
    if len(x) < 3 or not slopes:
        raise ValueError("a slope needs three points at different places")
    slope = statistics.median(slopes)
    correlation = _correlation([b - slope * a for a, b in zip(x, y, strict=True)])
    count = len(x)
    variance = count * (count - 1) * (2 * count + 5) / 18 * (1 + correlation) / (1 - correlation)
    width = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
    lower = max(0, math.floor((len(slopes) - width) / 2) - 1)
    upper = min(len(slopes) - 1, math.ceil((len(slopes) + width) / 2))
    return Line(slope, slopes[lower], slopes[upper], correlation)


def _correlation(residuals: Sequence[float]) -> float:
    """Lag-one correlation, corrected for the bias of a short series whose line was taken out, within 0 to 0.9.

    Kendall (1954): the estimate of r from n residuals lacks about (1 + 3r) / n for the mean, and as much for the slope.
    """
    mean = statistics.fmean(residuals)
    around = [each - mean for each in residuals]
    power = math.fsum(each * each for each in around)
    if power <= 0:
        return 0.0
    count = len(around)
    found = math.fsum(a * b for a, b in itertools.pairwise(around)) / power
    return min(max((count * found + 2) / (count - 6), 0.0), MOST_CORRELATED) if count > 6 else MOST_CORRELATED


def _blocks(values: Sequence[float]) -> list[float]:
    """The medians of ``BLOCKS`` parts of equal length (of the samples themselves where they are fewer)."""
    count = min(BLOCKS, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    return [statistics.median(values[a:b]) for a, b in itertools.pairwise(edges)]
