"""How far a timing may be from its baseline: by its tolerance alone, or, with enough sessions, by effect and by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.verdict.family import Family, series
from pytest_accel.verdict.interval import FALSE_RED, SCREEN, Prediction, own_place, predict
from pytest_accel.verdict.text import middle, share
from pytest_accel.verdict.types import Rule

SCREEN_SHARE = 2 / 3  # of the effect: a change of just the effect would pass the first look half the time
HOPELESS = 2.0  # tolerances: where chance alone reaches farther, passing would say nothing


@dataclass(frozen=True)
class Bounds:
    """What a timing is held against, all in its unit and as worsenings of ``base``.

    ``screen``: beyond it one session is suspect; ``allowed``: beyond it the median of all sessions is worse; ``tolerance``:
    what must not pass unseen; ``chance``: how far chance reaches (0 where it is not known); ``best``: the same once all
    sessions that may be had were had; ``takes``: sessions that would do; ``odd``: an accepted value that alone makes chance
    reach so far, else 0; ``note``: what the reader should know of it.
    """

    base: float
    screen: float
    allowed: float
    tolerance: float
    note: str = ""
    proven: bool = False
    chance: float = 0.0
    best: float = 0.0
    takes: float = 0.0
    odd: float = 0.0


def allowance(rule: Rule, baseline: float) -> float:
    """By how much, in the metric's unit, a value may be worse: worse_by and floor must both be exceeded.

    A relative tolerance of a baseline of 0 is 0, so there only the floor counts. Infinite where only limits judge.
    """
    if math.isinf(rule.worse_by):
        return math.inf
    amount = rule.worse_by * abs(baseline) if rule.relative else rule.worse_by
    return max(amount, rule.floor)


def effect_of(rule: Rule, baseline: float) -> float:
    """By how much, in the metric's unit, a value must at least be worse where chance is ruled out by statistics."""
    usual = allowance(rule, baseline)
    return usual if rule.effect is None else min(usual, max(rule.effect * abs(baseline), rule.floor))


def bounds_of(
    rule: Rule,
    accepted: Sequence[float],
    devices: Sequence[str],
    family: Family,
    device: str,
    *,
    sessions: int,
    sessions_in_all: int,
    needed: int,
) -> Bounds:
    """The bounds of a timing measured in ``sessions`` sessions on ``device``. ``accepted``: one value a baseline session.

    With fewer than ``needed`` accepted sessions, or where only limits judge, the tolerance alone counts.
    """
    if len(accepted) < needed or math.isinf(rule.worse_by) or min(accepted) <= 0:
        return _provisional(rule, accepted, devices, device, needed)
    timing = series(accepted, devices)
    expected = predict(timing, family, device, rule.between_devices)
    base = math.exp(expected.centre)
    chance, best = (in_unit(rule, base, expected.reach(count)) for count in (sessions, sessions_in_all))
    alone = in_unit(rule, base, expected.reach(1, SCREEN))
    apart = in_unit(rule, base, expected.apart(FALSE_RED / family.size))
    other = own_place(timing, device) is None
    effect = effect_of(rule, base)
    tolerance = max(allowance(rule, base), apart if other else 0.0)
    return Bounds(
        base=base,
        screen=max(SCREEN_SHARE * effect, min(alone, tolerance)),
        allowed=max(effect, chance),
        tolerance=tolerance,
        note=_elsewhere(timing.devices, len(accepted), max(effect, chance) / base) if other else "",
        proven=True,
        chance=chance,
        best=best,
        takes=_takes(expected, rule, base, tolerance) if max(best, chance) > tolerance else 0.0,
        odd=_odd(accepted, devices) if best > HOPELESS * tolerance else 0.0,
    )


def _odd(accepted: Sequence[float], devices: Sequence[str]) -> float:
    """The accepted value without which sessions would spread by less than half as much; 0 where there is none."""
    spread, _ = series(accepted, devices).within
    for leave in sorted(range(len(accepted)), key=lambda index: -abs(accepted[index] - middle(accepted)))[:1]:
        kept = [index for index in range(len(accepted)) if index != leave]
        rest, df = series([accepted[i] for i in kept], [devices[i] for i in kept if i < len(devices)]).within
        if df and rest < spread / 4:
            return accepted[leave]
    return 0.0


def in_unit(rule: Rule, base: float, logs: float) -> float:
    """A worsening given in logarithms, in the metric's unit."""
    if rule.better == "higher":
        return base * -math.expm1(-logs)
    return base * math.expm1(min(logs, 700.0))


def _takes(expected: Prediction, rule: Rule, base: float, tolerance: float) -> float:
    """About how many sessions would show a worsening by the tolerance."""
    if rule.better == "higher":
        return expected.takes(-math.log1p(-tolerance / base)) if tolerance < base else 2.0
    return expected.takes(math.log1p(tolerance / base))


def _provisional(rule: Rule, accepted: Sequence[float], devices: Sequence[str], device: str, needed: int) -> Bounds:
    base = middle(accepted)
    allowed = allowance(rule, base)
    notes = [] if len(accepted) >= needed else [f"; provisional, {len(accepted)} of {needed} sessions"]
    known = set(devices) - {""}
    if device and known and device not in known and math.isfinite(allowed):
        allowed = max(allowed, rule.between_devices * abs(base))
        notes.append(_elsewhere(tuple(known), len(accepted), allowed / abs(base) if base else 0.0))
    return Bounds(base, allowed, allowed, allowed, "".join(notes))


def _elsewhere(devices: Sequence[str], sessions: int, limit: float) -> str:
    others = "another physical device" if len(devices) == 1 else f"{len(devices)} other physical devices"
    count = f"{sessions} session" + ("" if sessions == 1 else "s")
    return f"; judged against {count} of {others} of this model, which differ, so only more than {share(limit)} counts"
