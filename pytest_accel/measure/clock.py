"""Sampling a device's clock: warm up until steady, flush the cache before each sample, time enough calls a sample."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_accel.measure.types import Unfit
from pytest_accel.stack.platform import DeviceEvent

RESOLUTIONS = 50  # several calls a sample make it this many clock steps long, so that rounding stays below 2 %
SINGLE = 10  # a call this many clock steps long (20 us on an H200) is a sample by itself: each meets an emptied cache
IN_FLIGHT = 16  # samples queued between two waits: the host stays ahead of the device, the queue stays short
QUEUE = 512  # launches a driver surely takes before it makes the host wait (CUDA: about 1024)
LEAD = 1.5  # the device is held for 1.5 times what the host took to queue such a batch the last time
LEAD_LIMIT = 5e3  # microseconds; a call that waits for the device itself gains nothing from a longer one
WARM_BATCH = 1e4  # microseconds of work between two waits while warming up


@dataclass(frozen=True)
class Plan:
    """How long to sample. Seconds; ``max_time`` bounds slow calls, which still get ``few_samples``.

    ``burst`` and ``pause``: a device that works on and on meets its power limit, and slows down by as much as that card and
    that hour allow. One H200, products of 8192 in bfloat16 in four sessions: 1600 to 1618 us without a pause, 1405 to
    1407 us in bursts of 20 ms with pauses of 80 ms; of 4096: 201 us against 181.7 to 182.2. Memory-bound work is the same
    either way. ``bursts``: so many at least. ``warm_least``: until the clock has risen. No pauses on a host, which has no
    device to hold.
    """

    min_time: float = 0.3
    min_samples: int = 15
    max_samples: int = 400
    max_time: float = 4.0
    few_samples: int = 3
    warm_time: float = 0.75
    warm_least: float = 0.2
    burst: float = 0.02
    pause: float = 0.08
    bursts: int = 5
    steady: float = 0.05


@dataclass(frozen=True)
class Clock:
    """What sampling needs of a device.

    ``flush`` empties its cache, before each sample. ``hold`` is a little work of the device's alone: as many of them as
    needed go first in each batch, so that all samples are queued before the first begins. Else a short call is timed by
    how fast the host launches it (a product of 10.5 us on an H200: 12 to 21 us from session to session). ``meanwhile`` is
    called when a batch is queued: the device works, and the host would only wait.
    """

    event: Callable[[], DeviceEvent]
    synchronize: Callable[[], None]
    flush: Callable[[], object] | None = None
    hold: Callable[[], object] | None = None
    meanwhile: Callable[[], None] | None = None

    def resolution_us(self) -> float:
        """Microseconds that two events with nothing between them are apart (median of 9): the smallest honest step."""
        return max(self._median_us(lambda: None, 9), 0.05)

    def _median_us(self, work: Callable[[], object], count: int) -> float:
        steps = []
        for _ in range(count):
            start, end = self.event(), self.event()
            start.record()
            work()
            end.record()
            self.synchronize()
            steps.append(start.elapsed_ms(end) * 1e3)
        return statistics.median(steps)

    def sample(self, fn: Callable[[], object], plan: Plan | None = None) -> list[float]:
        """Microseconds a call of ``fn``, one number a sample. Raises Unfit("timing-not-credible") for a time <= 0."""
        plan = plan or Plan()
        lead = Lead(self._median_us(self.hold, 3) if self.hold is not None else None)
        once = self._warm_up(fn, plan, lead)
        if once * 1e-6 > plan.max_time / (2 * plan.few_samples):
            calls = 1
        else:
            step = self.resolution_us()
            calls = 1 if once >= SINGLE * step else math.ceil(RESOLUTIONS * step / max(once, 1e-3))
        most = max(1, min(IN_FLIGHT, QUEUE // (calls + 3)))
        samples: list[float] = []
        began = time.perf_counter()
        rest = Rest(plan if self.hold is not None else None)
        while not self._enough(samples, time.perf_counter() - began, rest.bursts, plan):
            batch = 1 if once * calls > 1e5 else min(most, plan.max_samples - len(samples))
            samples += self._batch(fn, calls, batch, lead)
            rest.after_batch()
        return samples

    def _enough(self, samples: list[float], passed: float, bursts: int, plan: Plan) -> bool:
        if len(samples) >= plan.max_samples:
            return True
        if passed >= plan.max_time and len(samples) >= plan.few_samples:
            return True
        rested = self.hold is None or plan.min_time == 0 or bursts >= plan.bursts
        return passed >= plan.min_time and len(samples) >= plan.min_samples and rested

    def _batch(self, fn: Callable[[], object], calls: int, count: int, lead: Lead) -> list[float]:
        pairs: list[tuple[DeviceEvent, DeviceEvent]] = []
        held = self._hold(lead, calls * count)
        began = time.perf_counter()
        for _ in range(count):
            start, end = self.event(), self.event()
            if self.flush is not None:
                self.flush()
            start.record()
            for _ in range(calls):
                fn()
            end.record()
            pairs.append((start, end))
        lead.host_us = (time.perf_counter() - began) * 1e6 / (calls * count)
        if self.meanwhile is not None:
            self.meanwhile()
        self.synchronize()
        if held is not None:  # anew each time: a device that was idle holds for longer than one under load
            lead.hold_us = held[0].elapsed_ms(held[1]) * 1e3 / lead.count
        times = [start.elapsed_ms(end) * 1e3 / calls for start, end in pairs]
        for value in times:
            if not value > 0.0 or not math.isfinite(value):
                raise Unfit("timing-not-credible", f"the device's clock says that a call took {value} us")
        return times

    def _hold(self, lead: Lead, calls: int) -> tuple[DeviceEvent, DeviceEvent] | None:
        """Give the device work of its own for as long as the host takes to queue ``calls`` calls."""
        lead.count = lead.holds(calls)
        if lead.count == 0 or self.hold is None:
            return None
        start, end = self.event(), self.event()
        start.record()
        began = time.perf_counter()
        for _ in range(lead.count):
            self.hold()
        lead.launch_us = (time.perf_counter() - began) * 1e6 / lead.count
        end.record()
        return start, end

    def _warm_up(self, fn: Callable[[], object], plan: Plan, lead: Lead) -> float:
        """Call ``fn`` until its time is steady and the device is under load; returns the last time of a call in microseconds."""
        last = self._batch(fn, 1, 1, lead)[0]  # compilation, allocation and clock ramp: never counted
        if last * 1e-6 > plan.warm_time:
            return self._batch(fn, 1, 1, lead)[0]  # slow, or compiled just now
        least = min(plan.warm_least, 2 * plan.min_time) if self.hold is not None else 0.0
        began = time.perf_counter()
        passed = 0.0
        rest = Rest(plan if self.hold is not None else None)
        while passed < plan.warm_time:
            count = min(max(3 if last < 1e5 else 1, int(WARM_BATCH / last)), IN_FLIGHT)
            now = statistics.median(self._batch(fn, 1, count, lead))
            rest.after_batch()
            passed = time.perf_counter() - began
            if abs(now - last) <= plan.steady * last and passed >= least:
                return now
            last = now
        return last


@dataclass
class Rest:
    """Bursts and pauses. ``plan`` None: no pauses. ``bursts`` counts those that are over."""

    plan: Plan | None
    bursts: int = 0
    began: float = field(default_factory=lambda: time.perf_counter())

    def after_batch(self) -> None:
        """Let the device rest where its burst is over; a call longer than a burst is one by itself."""
        if self.plan is None or time.perf_counter() - self.began < self.plan.burst:
            return
        time.sleep(self.plan.pause)
        self.bursts += 1
        self.began = time.perf_counter()


@dataclass
class Lead:
    """How long the device must be held for the host to queue a batch. Microseconds, as the last batch showed them.

    ``hold_us``: one hold on the device (None: there is no hold); ``launch_us``: the host's time for it; ``host_us``: the
    host's time for one call; ``count``: holds before this batch.
    """

    hold_us: float | None
    launch_us: float = 0.0
    host_us: float = 0.0
    count: int = 0

    def holds(self, calls: int) -> int:
        """The number of holds that go before ``calls`` calls."""
        if self.hold_us is None:
            return 0
        gained = max(self.hold_us - self.launch_us, self.hold_us / 4, 1.0)
        return min(math.ceil(min(LEAD * self.host_us * calls, LEAD_LIMIT) / gained), QUEUE)
