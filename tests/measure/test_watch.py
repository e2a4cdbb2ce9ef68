"""The watch over a device's state: what makes a timing unfit, when it reads, and what it keeps for reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_accel.measure import watch as module
from pytest_accel.measure.types import Unfit
from pytest_accel.measure.watch import Watch
from pytest_accel.stack.types import Telemetry

WELL = Telemetry(sm_clock_mhz=1980, memory_clock_mhz=3201, power_w=300.0, temperature_c=40.0, other_processes=0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by hand, and by ``cost`` at each reading of the device."""

    class Clock:
        now = 0.0
        cost = 0.001

        def perf_counter(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def watched(clock):
    """A watch over states that the test queues; the last one stays."""

    def make(*states):
        queue = list(states)

        def read():
            clock.now += clock.cost
            return queue.pop(0) if len(queue) > 1 else queue[0]

        return Watch(read)

    return make


def test_a_well_device_is_fit_and_its_extremes_are_kept(watched, clock):
    hot = replace(WELL, sm_clock_mhz=1500, power_w=700.0, temperature_c=60.0)
    watch = watched(WELL, hot, WELL)
    watch.before()
    clock.now += 1.0
    watch.during()
    watch.after()
    assert watch.summary() == {
        "sm_clock_mhz": [1500, 1980],
        "memory_clock_mhz": [3201, 3201],
        "power_w": [300.0, 700.0],
        "temperature_c": [40.0, 60.0],
        "readings": 3,
    }


@pytest.mark.parametrize("place", ["before", "during", "after"])
@pytest.mark.parametrize(
    ("state", "code"),
    [(replace(WELL, throttled=("thermal",)), "throttled"), (replace(WELL, other_processes=2), "shared")],
)
def test_a_throttled_or_shared_device_is_unfit_at_any_moment(watched, clock, place, state, code):
    watch = watched(*[WELL] * ("before", "during", "after").index(place), state)
    with pytest.raises(Unfit, match=f"{place} timing") as caught:
        for step in (watch.before, watch.during, watch.after):
            clock.now += 1.0
            step()
    assert caught.value.code == code


def test_a_compute_clock_that_moves_with_power_is_lawful_and_one_that_falls_by_more_than_half_is_not(watched, clock):
    def run(low):
        watch = watched(WELL, WELL, replace(WELL, sm_clock_mhz=low))
        watch.before()
        for _ in range(2):
            clock.now += 1.0
            watch.during()
        watch.after()

    run(1300)
    with pytest.raises(Unfit, match="compute clock fell from 1980 to 900 MHz") as caught:
        run(900)
    assert caught.value.code == "clocks-moved"


def test_a_memory_clock_that_falls_under_load_is_unfit(watched, clock):
    watch = watched(WELL, WELL, replace(WELL, memory_clock_mhz=1600))
    watch.before()
    for _ in range(2):
        clock.now += 1.0
        watch.during()
    with pytest.raises(Unfit, match="memory clock"):
        watch.after()


def test_readings_take_at_most_a_twentieth_of_the_time(watched, clock):
    clock.cost = 0.03
    watch = watched(WELL)
    for _ in range(1000):
        clock.now += 0.01
        watch.during()
    assert clock.now == pytest.approx(10.0 + 0.03 * len(watch.loaded))
    assert 10 <= len(watch.loaded) <= 17
    clock.cost = 0.0
    watch.during()
    before = len(watch.loaded)
    for _ in range(100):
        clock.now += 0.01
        watch.during()
    assert len(watch.loaded) - before <= 10


def test_a_reading_that_is_slow_to_get_serves_the_next_timing_as_well(watched, clock):
    clock.cost = 1.0
    watch = watched(WELL)
    watch.before()
    watch.after()
    watch.before()
    assert watch.summary()["readings"] == 2
    clock.now += 10.0
    watch.before()
    assert watch.summary()["readings"] == 3


def test_a_platform_that_tells_nothing_leaves_no_note(watched):
    watch = watched(Telemetry())
    watch.before()
    watch.after()
    assert watch.summary() == {}
