"""Waivers that could never waive anything, or would waive anything: told as a mistake instead of being kept in silence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pytest_accel.runner.types import Measurement
    from pytest_accel.suite.types import Variant
    from pytest_accel.verdict.types import WaiverRule

_ALIKE = 0.8  # of difflib's ratio: a slip of the pen in a status word, and not another word


def status_problem(variant: Variant) -> Problem | None:
    """What is wrong with a status word of the variant's waivers, or None.

    Known are the status words of operators, the codes of faults, and the words that the workload's metrics may have. A
    workload of the user's own may give other words, so there only a word that looks like a misspelt known one is refused.
    """
    from pytest_accel.verdict.waive import FAULTS, NUMBERS
    from pytest_accel.workloads.catalog.shared import STATUS
    from pytest_accel.workloads.registry import WORKLOADS

    words = [word for waiver in variant.waivers for word in waiver.status]
    if not words:
        return None
    built_in = WORKLOADS.get(variant.workload)
    known = dict.fromkeys((*STATUS, *FAULTS, *_words_of(built_in.metrics if built_in else {})))
    for word in words:
        if word in NUMBERS:
            what = f"`{word}` is no status but what any number may become, so that waiving it would waive everything"
            return _problem(variant, what, "name the metric and how far: metrics: {time: {up_to: 8%}}")
        near = difflib.get_close_matches(word, known, n=1, cutoff=_ALIKE)
        if word in known or (built_in is None and not near):
            continue
        near = near or difflib.get_close_matches(word, known, n=1)
        mend = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
        return _problem(variant, f"no fault and no metric's word is called `{word}`", mend)
    return None


def _words_of(metrics: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for spec in metrics.values():
        found += [*spec.order, *([spec.equals] if isinstance(spec.equals, str) else [])]
    return found


def _problem(variant: Variant, what: str, mend: str) -> Problem:
    return Problem(f"case `{variant.case}`: waive.status: {what}", mend, variant.path, variant.line)


def refuse_unmeasured(variant: Variant, waivers: Iterable[WaiverRule], measurement: Measurement) -> None:
    """Raise ConfigError where a waiver of this platform names a metric that the workload neither measured nor declares."""
    from pytest_accel.workloads.registry import WORKLOADS

    built_in = WORKLOADS.get(variant.workload)
    declared = built_in.metrics if built_in else measurement.declared
    found = _unmeasured(waivers, measurement.metrics, declared)
    if found:
        name, mend = found
        what = f"case `{variant.case}` waives `{name}`, but the workload measures no such metric"
        raise ConfigError.at(variant.path, variant.line, what, mend)


def refuse_unchecked(waivers: Iterable[WaiverRule], checked: Iterable[str]) -> None:
    """The same for a Python test's own ``accel_waive`` and the names that it checked; the caller adds file and line."""
    found = _unmeasured(waivers, checked, ())
    if found:
        name, mend = found
        raise ConfigError(Problem(f"marker accel_waive: it waives `{name}`, which the test does not check", mend))


def _unmeasured(
    waivers: Iterable[WaiverRule], measured: Iterable[str], declared: Iterable[str]
) -> tuple[str, str] | None:
    """The first waived metric that is not among the others, and how to mend it."""
    there = sorted(measured)
    known = {*there, *declared}
    for name in (name for waiver in waivers for name in waiver.up_to):
        if name not in known:
            near = difflib.get_close_matches(name, there, n=1)
            return name, f"did you mean `{near[0]}`?" if near else f"measured: {', '.join(there) or 'nothing'}"
    return None
