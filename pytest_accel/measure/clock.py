"""Sampling a device's clock: warm up until steady, flush the cache before each sample, time enough calls a sample."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_accel.measure.types import Unfit
from pytest_accel.stack.platform import DeviceEvent

RESOLUTIONS = 50  # a sample shorter than 50 clock steps would carry more than 2 % of rounding
IN_FLIGHT = 16  # samples queued between two waits: the host stays ahead of the device, the queue stays short


@dataclass(frozen=True)
class Plan:
    """How long to sample. Seconds; ``max_time`` bounds slow calls, which still get ``few_samples``."""

    min_time: float = 0.3
    min_samples: int = 15
    max_samples: int = 400
    max_time: float = 4.0
    few_samples: int = 3
    warm_time: float = 0.5
    steady: float = 0.05


@dataclass(frozen=True)
class Clock:
    """The three things that sampling needs of a device."""

    event: Callable[[], DeviceEvent]
    synchronize: Callable[[], None]
    flush: Callable[[], None] | None = None

    def resolution_us(self) -> float:
        """Microseconds that two events with nothing between them are apart (median of 9): the smallest honest step."""
        steps = []
        for _ in range(9):
            start, end = self.event(), self.event()
            start.record()
            end.record()
            self.synchronize()
            steps.append(start.elapsed_ms(end) * 1e3)
        return max(statistics.median(steps), 0.05)

    def sample(self, fn: Callable[[], object], plan: Plan | None = None) -> list[float]:
        """Microseconds a call of ``fn``, one number a sample. Raises Unfit("timing-not-credible") for a time <= 0."""
        plan = plan or Plan()
        once = self._warm_up(fn, plan)
        if once * 1e-6 > plan.max_time / (2 * plan.few_samples):
            calls = 1
        else:
            calls = max(1, math.ceil(RESOLUTIONS * self.resolution_us() / max(once, 1e-3)))
        samples: list[float] = []
        began = time.perf_counter()
        while not self._enough(samples, time.perf_counter() - began, plan):
            batch = 1 if once * calls > 1e5 else min(IN_FLIGHT, plan.max_samples - len(samples))
            samples += self._batch(fn, calls, batch)
        return samples

    @staticmethod
    def _enough(samples: list[float], passed: float, plan: Plan) -> bool:
        if len(samples) >= plan.max_samples:
            return True
        if passed >= plan.max_time and len(samples) >= plan.few_samples:
            return True
        return passed >= plan.min_time and len(samples) >= plan.min_samples

    def _batch(self, fn: Callable[[], object], calls: int, count: int) -> list[float]:
        pairs: list[tuple[DeviceEvent, DeviceEvent]] = []
        for _ in range(count):
            start, end = self.event(), self.event()
            if self.flush is not None:
                self.flush()
            start.record()
            for _ in range(calls):
                fn()
            end.record()
            pairs.append((start, end))
        self.synchronize()
        times = [start.elapsed_ms(end) * 1e3 / calls for start, end in pairs]
        for value in times:
            if not value > 0.0 or not math.isfinite(value):
                raise Unfit("timing-not-credible", f"the device's clock says that a call took {value} us")
        return times

    def _warm_up(self, fn: Callable[[], object], plan: Plan) -> float:
        """Call ``fn`` until its time is steady; returns the last time of a call in microseconds."""
        last = self._batch(fn, 1, 1)[0]  # compilation, allocation and clock ramp: never counted
        began = time.perf_counter()
        if last * 1e-6 > plan.warm_time:
            return last
        while time.perf_counter() - began < plan.warm_time:
            now = statistics.median(self._batch(fn, 1, 3))
            if abs(now - last) <= plan.steady * last:
                return now
            last = now
        return last
