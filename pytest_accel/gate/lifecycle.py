"""What each hook does once an accel item is there: collected, run, booked, finished."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.gate.context import Gate, gate_of
from pytest_accel.gate.dry import is_dry
from pytest_accel.gate.flow import Flow
from pytest_accel.gate.items import AccelFailure, AccelItem
from pytest_accel.gate.ledger import Ledger, payload_of
from pytest_accel.gate.order import asked_record, is_ours


class Lifecycle:
    """The hooks' shared state in one process: controller, worker, or the only one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.gate: Gate = gate_of(config)
        self.ledger = Ledger(self.gate)
        self.flow: Flow | None = None
        self.published: list[str] = []
        self.interrupted = False
        self.sent_stacks: set[str] = set()
        self.scratch: str | None = None
        self.active = False
        self.is_worker = hasattr(config, "workerinput")

    # --- several processes ------------------------------------------------------------------------------------------------
    def configure_node(self, node: Any) -> None:
        """Hand the run's facts to a worker."""
        from pytest_accel.gate.workers import facts_for

        if self.scratch is None:
            self.scratch = tempfile.mkdtemp(prefix="pytest-accel-run-")
        node.workerinput["accel"] = facts_for(self.gate, self.scratch)

    def worker_collected(self, node: Any) -> None:
        """Read what a worker was asked for; the first worker's list is the run's (xdist checks that all agree)."""
        if self.scratch is None:
            return
        path = Path(self.scratch) / f"asked-{node.gateway.id}.json"
        if not path.is_file():
            return
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["problems"] or (said["asked"] and self.gate.problems):
            raise pytest.UsageError(*_lines([*said["problems"], *map(str, self.gate.problems)]))
        if not self.active and (said["asked"] or said["nothing_else"]):
            self.active = True
            self.ledger.ask(said["asked"], said["elsewhere"])
            self.ledger.write(None, 11)
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                for line in self.header():
                    reporter.write_line(line)

    # --- collection ---------------------------------------------------------------------------------------------------------
    def collected(self, session: pytest.Session) -> None:
        """Fix what is asked for; with configuration errors nothing is measured and the exit code is 4."""
        gate = self.gate
        try:
            asked, elsewhere = self._asked(session)
            if gate.options.record is not None:
                gate.problems.extend(unwritable({str(record["baselines"]) for record in asked}))
        except ConfigError as error:
            gate.problems.extend(error.problems)
            asked, elsewhere = [], {}
        if self.is_worker:
            self._tell_controller(session, asked, elsewhere)
            return
        if gate.problems:
            gate.close()
            raise pytest.UsageError(*_lines([str(problem) for problem in gate.problems]))
        self.ledger.ask(asked, elsewhere)
        self.active = bool(asked) or (bool(elsewhere) and (gate.unfit is not None or all(map(is_ours, session.items))))
        if not any(isinstance(item, AccelItem) for item in session.items):
            gate.close()
        if self.active and not is_dry(self.config):
            self.ledger.write(None, 11)
            self.flow = Flow(gate, session)
            self._set_aside(session)

    def _set_aside(self, session: pytest.Session) -> None:
        listener = self.config.pluginmanager.get_plugin("allure_listener")
        if listener is not None:
            from pytest_accel.gate.publish import AllureAside

            aside = AllureAside(self.config, listener)
            aside.before(session.items[0] if session.items else None)
            self.config.pluginmanager.register(aside, "accel-allure-aside")

    def _asked(self, session: pytest.Session) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """What the run must account for, and what is for other machines: key by key, with the reason."""
        from pytest_accel.gate.python_tests import not_here

        gate = self.gate
        asked: list[dict[str, Any]] = []
        elsewhere = {key: reason for suite in gate.suites.values() for key, reason in suite.elsewhere.items()}
        for item in session.items:
            if not is_ours(item):
                continue
            record = asked_record(gate, item)
            reason = None if isinstance(item, AccelItem) or not record["optional"] else not_here(gate, item)
            if reason is None:
                asked.append(record)
            else:
                elsewhere[record["key"]] = reason
        if asked or elsewhere:
            _ = gate.unfit  # reads baselines of other hardware too, one of which may be broken
        return asked, elsewhere

    def _tell_controller(self, session: pytest.Session, asked: list[Any], elsewhere: dict[str, str]) -> None:
        gate = self.gate
        from pytest_accel.stack.choose import mixed_models

        models = mixed_models(gate.machine) if asked else ()
        if models:
            what = f"workers would share one baseline on cards of different models: {', '.join(models)}"
            mend = f"narrow {gate.platform.visible_env[0]} to the cards of one model, or run without -n"
            gate.problems.append(Problem(what, mend))
        problems = [str(problem) for problem in gate.problems]
        if problems:
            session.items[:] = []
        folder = gate.run.folder
        if folder is not None:
            from pytest_accel.files import dump_json, write_whole

            nothing_else = (
                gate.unfit is not None or all(map(is_ours, session.items)) if elsewhere and not problems else False
            )
            said = {"asked": asked, "elsewhere": elsewhere, "problems": problems, "nothing_else": nothing_else}
            write_whole(Path(folder) / f"asked-{gate.worker_id}.json", dump_json(said))
        self.active = bool(asked)
        self.flow = Flow(gate, session)
        self._set_aside(session)
        if any(not isinstance(item, AccelItem) for item in session.items if is_ours(item)):
            from pytest_accel.gate.workers import narrow_to_device

            narrow_to_device(gate)

    def header(self) -> list[str]:
        """The lines under "collected N items"; none where nothing accel was selected."""
        if not self.active or is_dry(self.config):
            return []
        from pytest_accel.report.terminal import header

        baseline = self.ledger.baseline_facts()
        return header(
            machine=self.gate.machine,
            unfit=self.gate.unfit,
            asked=sum(not record.get("optional") for record in self.ledger.asked.values()),
            elsewhere=len(self.ledger.elsewhere),
            tier=self.gate.options.tier,
            baseline=baseline,
            other_tiers=sum(suite.other_tiers for suite in self.gate.suites.values()),
            findings=self.gate.findings,
        )

    # --- running ------------------------------------------------------------------------------------------------------------
    def run_item(self, item: pytest.Item, following: pytest.Item | None) -> bool | None:
        """Run a suite variant; anything else is pytest's own business."""
        if not isinstance(item, AccelItem) or self.flow is None:
            return None
        self.flow.take(item, following)
        return True

    def before_test(self, item: pytest.Item) -> None:
        """Set a Python test up: skip it where it is for other machines."""
        if not isinstance(item, AccelItem) and is_ours(item):
            from pytest_accel.gate.python_tests import before

            before(item)

    def mark_report(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Put the verdict on a report, and the outcome that goes with it."""
        if isinstance(item, AccelItem):
            if call.when == "call" and item.result is not None:
                self.mark(report, item.result, duration=item.result.seconds)
        elif self.active and is_ours(item):
            from pytest_accel.gate.python_reports import mark_python_report

            mark_python_report(self, item, call, report)
        if report.user_properties and hasattr(report, "accel"):
            item.user_properties[:] = report.user_properties  # JUnit takes those of the teardown's report

    def ledger_record(self, item: pytest.Item) -> dict[str, Any]:
        """What is known of an asked-for item."""
        return asked_record(self.gate, item)

    def mark(
        self, report: pytest.TestReport, result: Any, duration: float | None = None, own_failure: bool = False
    ) -> None:
        """Put a result on a report; ``own_failure``: the test failed by itself, whatever its checks say."""
        if duration is not None:
            report.duration = duration
        from pytest_accel.gate.publish import properties_of

        report.user_properties.extend(properties_of(result))
        if result.verdict == "WAIVED":
            report.outcome = "skipped"
            report.wasxfail = result.reason
        config, self.gate.problems_later = self.gate.problems_later, []
        report.accel = payload_of(self.gate, result, self.sent_stacks, config, own_failure)  # type: ignore[attr-defined]

    def book(self, report: pytest.TestReport) -> None:
        """Hand a report to the ledger."""
        worker = getattr(report, "worker_id", "") or getattr(getattr(report, "node", None), "workerinput", {}).get(
            "workerid", ""
        )
        self.ledger.take(report, worker)

    def interrupted_by(self, error: BaseException) -> None:
        """Note a Ctrl-C; a stop after so many failures is none."""
        said = str(error)
        by_pytest = type(error).__name__ == "Interrupted" and "during collection" not in said
        self.interrupted = not by_pytest or "keyboard" in said

    # --- the end ------------------------------------------------------------------------------------------------------------
    def finish(self, session: pytest.Session, status: int) -> None:
        """Settle what waits, record, write, and set the exit code."""
        if self.is_worker:
            self.gate.close()
            return
        self.gate.close()
        if is_dry(self.config):
            return
        if not self.active:
            self.ledger.write([], int(status))  # where --accel-report asks for a file, this run's code stands in it
            return
        self._read_journals()
        session.exitstatus = self.ledger.finish(int(status), interrupted=self.interrupted)
        from pytest_accel.gate.publish import publish

        code = int(session.exitstatus)
        self.published = publish(self.config, self.gate.options, self.ledger.document(None, code))

    def _read_journals(self) -> None:
        """Learn what was started and never ended in a worker that died."""
        if self.scratch is None:
            return
        from pytest_accel.runner.journal import unfinished

        for path in sorted(Path(self.scratch).glob("*.jsonl")):
            for nodeid in unfinished(path):
                if nodeid in self.ledger.asked:
                    self.ledger.asked[nodeid]["started"] = True

    def summary(self, reporter: pytest.TerminalReporter) -> None:
        """The terminal's last word."""
        if not self.active or self.is_worker or is_dry(self.config):
            return
        if not self.ledger.ordered() and not self.ledger.elsewhere and not self.ledger.config_errors:
            return  # a marked test that checks nothing is an ordinary test
        from pytest_accel.report.terminal import summary

        summary(reporter, self.ledger, self.gate)
        for line in self.published:
            reporter.write_line(line)

    def close(self) -> None:
        """Leave nothing behind."""
        self.gate.close()
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch = None


def add_listed_suites(config: pytest.Config) -> None:
    """Collect the files of ini ``accel_suites`` too, where the user named no paths."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    from pytest_accel.gate.options import listed_suites

    try:
        listed = listed_suites(config)
    except ConfigError as error:
        raise pytest.UsageError(*_lines([str(error)])) from None
    config.args.extend(path for path in listed if path not in config.args)


def unwritable(folders: Iterable[str]) -> list[Problem]:
    """Baselines folders that a recording run could not write to, told before anything is measured."""
    problems = []
    for folder in sorted(folders):
        existing = Path(folder)
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            what = f"--accel-record: {folder} cannot be written to"
            problems.append(
                Problem(what, "give a folder that you may write to (--accel-baselines DIR), or do not record")
            )
    return problems


def _lines(problems: list[str]) -> list[str]:
    """pytest prints a usage error's arguments a line each, with ERROR before it."""
    return [f"accel: {line}" for problem in dict.fromkeys(problems) for line in problem.splitlines()]


__all__ = ["AccelFailure", "Lifecycle", "add_listed_suites"]
