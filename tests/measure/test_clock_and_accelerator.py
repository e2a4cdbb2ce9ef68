"""Timing: what a sample is, and every way in which a clock or a device is refused."""

from __future__ import annotations

import itertools
import time

import pytest

from pytest_accel.measure.types import Unfit, Unmeasured
from pytest_accel.stack.types import Roof, Telemetry

torch = pytest.importorskip("torch")
ROOF = Roof({"float16": 100.0, "float32": 10.0, "tf32": 50.0}, 1000.0, "a made-up device")


def ticking(step):
    """A clock that moves by ``step`` seconds at each reading."""
    count = itertools.count()
    return lambda: next(count) * step


def test_work_that_takes_five_milliseconds_is_measured_as_that(make_accelerator):
    samples = make_accelerator().time(lambda: time.sleep(0.005), min_time=0.02, min_samples=4)
    assert len(samples) >= 4
    assert min(samples) >= 5000


def test_a_call_shorter_than_the_clock_can_tell_is_timed_many_at_a_time(make_accelerator, fake_platform):
    def slow_clock():
        until = time.perf_counter() + 20e-6  # a reading costs 20 us
        while time.perf_counter() < until:
            pass
        return until

    fake_platform.read = slow_clock
    calls = itertools.count()
    make_accelerator().time(lambda: next(calls), min_time=0.0, min_samples=3, max_time=0.5)
    assert next(calls) > 300


def test_a_slow_call_still_ends_in_time(make_accelerator):
    began = time.perf_counter()
    samples = make_accelerator().time(lambda: time.sleep(0.2), min_time=0.1, max_time=0.3)
    assert len(samples) >= 3
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize("step", [0.0, -1e-3])
def test_a_clock_that_stands_or_runs_backwards_is_not_credible(make_accelerator, fake_platform, step):
    fake_platform.read = ticking(step)
    with pytest.raises(Unfit) as caught:
        make_accelerator().time(lambda: None)
    assert caught.value.code == "timing-not-credible"


@pytest.mark.parametrize(
    ("flops", "dtype", "credible"),
    [
        (1e11, "float16", True),
        (1.2e11, "float16", False),
        (5e10, "float32", True),  # lawful as TF32
        (6e10, "float32", False),
        (1e12, "float8", True),  # no roof known: nothing is guessed
        (1e12, None, False),
    ],
)
def test_more_flops_than_the_roof_are_not_credible(make_accelerator, fake_platform, flops, dtype, credible):
    fake_platform.read, fake_platform.known_roof = ticking(1e-3), ROOF  # every sample reads 1 ms
    accel = make_accelerator()
    if credible:
        assert accel.time(lambda: None, flops=flops / 50, dtype=dtype, min_time=0.0)
    else:
        with pytest.raises(Unfit, match="TFLOP/s") as caught:
            accel.time(lambda: None, flops=flops, dtype=dtype, min_time=0.0)
        assert caught.value.code == "timing-not-credible"


def test_more_bytes_than_the_memory_can_move_are_not_credible_unless_a_cache_may_hold_them(
    make_accelerator, fake_platform
):
    fake_platform.read, fake_platform.known_roof = ticking(1e-3), ROOF
    with pytest.raises(Unfit, match="GB/s"):
        make_accelerator().time(lambda: None, bytes=1e10, min_time=0.0)
    fake_platform.cache = 2**20
    assert make_accelerator().time(lambda: None, bytes=3 * 2**20, min_time=0.0)


@pytest.mark.parametrize(
    ("state", "code"),
    [(Telemetry(throttled=("thermal",)), "throttled"), (Telemetry(other_processes=1), "shared")],
)
def test_a_throttled_or_shared_device_is_unfit(make_accelerator, state, code):
    with pytest.raises(Unfit) as caught:
        make_accelerator(watch=lambda: state).time(lambda: None)
    assert caught.value.code == code


def test_a_device_that_was_throttled_only_at_the_end_is_unfit_too(make_accelerator):
    states = iter([Telemetry(other_processes=0), Telemetry(throttled=("power brake",))])
    with pytest.raises(Unfit, match="after timing"):
        make_accelerator(watch=lambda: next(states)).time(lambda: None, min_time=0.0)


def test_the_cache_is_flushed_before_each_sample_and_not_between_calls(make_accelerator, fake_platform):
    fake_platform.cache = 1024
    accel = make_accelerator()
    flush = accel.flusher()
    assert flush is not None
    assert flush().numel() == 2048


def test_a_skip_an_unfit_machine_and_a_note_reach_the_runner(make_accelerator):
    accel = make_accelerator()
    with pytest.raises(Unmeasured, match="no such kernel"):
        accel.skip("no such kernel")
    with pytest.raises(Unfit) as caught:
        accel.unfit("busy", "someone else")
    assert (caught.value.code, caught.value.reason) == ("busy", "someone else")
    accel.note("series", [1, 2.5])
    assert accel.notes == {"series": [1, 2.5]}
    with pytest.raises(TypeError):
        accel.note("bad", object())


def test_an_error_is_read_with_the_name_of_its_class(make_accelerator):
    assert make_accelerator().classify(RuntimeError("out of memory")) == "oom"
    assert make_accelerator().classify("something else") == "other"
