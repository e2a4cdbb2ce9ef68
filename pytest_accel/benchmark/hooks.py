"""The hooks by which pytest-benchmark's fixture gets its class, and workers' benchmarks get to the controller."""

from __future__ import annotations

import warnings
from bisect import insort
from collections.abc import Generator
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pytest_accel.benchmark.fixture import NEEDED, DeviceBenchmark
from pytest_accel.benchmark.gather import packed, unpacked
from pytest_accel.benchmark.turn import Turn


class BenchmarkHooks:
    """Registered where pytest-benchmark is active. Fixtures of other classes (pytest-codspeed's, a user's) are left alone."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.measured = self.left_out = 0
        self.known = all(hasattr(BenchmarkFixture, name) for name in NEEDED)
        if not self.known:
            what = "this release of pytest-benchmark is not known to pytest-accel: its times end before the device has finished"
            warnings.warn(pytest.PytestWarning(what), stacklevel=2)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Give the fixture that pytest-benchmark has just made the class that waits for devices."""
        made = yield
        if fixturedef.argname == "benchmark" and type(made) is BenchmarkFixture and self.known:
            made.__class__ = DeviceBenchmark
            made.accel_turn = Turn(request.node, self.is_worker and made.disabled and not self._disabled_by_user())
            if made.accel_turn.marked:
                from pytest_accel.gate.accelerators import accelerator_for

                accelerator_for(request.node)
        return made

    def _disabled_by_user(self) -> bool:
        option = self.config.getoption
        return bool(option("benchmark_disable") and not option("benchmark_enable"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """In a worker: put the benchmark on the report, and take it from the worker's own session."""
        report = yield
        fixture = getattr(item, "funcargs", {}).get("benchmark")
        if not self.is_worker or call.when != "call" or not isinstance(fixture, DeviceBenchmark):
            return report
        session = self.config._benchmarksession  # type: ignore[attr-defined]
        if fixture.stats is None:
            self.left_out += fixture.accel_turn.by_xdist
        elif fixture.stats in session.benchmarks:
            self.measured += 1
            session.benchmarks.remove(fixture.stats)
            report.accel_benchmark = packed(fixture.stats)  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the controller: hand the benchmark to pytest-benchmark's session, in an order that does not depend on workers."""
        text = getattr(report, "accel_benchmark", None)
        if text is not None and not self.is_worker:
            session = self.config._benchmarksession  # type: ignore[attr-defined]
            insort(session.benchmarks, unpacked(text), key=lambda each: str(each.fullname))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Where everything was measured after all, "benchmarks are disabled" would be wrong."""
        session = getattr(self.config, "_benchmarksession", None)
        if self.is_worker and self.measured and not self.left_out and session is not None:
            session.xdist_benchmark_found = False
        return (yield)
