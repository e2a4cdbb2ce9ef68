"""A gain that was promised (``expect: {better_by: 5%}``) and did not come is a regression of the promise."""

from __future__ import annotations

from dataclasses import replace

from pytest_accel.verdict.text import as_number, share, show
from pytest_accel.verdict.timing import Finding, worsening
from pytest_accel.verdict.types import Rule, Verdict, Word

CODE = "promised-gain-missing"


def held_to(
    name: str,
    rule: Rule,
    promised: tuple[float, bool],
    finding: Finding,
    value: Word | None,
    base: Word | None,
    sessions_left: int,
) -> Finding:
    """``finding`` as it is where the gain came (or the metric is worse, new or in doubt anyway), else a REGRESSION.

    ``promised``: (amount, relative to the baseline). A timing may be short of it by as much as chance reaches, and is
    measured again in fresh processes before its promise is called broken.
    """
    new, old = as_number(value), as_number(base)
    if finding.verdict not in (Verdict.PASS, Verdict.IMPROVED) or new is None or old is None or rule.better == "equal":
        return finding
    wanted = promised[0] * abs(old) if promised[1] else promised[0]
    gained = -worsening(rule, new, old)
    if gained >= wanted - finding.chance:
        return finding
    change = f" ({share(gained / abs(old))})" if old else ""
    short = f"promised a gain of {show(wanted, rule.unit)}, and gained {show(gained, rule.unit)}{change}"
    why = f"{name}: {show(new, rule.unit)} against {show(old, rule.unit)}: {short}"
    if rule.kind == "timing" and sessions_left > 0:
        why += "; wants a fresh process to confirm it"
        return replace(finding, verdict=Verdict.INCONCLUSIVE, code="suspect", reason=why, suspect=True)
    hint = "; remove `expect` where the gain is in the baseline already"
    return replace(finding, verdict=Verdict.REGRESSION, code=CODE, reason=why + hint, suspect=False)
