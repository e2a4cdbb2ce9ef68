"""Level changes: found where a level moved and stayed, silent about noise, single bad nights and short series."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.history.changes import EFFECT, SHORTEST, change_points, noise

pytest.importorskip("ruptures")


def nights(count, level=100.0, spread=0.5, seed=1):
    draw = random.Random(seed)
    return [draw.gauss(level, spread) for _ in range(count)]


def test_a_level_that_moved_and_stayed_is_found_at_its_first_run():
    (found,) = change_points(nights(30) + nights(30, level=105.0, seed=2))
    assert found.place == 30
    assert found.relative == pytest.approx(0.05, abs=0.006)


def test_two_moves_are_two_changes_and_the_second_may_go_back():
    found = change_points(nights(20) + nights(20, level=110.0, seed=2) + nights(20, seed=3))
    assert [each.place for each in found] == [20, 40]
    assert found[0].relative > 0 > found[1].relative


def test_a_single_bad_night_is_no_change():
    series = nights(60)
    series[30] = 1000.0
    assert change_points(series) == []


def test_a_series_without_any_noise_moves_by_its_first_real_step():
    assert change_points([7.0] * 40) == []
    (found,) = change_points([4096.0] * 20 + [8192.0] * 20)
    assert (found.place, found.before, found.after) == (20, 4096.0, 8192.0)


def test_a_move_below_the_effect_is_no_change():
    assert change_points([100.0] * 20 + [100.0 * (1 + EFFECT * 0.9)] * 20) == []
    assert len(change_points([100.0] * 20 + [100.0 * (1 + EFFECT * 1.1)] * 20)) == 1


def test_a_level_that_starts_at_zero_changes_infinitely():
    (found,) = change_points([0.0] * 20 + [3.0] * 20)
    assert found.relative == float("inf")


def test_fewer_runs_than_two_levels_say_nothing():
    assert change_points([1.0] * (SHORTEST - 1) + [2.0] * SHORTEST) == []


def test_unchanged_noise_is_silent():
    alarms = sum(bool(change_points(nights(60, spread=1.0, seed=seed))) for seed in range(200))
    assert alarms <= 2


@given(st.lists(st.floats(min_value=-1e30, max_value=1e30), min_size=2, max_size=40))
def test_any_finite_series_is_answered_and_every_change_is_inside_it(values):
    assert noise(values) > 0
    for found in change_points(values):
        assert SHORTEST <= found.place <= len(values) - SHORTEST
