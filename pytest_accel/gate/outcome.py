"""From a verdict to pytest's outcome, and the text of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_accel.gate.options import Options
from pytest_accel.report.types import CaseResult
from pytest_accel.verdict.types import Verdict

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionRepr

FINE = {Verdict.PASS, Verdict.IMPROVED, Verdict.WAIVED}


def is_failure(result: CaseResult, options: Options) -> bool:
    """True where the item fails: everything but PASS, IMPROVED, WAIVED and a NEW that is recorded or allowed."""
    verdict = Verdict(result.verdict)
    if verdict is Verdict.NEW:
        return not accepted_new(result, options)
    return verdict not in FINE


def accepted_new(result: CaseResult, options: Options) -> bool:
    """True for a NEW variant that this run records or that the user allows."""
    return options.allow_new or options.record is not None


def failure_repr(result: CaseResult, detail: str, path: str, line: int) -> ExceptionRepr:
    """pytest's own kind of report, so that the short summary, JUnit and xdist carry the sentence and not a traceback."""
    from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

    from pytest_accel.report.text import describe, one_line

    text = describe(result) + (f"\n{detail.rstrip()}\n" if detail else "\n")
    return ReprExceptionInfo(
        reprtraceback=ReprTraceback([ReprEntryNative([text])], None, style="native"),
        reprcrash=ReprFileLocation(path, line, one_line(result)),
    )
