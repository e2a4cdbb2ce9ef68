"""The verdict of a Python test on pytest's own report of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.gate.items import AccelFailure
from pytest_accel.gate.outcome import failure_repr, is_failure
from pytest_accel.measure.types import Unfit
from pytest_accel.report.types import CaseResult

if TYPE_CHECKING:
    from pytest_accel.gate.lifecycle import Lifecycle


def mark_python_report(
    life: Lifecycle, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """After setup: book a test that was skipped, or that the machine is unfit for. After the call: judge its checks."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, ConfigError):
        path, line, _ = item.reportinfo()
        life.gate.problems_later.append(f"{path}:{(line or 0) + 1}: {error}")
        report.longrepr = f"CONFIG: {error}"
        life.mark(report, _plain_result(life, item, "UNMEASURED", "config", str(error)))
        return
    if isinstance(error, Unfit):
        result = _plain_result(life, item, "ENV", error.code, error.reason)
        report.longrepr = _text(item, result)
        life.mark(report, result)
        return
    if call.when == "setup":
        if isinstance(error, AccelFailure) and life.gate.unfit is not None:
            result = _plain_result(life, item, "ENV", *life.gate.unfit)
            report.longrepr = _text(item, result)
            life.mark(report, result)
        elif report.failed:
            why = "its setup failed, so that it was not measured"
            life.mark(report, _plain_result(life, item, "UNMEASURED", "setup-failed", why), own_failure=True)
        elif report.skipped and not getattr(report, "wasxfail", None):
            _mark_skipped(life, item, report)
        return
    if call.when != "call":
        return
    if report.skipped and not hasattr(report, "wasxfail"):
        _mark_skipped(life, item, report)
        return
    from pytest_accel.gate.accelerators import accelerator_if_any
    from pytest_accel.gate.python_tests import judge_item

    own_failure = report.failed
    try:
        judged = judge_item(item, report, accelerator_if_any(item.config))
    except ConfigError as problem:
        path, line, _ = item.reportinfo()
        life.gate.problems_later.append(f"{path}:{(line or 0) + 1}: {problem}")
        report.outcome = "failed"
        report.longrepr = f"CONFIG: {problem}"
        judged = _plain_result(life, item, "UNMEASURED", "config", str(problem))
    if judged is None:
        return
    if not own_failure and report.outcome == "passed" and is_failure(judged, life.gate.options):
        report.outcome = "failed"
        report.longrepr = _text(item, judged)
    life.mark(report, judged, own_failure=own_failure)


def _mark_skipped(life: Lifecycle, item: pytest.Item, report: pytest.TestReport) -> None:
    """A skipped test is UNMEASURED; one for other machines is not asked for, unless the baseline knows it here (MISSING)."""
    from pytest_accel.gate.python_tests import not_here

    elsewhere = not_here(life.gate, item)
    known = not life.ledger_record(item).get("optional", True)
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if elsewhere is None:
        life.mark(report, _plain_result(life, item, "UNMEASURED", "skipped", reason))
    elif known:
        result = _plain_result(
            life, item, "MISSING", "no-longer-here", f"measured on this hardware before, and {elsewhere} now"
        )
        report.outcome = "failed"
        report.longrepr = _text(item, result)
        life.mark(report, result)


def _plain_result(life: Lifecycle, item: pytest.Item, verdict: str, code: str, reason: str) -> CaseResult:
    record: dict[str, Any] = life.ledger_record(item)
    names = ("key", "nodeid", "suite", "case", "params", "tier", "path", "baselines")
    return CaseResult(
        **{name: record[name] for name in names},
        verdict=verdict,
        code=code,
        reason=reason,
        worker=life.gate.worker_id,
        device=life.gate.device_name(),
    )


def _text(item: pytest.Item, result: CaseResult) -> Any:
    path, line, _ = item.reportinfo()
    return failure_repr(result, "", str(path), (line or 0) + 1)
