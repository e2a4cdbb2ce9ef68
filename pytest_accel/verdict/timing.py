"""How a timing is judged: by fresh processes, not by samples.

Within one process samples agree far better than processes do, so a test on samples alarms on nothing, and a second look
only counts in a new process. Hence: one session screens; what looks worse is measured again in fresh processes; it is
worse where the median of the sessions is beyond the limit and every session is on the worse side of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.verdict.text import middle, relative_change, share, show, spread, standard_error
from pytest_accel.verdict.types import Rule, Verdict, Word

SLACK = 1e-12  # a value that equals its limit but for the rounding of the limit itself is not beyond it
CLEARLY = 3.0  # standard errors; and times the tolerance, for a single session that cannot be confirmed


def session_value(value: Word | Sequence[float], rule: Rule | None = None) -> Word:
    """One session's observation reduced to what is stored: samples to their median, or to the first non-finite one."""
    if isinstance(value, (str, int, float)):
        return value
    numbers = [float(sample) for sample in value]
    wrong = [number for number in numbers if not math.isfinite(number)]
    return wrong[0] if wrong else middle(numbers) if numbers else math.nan


@dataclass(frozen=True)
class Finding:
    """A metric compared with its baseline: verdict, stable code, sentence, and whether a fresh session is wanted."""

    verdict: Verdict
    code: str
    reason: str
    limit: Word | None = None
    suspect: bool = False


def allowance(rule: Rule, baseline: float) -> float:
    """By how much, in the metric's unit, a value may be worse: worse_by and floor must both be exceeded.

    A relative tolerance of a baseline of 0 is 0, so there only the floor counts. Infinite where only limits judge.
    """
    if math.isinf(rule.worse_by):
        return math.inf
    amount = rule.worse_by * abs(baseline) if rule.relative else rule.worse_by
    return max(amount, rule.floor)


def worsening(rule: Rule, value: float, baseline: float) -> float:
    """How much worse the value is than the baseline, in the metric's unit: positive is worse."""
    if rule.better == "equal":
        return abs(value - baseline)
    return value - baseline if rule.better == "lower" else baseline - value


def beyond(worse: float, allowed: float, scale: float) -> bool:
    """True where a worsening exceeds what is allowed, by more than the rounding of numbers of this scale."""
    return worse > allowed and (allowed == 0 or worse - allowed > SLACK * max(abs(scale), allowed))


def limit_of(rule: Rule, baseline: float, allowed: float) -> float | None:
    """The worst value that is still allowed; None where there is none."""
    limit = baseline - allowed if rule.better == "higher" else baseline + allowed
    return limit if math.isfinite(limit) else None


def undecided(suspects: int, sessions: int, sessions_left: int) -> bool:
    """True where fresh sessions are to be had and a majority of sound ones is not there yet."""
    return suspects > 0 and sessions_left > 0 and 2 * (sessions - suspects) <= sessions + sessions_left


def judge_timing(
    name: str,
    rule: Rule,
    sessions: Sequence[float],
    samples: Sequence[Sequence[float]],
    accepted: Sequence[float],
    *,
    sessions_left: int,
    needed: int,
    in_process: bool,
) -> Finding:
    """Judge one timing against its baseline.

    ``sessions``: each session's median, in the metric's unit, finite and at least one; ``samples``: the samples of each
    session (may be empty); ``accepted``: one value per baseline session, at least one.
    """
    base = middle(accepted)
    allowed = allowance(rule, base)
    worse = [worsening(rule, value, base) for value in sessions]
    now = middle(sessions)
    now_worse = worsening(rule, now, base)
    limit = limit_of(rule, base, allowed)
    few = "" if len(accepted) >= needed else f"; provisional, {len(accepted)} of {needed} sessions"
    said = _sentence(name, rule, now, base, limit, len(sessions))
    suspects = sum(beyond(each, allowed, base) for each in worse)
    can_ask = sessions_left > 0 and not in_process

    error = middle([standard_error(each) for each in samples] or [0.0]) / math.sqrt(len(sessions))
    if error > allowed and abs(now_worse - allowed) <= CLEARLY * error:
        takes = _takes(error * math.sqrt(len(sessions)), allowed)
        why = f"{said}; too noisy to see it: the median's standard error is {show(error, rule.unit)}{takes}"
        return Finding(Verdict.INCONCLUSIVE, "too-noisy", why + few, limit, suspect=can_ask)

    if can_ask and undecided(suspects, len(sessions), sessions_left):
        why = f"{said}; suspect in {suspects} of {_sessions(len(sessions))}, wants a fresh process to confirm it"
        return Finding(Verdict.INCONCLUSIVE, "suspect", why + few, limit, suspect=True)

    if beyond(now_worse, allowed, base):
        if in_process and len(sessions) == 1 and now_worse <= CLEARLY * allowed:
            why = f"{said}; no fresh process can confirm it here, and it is not beyond three times the tolerance"
            return Finding(Verdict.INCONCLUSIVE, "unconfirmed", why + few, limit)
        if min(worse) <= 0:  # implies a spread beyond the tolerance
            takes = _takes(2 * spread(sessions), allowed)  # two standard errors of their mean within the tolerance
            why = f"{said}; the sessions disagree ({_all(sessions, rule)}){takes}"
            return Finding(Verdict.INCONCLUSIVE, "sessions-disagree", why + few, limit)
        return Finding(Verdict.REGRESSION, "worse", f"{said}, in {_sessions(len(sessions))}{few}", limit)

    if rule.better != "equal" and all(beyond(-each, allowed, base) for each in worse):
        return Finding(Verdict.IMPROVED, "improved", f"{said}: better by more than its tolerance{few}", limit)
    if suspects:
        why = f"{said}; looked worse in {suspects} of {_sessions(len(sessions))} and was not reproduced{few}"
        return Finding(Verdict.PASS, "not-reproduced", why, limit)
    return Finding(Verdict.PASS, "", said + few, limit)


def _sentence(name: str, rule: Rule, value: float, base: float, limit: float | None, sessions: int) -> str:
    change = relative_change(value, base)
    by = f" ({share(change)})" if change is not None else ""
    until = f", limit {show(limit, rule.unit)}" if limit is not None else ""
    median = "median " if sessions > 1 else ""
    return f"{name}: {median}{show(value, rule.unit)} against {show(base, rule.unit)}{by}{until}"


def _takes(error: float, allowed: float) -> str:
    """How many sessions bring an error that falls with their square root below what is allowed."""
    sessions = (error / allowed) ** 2 if allowed > 0 and error < 1e3 * allowed else math.inf
    if math.isinf(sessions):
        return "; no number of sessions that can be run shows so small a tolerance, give it a wider worse_by or a floor"
    return f"; it would take about {max(2, math.ceil(sessions))} sessions"


def _sessions(count: int) -> str:
    return f"{count} session" + ("" if count == 1 else "s")


def _all(sessions: Sequence[float], rule: Rule) -> str:
    return ", ".join(show(value) for value in sessions) + f" {rule.unit}".rstrip()
