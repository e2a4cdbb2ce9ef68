"""The words of a verdict, and what travels into and out of the judging functions. Imports neither torch nor pytest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from pytest_accel.verdict.family import ALONE, Family

Better = Literal["lower", "higher", "equal"]
Kind = Literal["timing", "memory", "exact", "info"]
Word = str | int | float | bool

BETWEEN_DEVICES = 0.025  # two healthy H200: attention decode by 2.3 and 2.2 %, eleven other timings by at most 1.3 %

OUTCOME = "(outcome)"  # the metric name under which an entry holds that a variant gives no metrics, and how


class Verdict(str, Enum):
    """Worst first: comparing by position in this list is the order of badness."""

    REGRESSION = "REGRESSION"
    ENV = "ENV"
    UNMEASURED = "UNMEASURED"
    INCONCLUSIVE = "INCONCLUSIVE"
    MISSING = "MISSING"
    NEW = "NEW"
    WAIVED = "WAIVED"
    IMPROVED = "IMPROVED"
    PASS = "PASS"

    @property
    def badness(self) -> int:
        """0 for the best verdict, larger for worse ones."""
        return len(Verdict) - 1 - list(Verdict).index(self)


@dataclass(frozen=True)
class Rule:
    """How one metric is judged: the workload's declaration with the suite's overrides laid over it.

    ``kind``: "timing" and "memory" cannot be judged where settings differ; "timing" is confirmed in a fresh process
    before it is called worse; "exact" is compared as it is; "info" is stored and never judged. ``worse_by`` is relative
    to the baseline where ``relative`` is true, else in ``unit``; infinite: only limits judge. ``order`` lists words
    from best to worst. ``floor`` is an absolute change, in ``unit``, below which nothing is worse. ``declared`` is
    False where neither workload nor suite says how to judge it, so that it is held equal.

    ``effect``: the share by which a timing must be worse where its baseline holds enough sessions to tell chance from
    change; None: ``worse_by``. ``between_devices``: how far two healthy devices of one model differ, as a share.
    ``promised``: the gain over the baseline that must come, as (amount, relative); None: none was promised.
    """

    kind: Kind = "exact"
    unit: str = ""
    better: Better = "equal"
    worse_by: float = 0.0
    relative: bool = True
    floor: float = 0.0
    min: float | None = None
    max: float | None = None
    equals: Word | None = None
    order: tuple[str, ...] = ()
    declared: bool = True
    effect: float | None = None
    between_devices: float = BETWEEN_DEVICES
    promised: tuple[float, bool] | None = None

    @property
    def has_limit(self) -> bool:
        """True where a limit of its own can judge the metric without a baseline."""
        return self.min is not None or self.max is not None or self.equals is not None


@dataclass(frozen=True)
class Accepted:
    """The accepted values of one metric: one per session of the baseline that may be compared here, oldest first.

    Empty where the entry has the metric but no session that may be compared here (a timing of another CPU model).
    ``devices``: the physical device of each value (hashed), none where it is not known; ``reduced``: how samples became
    one value (``verdict.reduce``).
    """

    values: tuple[Word, ...]
    devices: tuple[str, ...] = ()
    reduced: str = ""


@dataclass(frozen=True)
class Entry:
    """A baseline entry as the judge sees it.

    ``work_version`` and ``digest`` say what was measured; ``settings`` are those of the entry's newest comparable
    session; ``known_bad`` names metrics whose value is an accepted fault, judged PASS while unchanged; a non-finite one
    stands in ``metrics`` as the word "nan", "inf" or "-inf"; the name ``OUTCOME`` stands for a variant that gives no
    metrics, and its value says how ("crash", "timeout", …). ``family``: what the timings of the whole file share.
    """

    metrics: Mapping[str, Accepted]
    work_version: int = 1
    digest: str = ""
    settings: Mapping[str, Word | None] = field(default_factory=dict)
    known_bad: frozenset[str] = frozenset()
    family: Family = ALONE


@dataclass(frozen=True)
class WaiverRule:
    """A waiver as the judge sees it; ``up_to`` maps a metric to (amount, relative)."""

    up_to: Mapping[str, tuple[float, bool]]
    status: tuple[str, ...]
    reason: str
    issue: str
    expires: datetime.date


@dataclass(frozen=True)
class Observation:
    """One session's values of one variant: a number, a word, or the session's samples, by metric."""

    metrics: Mapping[str, Word | tuple[float, ...]]
    settings: Mapping[str, Word | None] = field(default_factory=dict)
    work_version: int = 1
    digest: str = ""


@dataclass(frozen=True)
class MetricVerdict:
    """One metric, judged.

    ``change`` is relative (0.03 is 3 %) where the baseline is a number that is not 0, else None.
    """

    value: Word | None
    unit: str
    better: Better | None
    baseline: Word | None
    change: float | None
    limit: Word | None
    verdict: Verdict | None
    code: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """A variant, judged: the worst of its metrics, with the sentence that says why.

    ``suspects`` names timings that look worse and need another session in a fresh process before they may be called so.
    ``judged`` is True where at least one metric was compared with a baseline or a limit.
    """

    verdict: Verdict
    code: str
    reason: str
    metrics: Mapping[str, MetricVerdict] = field(default_factory=dict)
    suspects: tuple[str, ...] = ()
    judged: bool = False
