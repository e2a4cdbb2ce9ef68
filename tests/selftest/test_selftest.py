"""The self-test says what the gate catches; and it fails where the gate would miss something."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_accel.measure import accuracy
from pytest_accel.runner.types import Measurement
from pytest_accel.selftest.catalogue import CHECKS
from pytest_accel.selftest.injections import INJECTIONS, injected
from pytest_accel.selftest.run import Unfit, run_checks, run_timings
from pytest_accel.selftest.types import Check
from pytest_accel.workloads import registry

torch = pytest.importorskip("torch")
ISSUE = (
    "one_nan",
    "one_inf",
    "one_larger",
    "sparse_zeros",
    "dropped_k",
    "truncated",
    "low_sum",
    "positions_cast",
    "inv_freq_cast",
    "off_by_one",
    "tf32",
    "flushed_subnormals",
    "saturated_overflow",
    "halved_gradient",
    "scale_never_recovers",
    "late_training_fault",
)
SMALL = {"m": 64, "n": 64, "k": 256, "rows": 64}


def of(name):
    (check,) = [check for check in CHECKS if check.name == name]
    return check


def small(name):
    check = of(name)
    return replace(check, params={**check.params, **SMALL}) if check.workload == "gemm_accuracy" else check


def test_every_fault_that_was_asked_for_is_in_the_catalogue_with_a_known_workload_and_injection():
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(any(name.partition("/")[0] == wanted for name in names) for wanted in ISSUE)
    for check in CHECKS:
        known = registry.lookup(check.workload)
        assert registry.signature_problem(known, {**check.params, **check.altered}) is None
        assert not check.injection or check.injection in INJECTIONS
        assert bool(check.injection) != bool(check.altered)
    assert sum(check.kind == "benign" for check in CHECKS) >= 8


@pytest.mark.parametrize(
    "name",
    [
        *(f"{name}/{dtype}" for name in ISSUE[:7] for dtype in ("float16", "bfloat16")),
        *(f"{name}/{dtype}" for name in ISSUE[7:11] for dtype in ("float16", "bfloat16")),
        *ISSUE[11:15],
        "overflow_unseen",
        "scale_without_end",
        "first_batch_only",
        "wrong_layout",
    ],
)
def test_each_fault_is_caught_on_this_host(measure, name):
    (outcome,) = run_checks([small(name)], measure)
    assert (outcome.word, outcome.verdict) == ("caught", "REGRESSION"), outcome.reason


@pytest.mark.parametrize(
    "name",
    [
        "other_order/float16",
        "other_tile/float16",
        "other_order/bfloat16",
        "other_tile/bfloat16",
        "exact_table/float16",
        "float32_rotation",
        "rare_overflow",
    ],
)
def test_each_benign_variation_passes(measure, name):
    (outcome,) = run_checks([small(name)], measure)
    assert outcome.word == "passed", outcome.reason


def test_a_gate_that_lets_everything_pass_is_found_out(measure, monkeypatch):
    right = accuracy.compare
    monkeypatch.setattr(
        accuracy, "compare", lambda *args, **more: replace(right(*args, **more), word="supported", max_ulp=0, rms_ulp=0)
    )
    monkeypatch.setattr(accuracy, "leaning", lambda *args, **more: "")
    (outcome,) = run_checks([small("low_sum/float16")], measure)
    assert (outcome.word, outcome.fine) == ("MISSED", False)


def test_a_gate_that_is_too_strict_is_found_out(measure, monkeypatch):
    right = accuracy.compare
    calls = iter(range(100))
    monkeypatch.setattr(
        accuracy,
        "compare",
        lambda *args, **more: replace(right(*args, **more), word=["supported", "wrong"][next(calls)]),
    )
    (outcome,) = run_checks([small("other_order/float16")], measure)
    assert (outcome.word, outcome.fine) == ("FALSE ALARM", False)


def test_a_device_that_breaks_a_limit_unchanged_is_told_apart_from_a_fault_that_was_caught(measure, monkeypatch):
    monkeypatch.setattr(accuracy, "leaning", lambda *args, **more: "leans")
    (outcome,) = run_checks([small("one_nan/float16")], measure)
    assert outcome.word == "FAILED"
    assert "unchanged, it breaks a limit" in outcome.reason


def test_a_fault_that_this_device_has_by_itself_is_not_here_and_a_change_that_never_took_place_has_failed(measure):
    already = replace(of("flushed_subnormals"), needs={"subnormals": "flushed"})
    never = Check("never", "never", "amp_overflow", {"dtype": "float16"}, "halved_convolution_gradient")
    here, failed = run_checks([already, never], measure)
    assert (here.word, here.fine) == ("not here", True)
    assert (failed.word, failed.fine) == ("FAILED", False)
    assert "nothing injected" in failed.reason


def test_a_blind_spot_is_shown_as_one(measure):
    (outcome,) = run_checks([of("short_positions")], measure)
    assert (outcome.word, outcome.fine) == ("blind, as said", True)


def test_a_lost_device_ends_the_self_test():
    def lost(request, fresh):
        return Measurement("device-lost", code="device-lost", reason="gone")

    with pytest.raises(Unfit, match="gone"):
        list(run_checks([of("rare_overflow")], lost))


def test_injections_leave_wider_types_on_the_host_alone():
    a = torch.randn(8, 8)
    with injected("one_nan", torch.device("cpu")) as tally:
        assert bool((a @ a).isfinite().all())
        assert not bool((a.half() @ a.half()).isfinite().all())
    assert tally.fired == 1


def timings(times, on_host=True):
    """The self-test's timings over sessions of these microseconds."""
    left = iter(times)

    def session(request, fresh):
        assert fresh
        return Measurement("measured", metrics={"time": [next(left)] * 15, "correct": "yes"})

    return list(run_timings(session, on_host, 2))


def test_equal_timings_pass_and_a_slower_one_is_confirmed_before_it_is_caught():
    found = timings([100.0, 101.0, 100.5, 99.0, 200.0, 200.0, 200.0])
    assert [outcome.word for outcome in found] == ["passed", "passed", "caught"]


def test_a_slow_down_that_is_not_seen_is_missed_and_a_pair_that_differs_is_a_false_alarm():
    found = timings([100.0, 101.0, 250.0, 250.0, 250.0, 100.0, 101.0])
    assert [outcome.word for outcome in found] == ["FALSE ALARM", "passed", "MISSED"]


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest_accel.cli", "selftest", *arguments], capture_output=True, text=True, timeout=240
    )


def test_the_command_prints_json_and_ends_with_0_where_all_is_caught():
    done = command("--accel", "cpu", "--only", "scale", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "pytest-accel/selftest/1"
    assert {check["name"]: check["word"] for check in found["checks"]} == {
        "scale_never_recovers": "caught",
        "scale_without_end": "caught",
    }
    assert found["stack"]["platform"] == "cpu"


def test_a_wrong_argument_is_code_4_and_an_absent_accelerator_code_10():
    wrong = command("--only", "no_such_check")
    assert wrong.returncode == 4
    assert "one_nan/float16" in wrong.stderr
    assert command("--accel", "cudaa").returncode == 4
    absent = command("--accel", "ascend")
    assert absent.returncode == 10
    assert "ENV accelerator-absent" in absent.stderr
