"""pytest-benchmark's own fixture, which waits for the device at both ends of a round.

A device works behind the host: what returns at once has only been queued. So where torch is loaded and a device
initialised, the clock is read when the device has finished, once a round and not once a call: a wait costs as much as a
small kernel. Everybody else gets pytest-benchmark's own loop, its own timer and its own rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_benchmark.fixture import BenchmarkFixture

from pytest_accel.benchmark.turn import Turn
from pytest_accel.stack.initialised import active_devices, is_active

if TYPE_CHECKING:
    from pytest_accel.stack.initialised import ActiveDevices

#: What of pytest-benchmark this class stands on; a release without one of them is used as it is.
NEEDED = ("_make_runner", "_calibrate_timer", "_raw", "_raw_pedantic")
WAITS = 64.0  # a round lasts as long as so many waits, so that the one at its end is below 1.6 % of it
FIRST_BATCH = 8
GROWTH = 4
SETTLED = 3
US = 1e6


class DeviceBenchmark(BenchmarkFixture):  # type: ignore[misc]
    """The ``benchmark`` fixture. Made by pytest-benchmark itself, then given this class."""

    accel_turn: Turn

    def __call__(self, function_to_benchmark: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Measure as ``benchmark(function, ...)`` does."""
        call = super().__call__
        return self._in_turn(lambda: call(function_to_benchmark, *args, **kwargs))

    def pedantic(self, *args: Any, **kwargs: Any) -> Any:
        """Measure as ``benchmark.pedantic(...)`` does; one wait a round, whatever ``iterations`` is."""
        call = super().pedantic
        return self._in_turn(lambda: call(*args, **kwargs))

    def _in_turn(self, call: Callable[[], Any]) -> Any:
        """Measure when it is this test's turn. Where xdist turned benchmarks off, the one call shows whether a device is used."""
        turn = self.accel_turn
        if turn.by_xdist and self.disabled and not turn.wanted and not getattr(self, "_mode", None):
            result = call()
            if not turn.wanted:
                return result
            self._mode = None
        with turn.taken(self):
            result = call()
            self._told()
        return result

    def accel_rule(self, **words: Any) -> None:
        """How a test marked ``accel`` is judged: ``worse_by``, ``floor``, ``min``, ``max`` (microseconds a call)."""
        self.accel_turn.rule = words

    def _make_runner(
        self, function_to_benchmark: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Callable[..., Any]:
        """pytest-benchmark's runner; its timer waits for the device where there is one."""
        plain = super()._make_runner(function_to_benchmark, args, kwargs)
        base = self._timer
        known: list[tuple[ActiveDevices, ...]] = []

        def runner(loops_range: Any, timer: Callable[[], float] = base) -> Any:
            if not is_active():
                return _with_rest(plain(loops_range, timer=timer), timer)
            if len(known) < SETTLED:  # the function may begin to use another device when it is first called
                known.append(active_devices())
            devices = known[-1]

            def finished() -> float:
                for each in devices:
                    each.synchronize()
                return timer()

            return plain(loops_range, timer=finished)

        return runner

    def _calibrate_timer(self, runner: Callable[..., Any]) -> tuple[float, int, Any]:
        """pytest-benchmark's rounds; on a device, long enough that the wait at their end does not count."""
        duration, loops, loops_range = super()._calibrate_timer(runner)
        if not is_active():
            return duration, loops, loops_range
        longest = self._max_time / max(self._min_rounds, 1)
        one = min(float(runner(range(1))) for _ in range(3))
        self.accel_turn.wait_us = 0.0
        if FIRST_BATCH * one > longest:
            return one, 1, range(1)
        count = FIRST_BATCH
        while True:
            total = float(runner(range(count)))
            wait = max(one - total / count, 0.0)
            if total >= WAITS * wait or total * GROWTH > longest:
                break
            count *= GROWTH
        self.accel_turn.wait_us = wait * US
        loops = max(loops, math.ceil(WAITS * wait / (total / count)), 1)
        loops = min(loops, max(int(longest * count / total), 1))
        return float(runner(range(loops))), loops, range(loops)

    def _told(self) -> None:
        """Say in ``extra_info`` what was measured, and have it judged where the test is marked."""
        if not self.stats:
            return
        samples = [float(each) * US for each in self.stats.stats.data]
        devices = active_devices()
        if devices:
            first = devices[0]
            self.extra_info["accel"] = {
                "device": f"{first.kind}:{first.indices[0]}",
                "device_name": first.name,
                "time_us": statistics.median(samples),
                "wait_us": self.accel_turn.wait_us,
                "calls_per_wait": self.stats.iterations,
                **self.accel_turn.versions(),
            }
        self.accel_turn.judge(samples)


def _with_rest(measured: Any, timer: Callable[[], float]) -> Any:
    """A call that initialised a device by itself: the time until the device has finished belongs to it."""
    if not is_active():
        return measured
    start = timer()
    for each in active_devices():
        each.synchronize()
    rest = timer() - start
    return (measured[0] + rest, measured[1]) if isinstance(measured, tuple) else measured + rest
