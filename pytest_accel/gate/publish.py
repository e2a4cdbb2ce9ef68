"""Handing a finished run to whoever else shows it: GitHub, Allure, JUnit properties."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_accel.gate.options import Options
    from pytest_accel.report.types import CaseResult

MOST_METRICS = 30


def properties_of(result: CaseResult) -> list[tuple[str, Any]]:
    """The variant's JUnit properties: key, verdict, code, and each metric as a number or a word."""
    found: list[tuple[str, Any]] = [("accel_key", result.key), ("accel_verdict", result.verdict)]
    if result.code:
        found.append(("accel_code", result.code))
    for name, metric in list(result.metrics.items())[:MOST_METRICS]:
        value = metric.get("value")
        if value is not None:
            unit = metric.get("unit")
            found.append((f"accel_metric_{name}", f"{value} {unit}" if unit else str(value)))
    return found


def publish(config: pytest.Config, options: Options, document: Mapping[str, Any]) -> list[str]:
    """Write what was asked for beside the results file; returns lines for the terminal: problems, annotations.

    None of these changes the run's verdict: what could not be written is said.
    """
    from pytest_accel.report.github import annotate, append_summary, in_workflow

    allure = getattr(config.option, "allure_report_dir", None)
    if not (allure or options.history or options.notify or in_workflow()):
        return []
    from pytest_accel.errors import ConfigError
    from pytest_accel.files import encode
    from pytest_accel.report.results import parse

    said: list[str] = []
    plain = encode(document)
    results = parse(plain, Path("results"))
    if allure:
        from pytest_accel.report.allure import write

        try:
            write(results, Path(allure), accepted_new=options.allow_new or options.record is not None)
        except OSError as error:
            said.append(f"accel: the Allure results in {allure} cannot be written: {error.strerror or error}")
    if options.history:
        from pytest_accel.history.store import add

        try:
            add(options.history, plain)
        except ConfigError as error:
            said.append(f"accel: this run is not in the history: {error}")
    if options.notify and results.exit_code not in (0, 5):
        from pytest_accel.report.notify import notify

        problem = notify(options.notify, options.notify_format, results)
        said += [f"accel: nobody was notified: {problem}"] if problem else []
    if in_workflow():
        problem = append_summary(results)
        said += [f"accel: {problem}"] if problem else []
        said += annotate(results, config.rootpath)
    return said


class AllureAside:
    """Takes allure-pytest's listener out while suite variants run, whose results are written by ``publish``."""

    def __init__(self, config: pytest.Config, listener: object) -> None:
        self.manager = config.pluginmanager
        self.listener = listener

    def before(self, following: pytest.Item | None) -> None:
        """Call between two items' turns: the listener hears only what is no suite variant."""
        from pytest_accel.gate.items import AccelItem

        here = self.manager.is_registered(self.listener)
        if isinstance(following, AccelItem):
            if here:
                self.manager.unregister(self.listener)
        elif not here:
            self.manager.register(self.listener, "allure_listener")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> Generator[None, object, object]:
        """When an item's turn is over, make ready for the next one's."""
        try:
            return (yield)
        finally:
            self.before(nextitem)
