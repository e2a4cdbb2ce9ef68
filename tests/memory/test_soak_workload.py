"""The leak soak against steps that leak, fill a pool, or hold a cache ahead, on this host."""

from __future__ import annotations

import sys
import time
import types

import pytest

from pytest_accel.measure.types import BadArguments, TooNoisy
from pytest_accel.workloads.memory_soak import memory_soak

torch = pytest.importorskip("torch")
SOAK = 0.04  # minutes
RATE = 300e6 / 3600  # bytes a second


@pytest.fixture
def own(monkeypatch):
    """Give the soak a step of the test's own by a name, as a user's would have one."""

    def name(make):
        module = types.ModuleType("own_steps")
        module.make = make
        monkeypatch.setitem(sys.modules, "own_steps", module)
        return "own_steps:make"

    return name


def quiet(accel):
    weight = torch.ones(64, 64)
    return lambda length: torch.relu(torch.ones(length, 64) @ weight)


def test_300_mb_an_hour_are_found_in_the_declared_time_with_the_time_to_out_of_memory(accel, own):
    kept = []

    def leaking(accel):
        began, step, held = time.perf_counter(), quiet(accel), 0

        def serve(length):
            nonlocal held
            step(length)
            while held < RATE * (time.perf_counter() - began):
                kept.append(torch.ones(5000))
                held += 20_000

        return serve

    found = memory_soak(accel, own(leaking), minutes=SOAK)
    assert found["leak"] > 250
    assert found["slope_low"] > 60
    assert found["hours_to_oom"] == pytest.approx(8e3 / found["leak"], rel=0.25)
    assert "out of memory in" in accel.notes["leak"]
    assert found["per_1000"] > 0


def test_a_pool_that_fills_first_and_a_cache_taken_ahead_pass(accel, own):
    def filling(accel):
        step, pool = quiet(accel), []
        cache = torch.empty(30_000_000)
        began = time.perf_counter()

        def serve(length):
            step(length)
            cache[: 1000 * length] = 1.0
            if time.perf_counter() - began < SOAK * 60 / 4 and len(pool) < 200:
                pool.append(torch.ones(20_000))

        return serve

    found = memory_soak(accel, own(filling), minutes=SOAK, cap="6GB")
    assert found["leak"] == 0.0
    assert found["leak_reserved"] == 0.0
    assert found["smallest"] < 300
    assert 0 < found["peak_share"] < found["cap_share"] < 100
    assert 0 <= found["fragmentation"] < 100
    assert "hours_to_oom" not in found


def test_a_soak_that_could_not_have_seen_what_it_must_says_how_long_it_would_take(accel, own):
    def breathing(accel):
        step, held = quiet(accel), []
        began = time.perf_counter()

        def serve(length):
            step(length)
            held[:] = [torch.ones(int(1e6 * ((time.perf_counter() - began) * 7 % 1)))]

        return serve

    with pytest.raises(TooNoisy, match=r"could have seen is .* MB/h, and it must see 300: give it about .* minutes"):
        memory_soak(accel, own(breathing), minutes=SOAK)


def test_a_declared_number_of_requests_is_served(accel):
    found = memory_soak(accel, requests=400, lengths=[4, 8], must_see=0)
    assert found["requests"] == 400
    with pytest.raises(TooNoisy, match="too few"):
        memory_soak(accel, requests=10, lengths=[4], must_see=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"minutes": 0.0}, "minutes"),
        ({"requests": -1}, "requests"),
        ({"lengths": [0]}, "lengths"),
        ({"floor": 300.0}, "floor"),
        ({"implementation": "nothing"}, "package.module:function"),
        ({"cap": "much"}, "cap"),
    ],
)
def test_wrong_arguments_are_told(accel, wrong, said):
    with pytest.raises(BadArguments, match=said):
        memory_soak(accel, **wrong)
