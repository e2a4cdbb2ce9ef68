"""Rules: the suite over the workload's declaration, and no guess where neither says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.verdict.rules import rule_for
from pytest_accel.verdict.types import Rule


@dataclass(frozen=True)
class Share:
    amount: float = 0.05
    relative: bool = True


@dataclass(frozen=True)
class Said:
    unit: str | None = None
    worse_by: Share | None = None
    max: float | None = None


SPEC = {"unit": "us", "better": "lower", "kind": "timing", "worse_by": "3%", "max": 9.0, "source": "measured"}


def test_the_suite_lies_over_the_declaration_and_leaves_kind_alone() -> None:
    assert rule_for("t", SPEC) == Rule("timing", "us", "lower", 0.03, True, 0.0, None, 9.0)
    assert rule_for("t", SPEC, Said(worse_by=Share(), max=5.0)) == Rule(
        "timing", "us", "lower", 0.05, True, 0.0, None, 5.0
    )
    assert rule_for("t", SPEC, {"kind": "exact", "worse_by": 2}).kind == "timing"
    assert rule_for("t", SPEC, {"worse_by": 2}).relative is False


@pytest.mark.parametrize(
    ("text", "amount"),
    [("3%", (0.03, True)), (" 50 % ", (0.5, True)), ("1e-3", (0.001, False)), (0.5, (0.5, False)), ("0", (0.0, False))],
)
def test_a_tolerance_is_read_as_share_or_amount(text: Any, amount: tuple[float, bool]) -> None:
    rule = rule_for("t", SPEC, {"worse_by": text})
    assert (rule.worse_by, rule.relative) == (pytest.approx(amount[0]), amount[1])


@pytest.mark.parametrize(
    "override",
    [
        {"worse_by": "fast"},
        {"worse_by": "-3%"},
        {"worse_by": math.nan},
        {"worse_by": True},
        {"floor": -1},
        {"max": "x"},
        {"max": math.inf},
        {"min": 2, "max": 1},
        {"better": "faster"},
        {"equals": math.nan},
    ],
)
def test_what_cannot_be_a_rule_is_a_config_error_that_names_the_metric(override: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="metric `t`"):
        rule_for("t", SPEC, override)


def test_an_undeclared_metric_with_a_tolerance_is_better_lower_unless_it_looks_like_a_rate() -> None:
    assert rule_for("latency", None, {"worse_by": "3%", "unit": "ms"}) == Rule("timing", "ms", "lower", 0.03)
    assert rule_for("iterations", None, {"worse_by": 1}).better == "lower"
    for name, unit in (("x", "GB/s"), ("x", "TFLOP/s"), ("throughput", ""), ("hit_rate", ""), ("bandwidth", "")):
        with pytest.raises(ConfigError, match="better"):
            rule_for(name, None, {"worse_by": "3%", "unit": unit})
    assert rule_for("throughput", None, {"worse_by": "3%", "better": "higher"}).better == "higher"


def test_an_undeclared_metric_without_anything_is_held_equal_and_marked_so() -> None:
    assert rule_for("count") == Rule(declared=False)
    assert rule_for("count", None, {"unit": "ops"}).declared is False


def test_an_undeclared_metric_with_limits_alone_is_judged_by_them_alone() -> None:
    rule = rule_for("loss", None, {"max": 3.0})
    assert rule.declared
    assert math.isinf(rule.worse_by)


def test_undeclared_samples_need_a_word_on_how_much_worse_is_too_much() -> None:
    for override in (None, {"unit": "us"}, {"better": "lower"}):
        with pytest.raises(ConfigError, match="samples"):
            rule_for("t", None, override, (1.0, 2.0))
    assert rule_for("t", None, {"worse_by": "3%"}, (1.0, 2.0)).kind == "timing"
    assert rule_for("t", None, {"max": 3.0}, [1.0, 2.0]).max == 3.0


@given(
    st.dictionaries(
        st.sampled_from(["unit", "better", "worse_by", "floor", "min", "max", "equals"]),
        st.floats() | st.text(max_size=5) | st.booleans() | st.none(),
    ),
    st.sampled_from([None, 1.0, (1.0,), "word"]),
)
def test_any_words_give_a_rule_or_a_config_error(override: dict[str, Any], value: Any) -> None:
    try:
        rule: Any = rule_for("t", None, override, value)
    except ConfigError as error:
        rule = error
    assert isinstance(rule, (Rule, ConfigError))
