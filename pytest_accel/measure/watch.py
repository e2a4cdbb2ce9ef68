"""The device's state around and during timings: throttling, clocks, temperature, power, other processes.

Readings during a timing are taken while the device works and the host would only wait for it, so that they delay no launch.
They take at most a twentieth of the time: a vendor's library answers in a millisecond, its command-line tool in a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.measure.types import Unfit
from pytest_accel.stack.types import Telemetry

INTERVAL = 0.1  # seconds between two readings, at least
SHARE = 20  # and at least this many times what the last reading took
FRESH = 2.0  # seconds for which a reading that is slow to get (SLOW) stands for the state before the next timing
SLOW = 0.05
STEADY_MEMORY = 0.9  # under load the memory clock is fixed; the compute clock moves with power (an H200: by a third)
STEADY_COMPUTE = 0.5


@dataclass
class Watch:
    """Watches one device through the timings of one variant. ``read`` returns its telemetry now."""

    read: Callable[[], Telemetry]
    loaded: list[Telemetry] = field(default_factory=list)
    _all: list[Telemetry] = field(default_factory=list)
    _took: float = 0.0
    _at: float = float("-inf")

    def before(self) -> None:
        """Read before a timing. Raises Unfit ``throttled`` or ``shared``."""
        self.loaded = []
        if not (self._took > SLOW and time.perf_counter() - self._at < FRESH):
            _check(self._read(), "before")

    def during(self) -> None:
        """Read while the device works, if it is time again. Raises Unfit ``throttled`` or ``shared``."""
        if time.perf_counter() - self._at >= max(INTERVAL, SHARE * self._took):
            state = self._read()
            self.loaded.append(state)
            _check(state, "during")

    def after(self) -> None:
        """Read after a timing. Raises Unfit ``throttled``, ``shared`` or, where clocks fell under load, ``clocks-moved``."""
        _check(self._read(), "after")
        for name, what, steady in (
            ("memory_clock_mhz", "memory", STEADY_MEMORY),
            ("sm_clock_mhz", "compute", STEADY_COMPUTE),
        ):
            seen = [value for state in self.loaded if (value := getattr(state, name)) is not None]
            if seen and min(seen) < steady * max(seen):
                raise Unfit("clocks-moved", f"the {what} clock fell from {max(seen)} to {min(seen)} MHz during timing")

    def summary(self) -> dict[str, Any]:
        """Least and largest of what was read, and how often; empty where the platform tells nothing."""
        found: dict[str, Any] = {}
        for name in ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c"):
            values = [value for state in self._all if (value := getattr(state, name)) is not None]
            if values:
                found[name] = [min(values), max(values)]
        return {**found, "readings": len(self._all)} if found else {}

    def _read(self) -> Telemetry:
        began = time.perf_counter()
        state = self.read()
        self._at = time.perf_counter()
        self._took = self._at - began
        self._all.append(state)
        return state


def _check(state: Telemetry, when: str) -> None:
    if state.throttled:
        raise Unfit("throttled", f"the device was throttled {when} timing: {', '.join(state.throttled)}")
    if state.other_processes:
        raise Unfit("shared", f"{state.other_processes} other process(es) were on the device {when} timing")
