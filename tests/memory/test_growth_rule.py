"""The slope rule of the leak soak, by what it does: rates measured by seeded simulation, and laws that hold for any series."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.measure.soak import growth, line

MINUTE = 60.0
SAMPLES = 120
FLOOR = 60.0  # MB an hour


def soak(shape: Callable[[float, random.Random], float], seed: int, leak: float = 0.0, **how):
    """A soak of one minute: ``shape`` gives MB at a share of it, ``leak`` is added in MB an hour."""
    rng = random.Random(seed)
    seconds = [(i + 1) * MINUTE / SAMPLES for i in range(SAMPLES)]
    held = [(500 + shape(at / MINUTE, rng) + leak * at / 3600) * 1e6 for at in seconds]
    return growth(seconds, [10.0 * (i + 1) for i in range(SAMPLES)], held, floor=FLOOR, **how)


def noise(at: float, rng: random.Random) -> float:
    return rng.gauss(0, 0.2)


def pool_that_fills(at: float, rng: random.Random) -> float:
    return 200 * (1 - math.exp(-at / 0.04)) + rng.gauss(0, 0.05)


def sawtooth(at: float, rng: random.Random) -> float:
    return 4 * ((at * 9) % 1) + rng.gauss(0, 0.1)


def one_late_segment(at: float, rng: random.Random) -> float:
    return 20.0 * (at > 0.75)


def spikes(at: float, rng: random.Random) -> float:
    return rng.gauss(0, 0.2) + (300 if rng.random() < 0.1 else 0)


def held_ahead(at: float, rng: random.Random) -> float:
    return 4000.0


class Wave:
    """Memory that is much like memory just before: lag-one correlation 0.9."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, at: float, rng: random.Random) -> float:
        self.last = 0.9 * self.last + rng.gauss(0, 0.2 * math.sqrt(1 - 0.81))
        return self.last


@pytest.mark.parametrize(
    "shape", [noise, pool_that_fills, sawtooth, one_late_segment, spikes, held_ahead, Wave], ids=lambda s: s.__name__
)
def test_what_does_not_leak_is_not_called_a_leak(shape):
    alarms = sum(soak(shape() if isinstance(shape, type) else shape, seed).leaking for seed in range(100))
    assert alarms == 0


@pytest.mark.parametrize("shape", [noise, pool_that_fills, spikes, held_ahead], ids=lambda s: s.__name__)
def test_a_leak_of_300_mb_an_hour_is_found_within_a_minute(shape):
    found = [soak(shape, seed, leak=300.0) for seed in range(100)]
    assert sum(each.leaking for each in found) >= 98
    assert sum(each.low <= 300.0 <= each.high for each in found) >= 95


@pytest.mark.parametrize("shape", [noise, spikes], ids=lambda s: s.__name__)
def test_the_smallest_slope_that_could_have_been_seen_is_seen_nine_times_in_ten(shape):
    smallest = [soak(shape, seed).smallest for seed in range(100)]
    seen = sum(soak(shape, 1000 + seed, leak=slope).leaking for seed, slope in enumerate(smallest))
    assert seen >= 90


def test_without_a_floor_noise_alarms_no_more_often_than_its_interval_promises():
    alarms = 0
    for seed in range(400):
        found = soak(noise, seed)
        alarms += found.low > 0
    # 0.5 % of one side is the interval's promise: 2 of 400; 8 or more would have a chance below 1 in 1,000
    assert alarms < 8


def test_growth_by_whole_steps_is_found_and_what_is_too_fine_for_the_steps_is_said():
    step = 0.1e6

    def taken(leak):
        seconds = [(i + 1) * MINUTE / SAMPLES for i in range(SAMPLES)]
        held = [math.floor(leak * 1e6 * at / 3600 / step) * step for at in seconds]
        return growth(seconds, seconds, held, floor=FLOOR, step=step)

    flat = taken(0.0)
    assert flat.smallest == pytest.approx(FLOOR + 4 * 0.1 / (30 * 39 / 40 / 3600), rel=0.02)
    assert taken(flat.smallest).leaking
    assert not taken(FLOOR / 2).leaking


def test_slopes_are_told_per_thousand_requests_too():
    found = soak(held_ahead, 0, leak=360.0)
    assert found.slope == pytest.approx(360.0)
    assert found.per_1000 == pytest.approx(360.0 / 3600 * MINUTE / SAMPLES * 100)


def test_a_soak_with_too_few_samples_has_no_slope():
    assert growth([], [], [], floor=0.0) is None
    assert growth([float(i) for i in range(30)], [float(i) for i in range(30)], [0.0] * 30, floor=0.0) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-10_000, 10_000), min_size=20, max_size=40),
    st.integers(-1000, 1000),
    st.integers(1, 100),
)
def test_a_line_follows_shift_and_scale_and_lies_within_its_interval(values, shift, scale):
    x = [float(i) for i in range(len(values))]
    plain = line(x, [float(value) for value in values])
    moved = line(x, [float(scale * value + shift) for value in values])
    assert plain.low <= plain.slope <= plain.high
    for name in ("slope", "low", "high"):
        assert getattr(moved, name) == pytest.approx(scale * getattr(plain, name), rel=1e-6, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=40))
def test_falling_memory_is_the_mirror_of_growing_memory(values):
    x = [float(i) for i in range(len(values))]
    up, down = line(x, values), line(x, [-value for value in values])
    assert down.slope == pytest.approx(-up.slope, rel=1e-9, abs=1e-9)


def test_a_straight_line_has_its_slope_and_no_width():
    found = line([0.0, 1.0, 2.0, 5.0, 9.0, 11.0, 12.0], [3.0 + 2.0 * x for x in (0, 1, 2, 5, 9, 11, 12)])
    assert (found.slope, found.low, found.high) == (2.0, 2.0, 2.0)


def test_two_points_have_no_slope():
    with pytest.raises(ValueError, match="three points"):
        line([0.0, 1.0], [0.0, 1.0])
