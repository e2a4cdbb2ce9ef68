"""Says beside a changed timing that other kernels ran than in the baseline. Changes no verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_accel.verdict.types import Judgement, Verdict

METRIC = "kernels"  # the fact under which workloads store the names, as one word: "a; b x2; c"
LONGEST = 300  # characters of names on each side
_UNTOLD = ("", "(none seen)")
_COUNT = re.compile(r" x\d+$")


def changed(old: str, new: str) -> str | None:
    """``kernel changed: … → …`` with the names that only one side has; None where the same ran, or one side tells none.

    Where the same names ran another number of times, that is said instead.
    """
    if old == new or old in _UNTOLD or new in _UNTOLD:
        return None
    before, now = old.split("; "), new.split("; ")
    bare_before, bare_now = ([_COUNT.sub("", name) for name in names] for names in (before, now))
    gone = [name for name, bare in zip(before, bare_before, strict=True) if bare not in bare_now]
    come = [name for name, bare in zip(now, bare_now, strict=True) if bare not in bare_before]
    if gone or come:
        return f"kernel changed: {_names(gone)} → {_names(come)}"
    counted = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    if any(counted):
        return f"kernels run another number of times: {_names(counted[0])} → {_names(counted[1])}"
    return None


def explained(judgement: Judgement, accepted: Sequence[Mapping[str, object]]) -> Judgement:
    """The judgement, its reason followed by what changed in the kernels where a metric is worse or better than accepted.

    ``accepted``: the values of each session of the baseline's entry by metric, oldest first. What ran in any of them is no
    change; else the newest is compared.
    """
    fact = judgement.metrics.get(METRIC)
    if (
        judgement.verdict not in (Verdict.REGRESSION, Verdict.IMPROVED)
        or fact is None
        or not isinstance(fact.value, str)
    ):
        return judgement
    known = [word for session in accepted if isinstance(word := session.get(METRIC), str)]
    said = changed(known[-1], fact.value) if known and fact.value not in known else None
    return replace(judgement, reason=f"{judgement.reason}; {said}") if said else judgement


def _names(names: list[str]) -> str:
    text = ", ".join(names) or "(nothing)"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
