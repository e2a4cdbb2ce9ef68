"""How a timing is judged: by fresh processes, not by samples.

Within one process samples agree far better than processes do, so a test on samples alarms on nothing, and a second look
only counts in a new process. Hence: one session screens; what looks worse is measured again in fresh processes; it is
worse where the median of the sessions is beyond the limit and every session is on the worse side of the baseline. With
enough baseline sessions the limit is an effect that matters and a distance that chance does not reach (``bounds``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.verdict.bounds import HOPELESS, Bounds, allowance, bounds_of
from pytest_accel.verdict.family import Family
from pytest_accel.verdict.text import middle, relative_change, share, show, spread, standard_error
from pytest_accel.verdict.types import Accepted, Rule, Verdict, Word

SLACK = 1e-12  # a value that equals its limit but for the rounding of the limit itself is not beyond it
CLEARLY = 3.0  # standard errors; and times the tolerance, for a single session that cannot be confirmed


@dataclass(frozen=True)
class Finding:
    """A metric compared with its baseline: verdict, stable code, sentence, and whether a fresh session is wanted.

    ``baseline``: what it was compared with, where that is not the median of the accepted values; ``chance``: how far, in
    the metric's unit, chance alone reaches (0 where it is not known).
    """

    verdict: Verdict
    code: str
    reason: str
    limit: Word | None = None
    suspect: bool = False
    baseline: float | None = None
    chance: float = 0.0


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
    accepted: Accepted,
    *,
    family: Family,
    device: str,
    sessions_left: int,
    needed: int,
    in_process: bool,
) -> Finding:
    """Judge one timing against its baseline.

    ``sessions``: each session's value, in the metric's unit, finite and at least one; ``samples``: the samples of each
    session (may be empty); ``accepted``: at least one number; ``device``: the physical device of the run (hashed), "" where
    it is not known.
    """
    can_ask = sessions_left > 0 and not in_process
    held = bounds_of(
        rule,
        [float(value) for value in accepted.values if not isinstance(value, str)],
        accepted.devices,
        family,
        device,
        sessions=len(sessions),
        sessions_in_all=len(sessions) + (sessions_left if can_ask else 0),
        needed=needed,
    )
    now = middle(sessions)
    said = _sentence(name, rule, now, held, len(sessions))
    verdict, code, why, suspect = _decide(
        rule, sessions, samples, held, said, sessions_left if can_ask else 0, in_process
    )
    limit = limit_of(rule, held.base, held.allowed)
    return Finding(verdict, code, why + held.note, limit, suspect, held.base if held.proven else None, held.chance)


def _decide(
    rule: Rule,
    sessions: Sequence[float],
    samples: Sequence[Sequence[float]],
    held: Bounds,
    said: str,
    sessions_left: int,
    in_process: bool,
) -> tuple[Verdict, str, str, bool]:
    """Verdict, code, sentence, and whether a fresh session is wanted."""
    base, allowed, count = held.base, held.allowed, len(sessions)
    worse = [worsening(rule, value, base) for value in sessions]
    now_worse = worsening(rule, middle(sessions), base)
    suspects = sum(beyond(each, held.screen, base) for each in worse)

    error = middle([standard_error(each) for each in samples] or [0.0]) / math.sqrt(count)
    if error > max(allowed, held.tolerance) and abs(now_worse - allowed) <= CLEARLY * error:
        takes = _takes(error * math.sqrt(count), allowed)
        why = f"{said}; too noisy to see it: the median's standard error is {show(error, rule.unit)}{takes}"
        return Verdict.INCONCLUSIVE, "too-noisy", why, sessions_left > 0

    if undecided(suspects, count, sessions_left):
        why = f"{said}; suspect in {suspects} of {_sessions(count)}, wants a fresh process to confirm it"
        return Verdict.INCONCLUSIVE, "suspect", why, True

    if beyond(now_worse, allowed, base):
        if in_process and count == 1 and now_worse <= CLEARLY * allowance(rule, base):
            why = f"{said}; no fresh process can confirm it here, and it is not beyond three times the tolerance"
            return Verdict.INCONCLUSIVE, "unconfirmed", why, False
        if min(worse) <= SLACK * abs(base):  # implies a spread beyond the tolerance
            takes = _takes(2 * spread(sessions), allowed)  # two standard errors of their mean within the tolerance
            why = f"{said}; the sessions disagree ({_all(sessions, rule)}){takes}"
            return Verdict.INCONCLUSIVE, "sessions-disagree", why, False
        return Verdict.REGRESSION, "worse", f"{said}, in {_sessions(count)}", False

    noisy = _too_noisy(rule, held, now_worse)
    if noisy:
        return Verdict.INCONCLUSIVE, "too-noisy", said + noisy, False
    if rule.better != "equal" and all(beyond(-each, allowed, base) for each in worse):
        return Verdict.IMPROVED, "improved", f"{said}: better by more than its tolerance", False
    if suspects:
        why = f"{said}; looked worse in {suspects} of {_sessions(count)} and was not reproduced"
        return Verdict.PASS, "not-reproduced", why, False
    return Verdict.PASS, "", said, False


def _too_noisy(rule: Rule, held: Bounds, now_worse: float) -> str:
    """Why a timing that is not worse for sure cannot be called sound either; "" where it can."""
    if not held.proven or not held.tolerance:
        return ""
    if held.best > HOPELESS * held.tolerance:
        apart = f" (the one of {show(held.odd, rule.unit)} stands apart: record the entry anew)" if held.odd else ""
        what = f"the accepted sessions differ so much{apart} that chance alone reaches {show(held.best, rule.unit)}"
    elif beyond(now_worse, held.tolerance, held.base):
        what = f"it is beyond the tolerance, and chance alone reaches {show(held.chance, rule.unit)}"
    else:
        return ""
    return f"; too noisy to see a change of {show(held.tolerance, rule.unit)}: {what}{_enough(held.takes)}"


def _sentence(name: str, rule: Rule, value: float, held: Bounds, sessions: int) -> str:
    change = relative_change(value, held.base)
    by = f" ({share(change)})" if change is not None else ""
    limit = limit_of(rule, held.base, held.allowed)
    until = f", limit {show(limit, rule.unit)}" if limit is not None else ""
    median = "median " if sessions > 1 else ""
    return f"{name}: {median}{show(value, rule.unit)} against {show(held.base, rule.unit)}{by}{until}"


def _takes(error: float, allowed: float) -> str:
    """How many sessions bring an error that falls with their square root below what is allowed."""
    sessions = (error / allowed) ** 2 if allowed > 0 and error < 1e3 * allowed else math.inf
    if math.isinf(sessions):
        return "; no number of sessions that can be run shows so small a tolerance, give it a wider worse_by or a floor"
    return f"; it would take about {max(2, math.ceil(sessions))} sessions"


def _enough(sessions: float) -> str:
    if sessions > 1000:
        return "; no number of sessions that can be run shows it, give it a wider worse_by or a floor"
    return f"; it would take about {sessions:.0f} sessions, in the baseline and in the run"


def _sessions(count: int) -> str:
    return f"{count} session" + ("" if count == 1 else "s")


def _all(sessions: Sequence[float], rule: Rule) -> str:
    return ", ".join(show(value) for value in sessions) + f" {rule.unit}".rstrip()
