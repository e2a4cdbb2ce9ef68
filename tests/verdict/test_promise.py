"""``expect: {better_by: 5%}``: a gain that was promised and did not come is a regression of the promise."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.verdict.judge import judge
from pytest_accel.verdict.rules import rule_for
from pytest_accel.verdict.types import Accepted, Entry, Judgement, Observation

TODAY = datetime.date(2026, 6, 1)
TIMING = {"unit": "us", "better": "lower", "kind": "timing", "worse_by": "3%"}
MEMORY = {"unit": "MiB", "better": "lower", "kind": "memory", "worse_by": "5%"}
RATE = {"unit": "GB/s", "better": "higher", "kind": "timing", "worse_by": "3%"}


def look(
    spec: dict[str, Any], promised: str, values: list[float], left: int = 0, accepted: tuple[float, ...] = (100.0,) * 6
) -> Judgement:
    rule = rule_for("m", spec, {"better_by": promised})
    entry = Entry({"m": Accepted(accepted)}) if accepted else None
    return judge([Observation({"m": value}) for value in values], {"m": rule}, entry, today=TODAY, sessions_left=left)


@pytest.mark.parametrize(
    ("spec", "promised", "values", "verdict", "code"),
    [
        (TIMING, "5%", [90.0], "IMPROVED", "improved"),
        (TIMING, "5%", [97.5] * 3, "REGRESSION", "promised-gain-missing"),
        (TIMING, "5%", [100.0] * 3, "REGRESSION", "promised-gain-missing"),
        (TIMING, "2%", [97.9] * 3, "PASS", ""),  # it came, within the tolerance
        (TIMING, "5%", [110.0] * 3, "REGRESSION", "worse"),  # worse is worse, whatever was promised
        (RATE, "5%", [104.0] * 3, "REGRESSION", "promised-gain-missing"),
        (RATE, "5%", [107.0], "IMPROVED", "improved"),
        (MEMORY, "10%", [91.0], "REGRESSION", "promised-gain-missing"),
        (MEMORY, "10%", [90.0], "IMPROVED", "improved"),
        (MEMORY, "20", [85.0], "REGRESSION", "promised-gain-missing"),  # an amount in its unit
    ],
)
def test_a_promise_is_kept_or_broken(spec: Any, promised: str, values: list[float], verdict: str, code: str) -> None:
    judged = look(spec, promised, values)
    assert (judged.verdict.value, judged.code) == (verdict, code)
    if code == "promised-gain-missing":
        assert "promised a gain of" in judged.reason
        assert "remove `expect`" in judged.reason


def test_a_timing_that_falls_short_is_measured_again_before_its_promise_is_called_broken() -> None:
    first = look(TIMING, "5%", [99.0], left=2)
    assert (first.verdict.value, first.code, first.suspects) == ("INCONCLUSIVE", "suspect", ("m",))
    assert look(TIMING, "5%", [99.0, 94.0, 94.0]).verdict.value in ("PASS", "IMPROVED")


def test_a_gain_may_be_short_by_what_chance_reaches_and_no_more() -> None:
    noisy = (99.0, 101.0, 100.5, 99.5, 100.8, 99.2)
    assert look(TIMING, "5%", [96.0] * 3, accepted=noisy).verdict.value == "IMPROVED"
    assert look(TIMING, "5%", [98.0] * 3, accepted=noisy).code == "promised-gain-missing"


def test_without_a_baseline_nothing_was_promised_yet() -> None:
    assert look(TIMING, "5%", [97.0], accepted=()).verdict.value == "NEW"


@pytest.mark.parametrize("spec", [{"better": "equal"}, None])
def test_a_metric_that_has_no_better_way_can_promise_nothing(spec: Any) -> None:
    with pytest.raises(ConfigError, match="no gain can be expected"):
        rule_for("m", spec, {"better_by": "5%"}, 1.0)


def test_a_suites_tolerance_is_the_least_effect_too_and_a_workloads_effect_holds_only_without_it() -> None:
    declared = {**TIMING, "effect": "1.5%", "between_devices": "4%"}
    assert rule_for("m", declared).effect == pytest.approx(0.015)
    assert rule_for("m", declared, {"worse_by": "2%"}).effect is None
    assert rule_for("m", declared, {"floor": 1.0}).effect == pytest.approx(0.015)
    assert rule_for("m", declared).between_devices == pytest.approx(0.04)
