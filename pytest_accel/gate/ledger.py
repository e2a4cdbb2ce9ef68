"""The run's books, kept where pytest reports to its user: results by node, then recording, the results file and the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.gate.context import Gate
from pytest_accel.gate.dry import why_not
from pytest_accel.gate.outcome import accepted_new
from pytest_accel.report.types import CaseResult
from pytest_accel.verdict.types import Verdict


class Ledger:
    """Collects one result for each asked-for variant, whichever process measured it."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.asked: dict[str, dict[str, Any]] = {}
        self.results: dict[str, CaseResult] = {}
        self.stacks: dict[str, Mapping[str, Any]] = {}
        self.elsewhere: dict[str, str] = {}
        self.ordinary_failed = False
        self.crashed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.config_errors: list[str] = []
        self.recorded: Any = None
        self.exit_code: int | None = None
        self.written = False
        self.started = time.monotonic()

    def ask(self, asked: list[dict[str, Any]], elsewhere: Mapping[str, str]) -> None:
        """Say what this run must account for."""
        for record in asked:
            self.asked.setdefault(record["nodeid"], record)
        self.elsewhere.update(elsewhere)

    def take(self, report: pytest.TestReport, worker: str) -> None:
        """Book one of pytest's reports: a variant's result where it carries one, else an ordinary test's outcome."""
        payload = getattr(report, "accel", None)
        if payload is not None:
            self.stacks.update(payload.get("stacks", {}))
            self.config_errors.extend(payload.get("config", ()))
            self.ordinary_failed = self.ordinary_failed or bool(payload.get("failed"))
            if payload.get("result") is not None:
                self._book(CaseResult(**{**payload["result"], "worker": worker}))
                return
        if report.skipped and report.nodeid in self.asked:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped.setdefault(report.nodeid, reason)
        if not report.failed:
            return
        if report.when in ("setup", "call", "teardown"):
            self.ordinary_failed = True
            return
        self.crashed[report.nodeid] = worker  # the worker died; a variant that was asked for gets its verdict from that
        self.ordinary_failed = self.ordinary_failed or report.nodeid not in self.asked

    def _book(self, result: CaseResult) -> None:
        """The worst try of a variant is its verdict of the run."""
        known = self.results.get(result.nodeid)
        if known is None or Verdict(result.verdict).badness >= Verdict(known.verdict).badness:
            self.results[result.nodeid] = result

    def ordered(self) -> list[CaseResult]:
        """One result for each asked-for variant, in the order of collection; what never ended says why."""
        complete = []
        for nodeid, record in self.asked.items():
            result = self.results.get(nodeid)
            if result is None:
                if record.get("optional"):
                    continue
                result = self._unfinished(record)
            complete.append(result)
        extra = [result for nodeid, result in self.results.items() if nodeid not in self.asked]
        return complete + sorted(extra, key=lambda result: result.key)

    def _unfinished(self, record: Mapping[str, Any]) -> CaseResult:
        fields = {name: record[name] for name in ("key", "nodeid", "suite", "case", "params", "tier", "path")}
        nodeid = record["nodeid"]
        if nodeid in self.crashed or record.get("started"):
            if record["suite"] == "py":
                reason = "the process that ran this test died while running it"
                return CaseResult(
                    **fields, verdict="REGRESSION", code="crash", reason=reason, worker=self.crashed.get(nodeid, "")
                )
            reason = "the pytest process that drove this variant died before a verdict was reached"
            return CaseResult(**fields, verdict="UNMEASURED", code="worker-died", reason=reason)
        if nodeid in self.skipped:
            reason = f"another plugin's or a conftest's hook skipped it: {self.skipped[nodeid]}"
            return CaseResult(**fields, verdict="UNMEASURED", code="skipped", reason=reason)
        reason = "the run ended before this variant was measured and judged"
        return CaseResult(**fields, verdict="UNMEASURED", code="stopped-early", reason=reason)

    # --- the end ---------------------------------------------------------------------------------------------------------
    def finish(self, status: int, *, interrupted: bool) -> int:
        """Record, write the results file, and return the exit code. Called once, when every report is in."""
        results = self.ordered()
        if not results and not self.config_errors:
            if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self.elsewhere:
                # all that was collected is for other machines; a machine that is not what was named says so first
                status = 10 if self.gate.unfit is not None else int(pytest.ExitCode.NO_TESTS_COLLECTED)
            return self._leave(status, results)
        self._record(results, interrupted)
        from pytest_accel.verdict.summary import exit_code

        code = exit_code(
            [(Verdict(r.verdict), accepted_new(r, self.gate.options)) for r in results],
            ordinary_failed=self.ordinary_failed,
            config=bool(self.config_errors),
            internal=status == pytest.ExitCode.INTERNAL_ERROR,
            interrupted=interrupted,
            asked=len(results),
        )
        if code == 0 and status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            code = status  # something else failed this run, such as a coverage that is too small
        return self._leave(code, results)

    def _leave(self, code: int, results: list[CaseResult]) -> int:
        self.exit_code = code
        self.write(results, code)
        return self.exit_code

    def _record(self, results: list[CaseResult], interrupted: bool) -> None:
        mode = self.gate.options.record
        if mode is None or interrupted or self.config_errors:
            return
        from pytest_accel.gate.recording import record_results

        try:
            self.recorded = record_results(self.gate, results, self.stacks, mode)
        except (ConfigError, OSError) as error:
            self.config_errors.append(f"the baseline was not written: {error}")

    def write(self, results: list[CaseResult] | None, code: int) -> None:
        """Write the results file, whole. With ``results`` None: what the run must account for, before anything is measured."""
        target = self.gate.options.report
        if target is None:
            return
        self.written = True
        from pytest_accel.files import dump_json, write_whole

        document = self.document(results, code)
        try:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            write_whole(Path(target), dump_json(document))
        except (OSError, ConfigError) as error:
            self.written = False
            self.exit_code = int(pytest.ExitCode.USAGE_ERROR)
            said = f"--accel-report: {target} cannot be written: {why_not(error)}"
            if said not in self.config_errors:
                self.config_errors.append(said)
                print(f"accel: {said}", file=sys.stderr)

    def document(self, results: list[CaseResult] | None, code: int) -> dict[str, Any]:
        """The results document as it stands now; ``results`` None: of whatever is booked."""
        from pytest_accel.report.json_report import build

        return build(
            run={
                "id": self.gate.run.id,
                "started": self.gate.run.started,
                "seconds": round(time.monotonic() - self.started, 3),
                "argv": list(self.gate.config.invocation_params.args),
                "exit_code": int(code),
            },
            probe=self.gate.machine.probe if not self.gate.problems else None,
            results=self.ordered() if results is None else results,
            stacks=self.stacks,
            baseline=self.baseline_facts(),
            elsewhere=len(self.elsewhere),
            allow_new=self.gate.options.allow_new,
            recording=self.gate.options.record is not None,
        )

    def baseline_facts(self) -> dict[str, Any]:
        """Where the baselines are, and the newest stack that the asked-for entries were measured on."""
        from pytest_accel.gate.recording import newest_stack

        return newest_stack(self.gate, self.asked.values())


def payload_of(gate: Gate, result: CaseResult, sent: set[str], config: list[str], failed: bool) -> dict[str, Any]:
    """What a pytest report carries to the ledger: the result, and each stack the first time it is named.

    ``failed``: the test failed by itself, whatever its checks say.
    """
    named = {str(session["stack"]) for session in result.sessions}
    fresh = {name: gate.stacks[name] for name in named - sent if name in gate.stacks}
    sent.update(fresh)
    return {"result": dict(vars(result)), "stacks": fresh, "config": config, "failed": failed}
