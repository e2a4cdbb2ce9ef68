"""pytest's hooks, in the order in which pytest calls them. Each hands on; nothing heavy is imported before it is needed.

With no suite file and no accel test collected, no state is made and nothing of anybody's run is changed.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.fixtures import accel, accel_check, accel_device

if TYPE_CHECKING:
    from pytest_accel.gate.lifecycle import Lifecycle

__all__ = ["accel", "accel_check", "accel_device"]

SUITE_SUFFIXES = (".accel.yaml", ".accel.yml")
MARKERS = (
    "accel(*platforms, devices=1, memory=None, capability=None): the test needs one of these platforms and this much of it",
    "accel_waive(reason, issue, expires, **metrics): a dated permission for named checks to be worse, each up to a tolerance",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options of group ``accel``."""
    from pytest_accel.gate.options import add_options

    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The first hook of a run: what goes wrong from here on finds no older results in the file that is asked for."""
    if getattr(early_config.known_args_namespace, "accel_report", None):  # xdist gives its workers no such option
        _replace_old_results(early_config)


def _replace_old_results(config: pytest.Config) -> None:
    from pytest_accel.gate.dry import is_dry, replace_old_results

    if not is_dry(config):
        replace_old_results(config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the hooks that need the run's state."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(_Hooks(config), "accel-hooks")
    if config.getoption("benchmark_disable", None) is not None:  # pytest-benchmark is installed and active
        from pytest_accel.benchmark.hooks import BenchmarkHooks

        config.pluginmanager.register(BenchmarkHooks(config), "accel-benchmark")
    if config.getini("accel_report") and not hasattr(config, "workerinput"):
        _replace_old_results(config)
    if config.getini("accel_suites") and not hasattr(config, "workerinput"):
        from pytest_accel.gate.lifecycle import add_listed_suites

        add_listed_suites(config)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """``-n auto``: one worker for each visible device; on the host's own platform xdist's own count."""
    from pytest_accel.gate.workers import auto_workers

    return auto_workers(config)


class _Hooks:
    """The hooks of one configured run. ``life`` is None until the first accel item is met."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self._life: Lifecycle | None = None
        self.collection_failed = False

    @property
    def life(self) -> Lifecycle:
        """The state that the hooks share, made at first use."""
        if self._life is None:
            from pytest_accel.gate.lifecycle import Lifecycle

            self._life = Lifecycle(self.config)
        return self._life

    # --- several processes ------------------------------------------------------------------------------------------------
    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what run it belongs to and which device it may see."""
        self.life.configure_node(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Learn from a worker what is asked for."""
        if self._life is not None:
            self._life.worker_collected(node)

    # --- collection ---------------------------------------------------------------------------------------------------------
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Take suite files: by name anywhere, and those that ini ``accel_suites`` lists."""
        if not file_path.name.endswith(SUITE_SUFFIXES) and not self._listed(file_path):
            return None
        from pytest_accel.gate.items import AccelFile

        return AccelFile.from_parent(parent, path=file_path)

    def _listed(self, path: Path) -> bool:
        if path.suffix not in (".yaml", ".yml") or not self.config.getini("accel_suites"):
            return False
        return str(path) in self.life.gate.options.suites

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Suites first, Python tests that use the accelerator last; add what the baseline expects and nobody declares."""
        from pytest_accel.gate.order import arrange, concerns

        if concerns(self.config, items):
            arrange(self.life.gate, session, items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What is asked for is known now: stop on configuration errors, before anything is measured."""
        from pytest_accel.gate.order import concerned

        if self._life is not None or concerned(self.config, session):
            self.life.collected(session)

    def pytest_report_collectionfinish(self) -> list[str]:
        """The header: platform, device, versions, what changed, how much is asked for."""
        return self._life.header() if self._life is not None else []

    # --- running ------------------------------------------------------------------------------------------------------------
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Suite variants go their own way: measured in another process, suspects confirmed together."""
        if self._life is None:
            return None
        return self._life.run_item(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Python tests: skip what is for other machines."""
        if self._life is not None:
            self._life.before_test(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the verdict on the report that pytest, xdist, JUnit and others carry on."""
        report = yield
        if self._life is not None:
            self._life.mark_report(item, call, report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Book every report in the process that reports to the user."""
        if self._life is not None and not self.is_worker:
            self._life.book(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be collected is an ordinary failure."""
        if report.failed and not self.is_worker:
            self.collection_failed = True

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell Ctrl-C from a stop by ``-x`` or ``--maxfail``, which xdist raises in the same way."""
        if self._life is not None:
            self._life.interrupted_by(excinfo.value)

    # --- the end ------------------------------------------------------------------------------------------------------------
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the measuring process, record, write the results file, set the exit code."""
        wanted = self.config.getoption("accel_report", None) or self.config.getini("accel_report")
        if self._life is not None or (wanted and not self.is_worker):
            self.life.ledger.ordinary_failed |= self.collection_failed
            self.life.finish(session, exitstatus)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict, the counts and the failures in one place."""
        if self._life is not None:
            self._life.summary(terminalreporter)

    def pytest_unconfigure(self) -> None:
        """Whatever happened, leave no process and no scratch folder behind."""
        if self._life is not None:
            self._life.close()
