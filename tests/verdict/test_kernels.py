"""A changed timing says which kernels changed; nothing is said where nothing is known."""

from __future__ import annotations

import pytest

from pytest_accel.verdict.kernels import changed, explained
from pytest_accel.verdict.types import Judgement, MetricVerdict, Verdict


def judged(verdict, old, new):
    fact = MetricVerdict(new, "", "equal", None, None, None, None)
    sessions = [{"time": 1.0, **({"kernels": word} if word else {})} for word in old]
    return explained(Judgement(verdict, "worse", "time: 2 us against 1 us", {"kernels": fact}), sessions)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("flash_fwd; fill", "fill; softmax; gemm", "kernel changed: flash_fwd → softmax, gemm"),
        ("gemm", "gemm; fill", "kernel changed: (nothing) → fill"),
        ("gemm x2; fill", "gemm x3; fill", "kernels run another number of times: gemm x2 → gemm x3"),
        ("gemm; fill", "fill; gemm", None),
        ("gemm", "gemm", None),
        ("(none seen)", "gemm", None),
        ("gemm", "(none seen)", None),
    ],
)
def test_only_the_names_that_differ_are_said(old, new, said):
    assert changed(old, new) == said


@pytest.mark.parametrize("verdict", [Verdict.REGRESSION, Verdict.IMPROVED])
def test_a_worse_or_better_timing_says_what_ran_instead(verdict):
    assert judged(verdict, ["older", "flash_fwd"], "softmax").reason.endswith("; kernel changed: flash_fwd → softmax")


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.NEW, Verdict.ENV])
def test_other_verdicts_are_left_alone(verdict):
    assert judged(verdict, ["a"], "b").reason == "time: 2 us against 1 us"


def test_an_entry_that_was_stored_without_kernels_says_nothing():
    assert judged(Verdict.REGRESSION, [None], "b").reason == "time: 2 us against 1 us"
    plain = Judgement(Verdict.REGRESSION, "worse", "why")
    assert explained(plain, []) is plain


def test_what_ran_in_any_session_of_the_baseline_is_no_change():
    assert judged(Verdict.REGRESSION, ["b", "a"], "b").reason == "time: 2 us against 1 us"


def test_many_long_names_are_cut():
    said = changed("; ".join(f"a{n:0>50}" for n in range(20)), "b")
    assert said is not None
    assert len(said) < 400
