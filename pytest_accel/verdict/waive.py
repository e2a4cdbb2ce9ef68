"""Waivers: narrow, dated permissions to be worse."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from pytest_accel.verdict.text import as_number, show
from pytest_accel.verdict.timing import beyond, worsening
from pytest_accel.verdict.types import Rule, Verdict, WaiverRule, Word

#: Codes of faults that a waiver's status may name: how a variant ended that gave no metrics, and values that are no numbers.
FAULTS = (
    "error",
    "import-failed",
    "crash",
    "timeout",
    "unsupported",
    "dtype-unsupported",
    "fallback",
    "oom",
    "poisoned",
    "nonfinite",
    "not-a-number",
)
#: Codes that any metric may get however far it is off: a status waives none of them, only ``up_to`` does.
NUMBERS = ("worse", "changed", "limit", "unknown-word")


def apply(
    name: str,
    code: str,
    value: Word | None,
    from_value: Word | None,
    rule: Rule,
    waivers: Sequence[WaiverRule],
    today: datetime.date,
) -> tuple[Verdict, str]:
    """What a metric's REGRESSION becomes under its waivers, with the phrase to add to the reason.

    ``from_value`` is what ``up_to`` is measured from: the baseline, or the limit that was broken. A status word waives
    a word metric that has it, and a fault whose code it is.
    """
    said = ""
    for waiver in waivers:
        amount = waiver.up_to.get(name)
        word = value if isinstance(value, str) else None
        by_status = word in waiver.status or (code in waiver.status and code not in NUMBERS)
        if amount is None and not by_status:
            continue
        if today > waiver.expires:
            said = said or f"; its waiver ({waiver.issue}) expired on {waiver.expires.isoformat()}"
            continue
        about = f"({waiver.issue}, until {waiver.expires.isoformat()}): {waiver.reason}"
        if by_status:
            return Verdict.WAIVED, f"; waived {about}"
        number, start = as_number(value), as_number(from_value)
        if amount is not None and number is not None and start is not None and code != "nonfinite":
            most = amount[0] * abs(start) if amount[1] else amount[0]
            far = abs(number - start) if code == "limit" else worsening(rule, number, start)
            if not beyond(far, most, start):
                return Verdict.WAIVED, f"; waived up to {_far(amount)} {about}"
            said = f"; beyond its waiver's {_far(amount)} ({waiver.issue})"
    return Verdict.REGRESSION, said


def status_waiver(code: str, waivers: Sequence[WaiverRule], today: datetime.date) -> tuple[Verdict, str]:
    """The same for a variant that gave no metrics (crash, timeout, unsupported, …), by the code of its fault."""
    return apply("", code, None, None, Rule(), waivers, today)


def _far(amount: tuple[float, bool]) -> str:
    return f"{amount[0] * 100:g} %" if amount[1] else show(amount[0])
