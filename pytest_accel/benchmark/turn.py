"""One test's turn at being benchmarked: whether it is measured under xdist, alone on the machine, and judged."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.stack.initialised import is_active

if TYPE_CHECKING:
    from pytest_accel.benchmark.fixture import DeviceBenchmark

METRIC = "benchmark"
#: One process on one clock, read by the host: sessions of one H200 agree within 2.6 %, and the wait is up to 1.6 % of a round.
ON_DEVICE = "5%"
ON_HOST = "200%"  # hosts are shared: the shipped suites allow as much there


class Turn:
    """What the fixture must know of its test. ``by_xdist``: pytest-benchmark turned itself off since workers run."""

    def __init__(self, item: pytest.Item, by_xdist: bool) -> None:
        self.item = item
        self.by_xdist = by_xdist
        self.marked = item.get_closest_marker("accel") is not None
        self.rule: dict[str, Any] = {}
        self.wait_us = 0.0

    @property
    def wanted(self) -> bool:
        """True where the test is to be measured alone: it is marked, or it works on a device beside other workers."""
        return self.marked or (self.by_xdist and is_active())

    @contextmanager
    def taken(self, fixture: DeviceBenchmark) -> Iterator[None]:
        """Hold the device alone while a test is measured that is marked, or that runs in a worker beside others.

        Under xdist a test is measured where it is marked or works on a device; any other stays as pytest-benchmark leaves
        it: its function is called once, and not measured. Raises Unfit (ENV) where a marked test waited in vain.
        """
        if not self.wanted or (fixture.disabled and not self.by_xdist):
            yield
            return
        from pytest_accel.gate.context import gate_of

        gate = gate_of(self.item.config)
        # A test that was not given one device of its own may use any: then benchmarks run one after another.
        if not gate.devices.lock(exclusive=True, wide=not gate.narrowed):
            what = f"another run held the device for more than {gate.options.lock_wait:g} s (ini accel_lock_wait)"
            if self.marked:
                from pytest_accel.measure.types import Unfit

                raise Unfit("device-busy", what)
            warnings.warn(pytest.PytestWarning(f"{self.item.nodeid} was not benchmarked: {what}"), stacklevel=2)
            yield
            return
        fixture.disabled = False
        try:
            yield
        finally:
            gate.devices.unlock()

    def versions(self) -> dict[str, str]:
        """torch's version, for ``extra_info``."""
        return {"torch": str(sys.modules["torch"].__version__)} if "torch" in sys.modules else {}

    def judge(self, samples: list[float]) -> None:
        """Book a marked test's samples (microseconds a call) to be judged against the baseline when the test has ended."""
        if not self.marked:
            return
        from pytest_accel.gate.python_tests import check

        worse_by = ON_DEVICE if is_active() else ON_HOST
        check(self.item, METRIC, samples, {"unit": "us", "better": "lower", "worse_by": worse_by, **self.rule})
