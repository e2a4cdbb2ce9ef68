"""The clock on a device that works behind the host's back: simulated, with a host that launches slower than it works."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

import pytest

from pytest_accel.measure import clock as module
from pytest_accel.measure.clock import Clock, Plan


@dataclass
class Device:
    """Work queues up; ``now`` is the host's clock, ``free`` when the device has done all that is queued (microseconds).

    ``slow_after``: with so much work done and not rested from, the device hits its power limit, and all takes ``slower``
    times as long.
    """

    launch: float = 6.0
    slow_after: float = float("inf")
    slower: float = 1.0
    now: float = 0.0
    free: float = 0.0
    busy: float = 0.0

    def work(self, us: float) -> None:
        self.now += self.launch
        begin = max(self.now, self.free)
        self.busy = max(0.0, self.busy - (begin - self.free))
        took = us * (self.slower if self.busy > self.slow_after else 1.0)
        self.free, self.busy = begin + took, self.busy + took

    def synchronize(self) -> None:
        self.now = max(self.now, self.free) + 10.0

    def event(self) -> Event:
        return Event(self)


@dataclass
class Event:
    device: Device
    at: float = 0.0

    def record(self) -> None:
        self.device.now += 1.0
        self.at = max(self.device.now, self.device.free)

    def elapsed_ms(self, later: Event) -> float:
        return (later.at - self.at) / 1e3


@pytest.fixture
def make_clock(monkeypatch):
    def make(device, hold=True):
        class Time:
            perf_counter = staticmethod(lambda: device.now / 1e6)

            @staticmethod
            def sleep(seconds):
                device.now += seconds * 1e6

        monkeypatch.setattr(module, "time", Time)
        flush = lambda: device.work(30.0)  # noqa: E731
        return Clock(device.event, device.synchronize, flush, hold=flush if hold else None)

    return make


@pytest.mark.parametrize("launch", [3.0, 6.0, 12.0, 25.0])
def test_a_short_call_takes_what_the_device_takes_however_slow_the_host_launches(make_clock, launch):
    device = Device(launch=launch)
    samples = make_clock(device).sample(lambda: device.work(10.0))
    assert statistics.median(samples) == pytest.approx(10.0, rel=0.02)
    assert statistics.quantiles(samples, n=20)[-1] == pytest.approx(10.0, rel=0.05)


def test_without_a_hold_the_host_would_be_timed(make_clock):
    device = Device(launch=25.0)
    samples = make_clock(device, hold=False).sample(lambda: device.work(4.0))
    assert statistics.median(samples) > 4.4


def test_sampling_rests_below_the_power_limit_that_work_without_a_pause_would_meet(make_clock):
    device = Device(slow_after=0.1e6, slower=1.1)
    samples = make_clock(device).sample(lambda: device.work(200.0))
    assert max(samples) == pytest.approx(200.0, rel=0.01)

    hot = Device(slow_after=0.1e6, slower=1.1)
    restless = Plan(pause=0.0)
    assert statistics.median(make_clock(hot).sample(lambda: hot.work(200.0), restless)) == pytest.approx(
        220.0, rel=0.01
    )


def test_a_host_as_its_own_device_takes_no_pauses(make_clock):
    device = Device()
    make_clock(device, hold=False).sample(lambda: device.work(100.0), Plan(min_time=0.01))
    assert device.now < 0.05e6


def test_a_call_that_was_compiled_at_first_is_warmed_up_all_the_same(make_clock):
    device = Device()
    first = iter([2e6])
    samples = make_clock(device).sample(lambda: device.work(next(first, 10.0)))
    assert statistics.median(samples) == pytest.approx(10.0, rel=0.02)


def test_a_call_that_waits_for_the_device_is_not_held_for_long(make_clock):
    device = Device()

    def call():
        device.work(5000.0)
        device.synchronize()

    samples = make_clock(device).sample(call)
    assert statistics.median(samples) == pytest.approx(5000.0, rel=0.02)
    assert device.now < 3e6


def test_what_is_done_meanwhile_finds_the_device_at_work_and_delays_no_launch(make_clock):
    device = Device()
    busy = []

    def meanwhile():
        busy.append(device.free > device.now)
        device.now += 500.0  # a reading of the device's state

    clock = replace(make_clock(device), meanwhile=meanwhile)
    samples = clock.sample(lambda: device.work(10.0))
    assert statistics.median(samples) == pytest.approx(10.0, rel=0.02)
    assert busy.count(True) > len(busy) / 2


def test_a_plan_without_time_is_quick(make_clock):
    device = Device()
    make_clock(device).sample(lambda: device.work(100.0), Plan(min_time=0.0, min_samples=3))
    assert device.now < 0.05e6


def test_the_real_clock_is_back():
    assert module.time is time
