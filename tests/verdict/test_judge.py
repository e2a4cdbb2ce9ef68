"""One variant, judged: every branch has its verdict, its code and a sentence with the numbers."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.verdict.judge import judge, judge_fault
from pytest_accel.verdict.types import (
    OUTCOME,
    Accepted,
    Entry,
    Judgement,
    Observation,
    Rule,
    Verdict,
    WaiverRule,
)

TODAY = datetime.date(2026, 6, 1)
ERROR = Rule(unit="ulp", better="lower", worse_by=0.1)
RATE = Rule(unit="GB/s", better="higher", worse_by=0.1)
EQUAL = Rule(better="equal")
STATUS = Rule(better="lower", order=("native", "fallback", "unsupported"))
TIME = Rule(kind="timing", unit="us", better="lower", worse_by=0.03)


def look(value: Any, rule: Rule, baseline: Any = None, **more: Any) -> Judgement:
    """Judge one metric ``m``: ``value`` (a list of values: one a session), ``baseline`` a value or a tuple of them."""
    settings = more.pop("settings", {})
    entry_more = {key: more.pop(key) for key in ("known_bad", "work_version", "digest") if key in more}
    entry = None
    if baseline is not None:
        values = baseline if isinstance(baseline, tuple) else (baseline,)
        entry = Entry({"m": Accepted(values)}, settings=more.pop("accepted_settings", {}), **entry_more)
    values = value if isinstance(value, list) else [value]
    return judge(
        [Observation({"m": each}, settings=settings) for each in values], {"m": rule}, entry, today=TODAY, **more
    )


@pytest.mark.parametrize(
    ("value", "rule", "baseline", "verdict", "code"),
    [
        (1.0, ERROR, 1.0, "PASS", ""),
        (1.1, ERROR, 1.0, "PASS", ""),
        (1.1001, ERROR, 1.0, "REGRESSION", "worse"),
        (0.8, ERROR, 1.0, "IMPROVED", "improved"),
        (9.1, RATE, 10.0, "PASS", ""),
        (8.9, RATE, 10.0, "REGRESSION", "worse"),
        (11.1, RATE, 10.0, "IMPROVED", "improved"),
        (-1.05, ERROR, -1.0, "PASS", ""),
        (-0.85, ERROR, -1.0, "REGRESSION", "worse"),
        (3, EQUAL, 3, "PASS", ""),
        (4, EQUAL, 3, "REGRESSION", "changed"),
        (True, EQUAL, False, "REGRESSION", "changed"),
        ("abc", EQUAL, "abc", "PASS", ""),
        ("abd", EQUAL, "abc", "REGRESSION", "changed"),
        (3, EQUAL, "3", "REGRESSION", "changed"),
        ("native", STATUS, "native", "PASS", ""),
        ("fallback", STATUS, "native", "REGRESSION", "worse"),
        ("native", STATUS, "unsupported", "IMPROVED", "improved"),
        ("other", STATUS, "native", "REGRESSION", "unknown-word"),
        (1.0, ERROR, None, "NEW", "new"),
        (1e9, Rule(worse_by=math.inf), 1.0, "PASS", ""),
    ],
)
def test_a_metric_is_judged_by_its_rule(value: Any, rule: Rule, baseline: Any, verdict: str, code: str) -> None:
    judged = look(value, rule, baseline)
    assert (judged.verdict.value, judged.code) == (verdict, code)
    assert judged.reason.startswith("m: ")
    assert judged.judged == (verdict != "NEW")


def test_both_the_tolerance_and_the_floor_must_be_exceeded() -> None:
    rule = Rule(better="lower", worse_by=0.02, floor=30.0)
    assert look(128.0, rule, 100.0).verdict is Verdict.PASS  # 28 %, below the floor
    assert look(131.0, rule, 100.0).verdict is Verdict.REGRESSION
    assert look(10_150.0, rule, 10_000.0).verdict is Verdict.PASS  # 150, below 2 %


def test_with_a_baseline_of_zero_only_the_floor_or_an_absolute_tolerance_counts() -> None:
    assert look(1e-9, ERROR, 0.0).verdict is Verdict.REGRESSION
    assert look(0.0, ERROR, 0.0).verdict is Verdict.PASS
    assert look(1e-9, Rule(better="lower", worse_by=0.1, floor=1e-6), 0.0).verdict is Verdict.PASS
    assert look(0.4, Rule(better="lower", worse_by=0.5, relative=False), 0.0).verdict is Verdict.PASS
    assert look(0.6, Rule(better="lower", worse_by=0.5, relative=False), 0.0).verdict is Verdict.REGRESSION
    assert look(0.6, ERROR, 0.0).metrics["m"].change is None


@pytest.mark.parametrize(
    ("value", "rule", "baseline", "verdict"),
    [
        (5.0, Rule(better="lower", max=4.0), 5.0, "REGRESSION"),
        (3.0, Rule(better="lower", max=4.0), None, "PASS"),
        (3.0, Rule(better="lower", min=4.0), 3.0, "REGRESSION"),
        (1024.0, Rule(equals=1024), None, "PASS"),
        (1023.0, Rule(equals=1024), 1023.0, "REGRESSION"),
        ("ok", Rule(equals="ok"), None, "PASS"),
        (1, Rule(equals="ok"), None, "REGRESSION"),
        ("fast", Rule(max=4.0), None, "REGRESSION"),
    ],
)
def test_limits_come_before_the_baseline_and_judge_without_one(
    value: Any, rule: Rule, baseline: Any, verdict: str
) -> None:
    judged = look(value, rule, baseline)
    assert judged.verdict.value == verdict
    assert judged.judged
    if verdict == "REGRESSION":
        assert judged.code == "limit"
        assert "limit" in judged.reason


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rule", [ERROR, RATE, EQUAL, TIME, Rule(min=0.0, max=5.0), Rule(worse_by=math.inf), STATUS])
@pytest.mark.parametrize("baseline", [None, 1.0, math.nan, math.inf])
def test_a_non_finite_value_is_never_fine(bad: float, rule: Rule, baseline: Any) -> None:
    for value in (bad, [1.0, bad], (bad, 1.0, 1.0), (1.0, 1.0, bad)):
        judged = look(value, rule, baseline, sessions_left=2)
        assert (judged.verdict, judged.code) == (Verdict.REGRESSION, "nonfinite")
        assert "non-finite" in judged.reason
        assert not judged.suspects


def test_the_largest_error_never_hides_a_nan_among_sessions() -> None:
    for values in ([0.0, math.nan], [math.nan, 0.0]):  # max(0.0, nan) is 0.0, max(nan, 0.0) is nan
        judged = look(values, ERROR, 0.5)
        assert judged.verdict is Verdict.REGRESSION
        value = judged.metrics["m"].value
        assert isinstance(value, float)
        assert math.isnan(value)
        assert "1 of 2 values non-finite (nan)" in judged.reason


def test_a_later_session_that_is_good_does_not_cure_a_wrong_exact_value() -> None:
    assert look([5.0, 1.0], ERROR, 1.0).verdict is Verdict.REGRESSION
    assert look(["fallback", "native"], STATUS, "native").verdict is Verdict.REGRESSION
    assert look([3, 4], EQUAL, 3).verdict is Verdict.REGRESSION


def test_facts_are_stored_and_never_judged() -> None:
    judged = look(math.nan, Rule(kind="info"), 1.0)
    assert judged.verdict is Verdict.PASS
    assert judged.metrics["m"].verdict is None
    assert not judged.judged
    assert look(1.0, Rule(kind="info")).verdict is Verdict.NEW


def test_a_metric_of_the_entry_that_is_no_longer_measured_is_missing() -> None:
    entry = Entry({"m": Accepted((1.0,)), "gone": Accepted((2.5,)), "never": Accepted(())})
    judged = judge([Observation({"m": 1.0})], {"m": ERROR}, entry, today=TODAY)
    assert (judged.verdict, judged.code) == (Verdict.MISSING, "metric-missing")
    assert judged.metrics["gone"].baseline == 2.5
    assert "gone" in judged.reason
    assert "never" in judged.reason


def test_nothing_measured_is_unmeasured() -> None:
    for observations in ([], [Observation({})], [Observation({"m": ()})]):
        assert judge(observations, {}, None, today=TODAY).verdict is Verdict.UNMEASURED


@pytest.mark.parametrize("changed", [{"work_version": 2}, {"digest": "x"}])
def test_changed_work_is_not_compared_but_still_held_to_limits(changed: dict[str, Any]) -> None:
    judged = look(1.0, ERROR, 1.0, **changed)
    assert (judged.verdict, judged.code) == (Verdict.ENV, "work-changed")
    assert "promote" in judged.reason
    assert look(5.0, Rule(max=4.0), 1.0, **changed).verdict is Verdict.REGRESSION
    assert look(math.nan, ERROR, 1.0, **changed).verdict is Verdict.REGRESSION


@pytest.mark.parametrize(("kind", "verdict"), [("timing", "ENV"), ("memory", "ENV"), ("exact", "PASS")])
def test_where_settings_differ_timings_and_memory_are_not_judged(kind: Any, verdict: str) -> None:
    rule = Rule(kind=kind, unit="us", better="lower", worse_by=0.03)
    more = {"accepted_settings": {"benchmark": False}, "settings": {"benchmark": True, "newly_read": 1}}
    judged = look(1.0, rule, 1.0, **more)
    assert judged.verdict.value == verdict
    if verdict == "ENV":
        assert judged.code == "settings-differ"
        assert "benchmark was `False`, now `True`" in judged.reason
        assert "newly_read" not in judged.reason
    assert look(1.0, rule, 1.0, accepted_settings={"benchmark": False}).verdict.value == verdict
    assert look(1.0, rule, 1.0, accepted_settings={"benchmark": None}).verdict is Verdict.PASS


def test_known_faults_pass_while_unchanged_and_no_longer() -> None:
    nan = {"baseline": "nan", "known_bad": frozenset({"m"})}
    assert look(math.nan, ERROR, **nan).code == "known-bad"
    assert look(math.inf, ERROR, **nan).verdict is Verdict.REGRESSION
    assert look(0.5, ERROR, **nan).verdict is Verdict.IMPROVED
    assert look(9.0, Rule(max=4.0), **nan).verdict is Verdict.REGRESSION
    word = {"baseline": "fallback", "known_bad": frozenset({"m"})}
    same = look("fallback", STATUS, **word)
    assert (same.verdict, same.code) == (Verdict.PASS, "known-bad")
    assert look("unsupported", STATUS, **word).verdict is Verdict.REGRESSION
    assert look("native", STATUS, **word).verdict is Verdict.IMPROVED
    number = {"baseline": 5.0, "known_bad": frozenset({"m"})}
    limited = Rule(better="lower", worse_by=0.1, max=4.0)
    assert look(5.0, limited, **number).code == "known-bad"
    assert look(6.0, limited, **number).verdict is Verdict.REGRESSION
    assert look(math.nan, limited, **number).verdict is Verdict.REGRESSION
    assert look(3.0, limited, **number).verdict is Verdict.IMPROVED


def test_a_known_crash_passes_and_its_end_is_an_improvement() -> None:
    entry = Entry({OUTCOME: Accepted(("crash",)), "m": Accepted((1.0,))}, known_bad=frozenset({OUTCOME}))
    assert judge_fault("crash", "died of signal 11", entry, today=TODAY).verdict is Verdict.PASS
    assert judge_fault("timeout", "60 s", entry, today=TODAY).verdict is Verdict.REGRESSION
    assert judge_fault("crash", "died", None, today=TODAY).verdict is Verdict.REGRESSION
    judged = judge([Observation({"m": 1.0})], {"m": ERROR}, entry, today=TODAY)
    assert (judged.verdict, judged.code) == (Verdict.IMPROVED, "fault-gone")
    assert OUTCOME not in judged.metrics


def waiver(days: int = 30, **more: Any) -> WaiverRule:
    given: dict[str, Any] = {"up_to": {}, "status": (), "reason": "slow kernel", "issue": "https://x/1"}
    return WaiverRule(**{**given, "expires": TODAY + datetime.timedelta(days), **more})


def test_a_waiver_is_narrow_and_dated() -> None:
    up_to = {"m": (0.5, True)}
    judged = look(1.4, ERROR, 1.0, waivers=[waiver(up_to=up_to)])
    assert judged.verdict is Verdict.WAIVED
    assert "https://x/1" in judged.reason
    beyond = look(1.6, ERROR, 1.0, waivers=[waiver(up_to=up_to)])
    assert beyond.verdict is Verdict.REGRESSION
    assert "beyond its waiver's 50 %" in beyond.reason
    expired = look(1.4, ERROR, 1.0, waivers=[waiver(-1, up_to=up_to)])
    assert expired.verdict is Verdict.REGRESSION
    assert "expired on 2026-05-31" in expired.reason
    assert look(1.4, ERROR, 1.0, waivers=[waiver(0, up_to=up_to)]).verdict is Verdict.WAIVED
    assert look(1.4, ERROR, 1.0, waivers=[waiver(up_to={"other": (9.0, True)})]).verdict is Verdict.REGRESSION
    assert "needed no longer" in look(1.0, ERROR, 1.0, waivers=[waiver(up_to=up_to)]).reason


def test_a_waiver_of_a_limit_is_measured_from_the_limit() -> None:
    both = Rule(better="lower", worse_by=9.0, min=1.0, max=4.0)
    waivers = [waiver(up_to={"m": (0.1, True)})]
    assert look(4.3, both, 1.0, waivers=waivers).verdict is Verdict.WAIVED
    assert look(4.5, both, 1.0, waivers=waivers).verdict is Verdict.REGRESSION
    assert look(0.95, both, 1.0, waivers=waivers).verdict is Verdict.WAIVED
    assert look(0.5, both, 1.0, waivers=waivers).verdict is Verdict.REGRESSION


def test_a_status_waiver_covers_its_words_alone() -> None:
    waivers = [waiver(status=("unsupported",))]
    assert look("unsupported", STATUS, "native", waivers=waivers).verdict is Verdict.WAIVED
    assert look("fallback", STATUS, "native", waivers=waivers).verdict is Verdict.REGRESSION
    assert judge_fault("unsupported", "no kernel", None, waivers=waivers, today=TODAY).verdict is Verdict.WAIVED
    assert judge_fault("crash", "died", None, waivers=waivers, today=TODAY).verdict is Verdict.REGRESSION
    assert look(math.nan, ERROR, 1.0, waivers=[waiver(up_to={"m": (9.0, True)})]).verdict is Verdict.REGRESSION


def test_the_reason_names_value_baseline_change_limit_and_unit_of_the_worst_metric() -> None:
    entry = Entry({name: Accepted((1.0,)) for name in "abc"})
    judged = judge([Observation({"a": 1.0, "b": 2.0, "c": 0.1})], dict.fromkeys("abc", ERROR), entry, today=TODAY)
    assert judged.reason == "b: 2 ulp against 1 ulp (+100 %), limit 1.1 ulp"


def test_an_undeclared_metric_says_how_to_declare_it() -> None:
    judged = judge([Observation({"m": 2})], {}, Entry({"m": Accepted((1,))}), today=TODAY)
    assert judged.verdict is Verdict.REGRESSION
    assert "give it `better`" in judged.reason


NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**320), 10**320) | st.booleans()
WORD = st.sampled_from(["native", "fallback", "unsupported", "other", "nan"])
VALUE = NUMBER | WORD | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5).map(tuple)
MAYBE = st.none() | st.floats(allow_nan=False, allow_infinity=False)
RULES = st.builds(
    Rule,
    kind=st.sampled_from(["timing", "memory", "exact", "info"]),
    unit=st.just("us"),
    better=st.sampled_from(["lower", "higher", "equal"]),
    worse_by=st.sampled_from([0.0, 0.03, 2.0, math.inf]),
    relative=st.booleans(),
    floor=st.sampled_from([0.0, 1.0]),
    min=MAYBE,
    max=MAYBE,
    equals=st.none() | WORD | NUMBER,
    order=st.sampled_from([(), ("native", "fallback", "unsupported")]),
)
ENTRIES = st.none() | st.builds(
    Entry,
    metrics=st.dictionaries(
        st.sampled_from(["m", "n", OUTCOME]), st.lists(NUMBER | WORD, max_size=4).map(tuple).map(Accepted), max_size=3
    ),
    known_bad=st.frozensets(st.just("m")),
    settings=st.dictionaries(st.just("tf32"), st.booleans()),
    work_version=st.sampled_from([1, 1, 2]),
)
OBSERVATIONS = st.lists(st.dictionaries(st.sampled_from(["m", "n"]), VALUE, max_size=2).map(Observation), max_size=3)


@given(OBSERVATIONS, RULES, ENTRIES, st.integers(0, 2), st.booleans())
def test_every_input_gives_exactly_one_verdict(
    observations: list[Observation], rule: Rule, entry: Entry | None, left: int, in_process: bool
) -> None:
    waivers = [waiver(up_to={"m": (0.5, False)}, status=("unsupported",))]
    judged = judge(
        observations,
        {"m": rule, "n": rule},
        entry,
        today=TODAY,
        sessions_left=left,
        waivers=waivers,
        in_process=in_process,
    )
    assert isinstance(judged.verdict, Verdict)
    assert judged.reason
    assert all(m.reason for m in judged.metrics.values() if m.verdict is not None)
    assert all(m.change is None or math.isfinite(m.change) for m in judged.metrics.values())
    worst = max((m.verdict.badness for m in judged.metrics.values() if m.verdict), default=None)
    assert worst is None or judged.verdict.badness >= worst
    if left == 0 or in_process:
        assert not judged.suspects


def harm(judged: Judgement) -> int:
    """The order of badness, but for IMPROVED, which is worse than PASS only for the baseline."""
    return -1 if judged.verdict is Verdict.IMPROVED else judged.verdict.badness


FINITE = st.floats(-1e6, 1e6)


@given(FINITE, st.floats(0, 1e6), FINITE, st.sampled_from(["lower", "higher"]), MAYBE, st.booleans(), st.booleans())
def test_a_worse_value_is_never_judged_better(
    value: float, by: float, baseline: float, better: Any, limit: float | None, waived: bool, timing: bool
) -> None:
    sign = 1.0 if better == "lower" else -1.0
    rule = Rule(
        kind="timing" if timing else "exact",
        better=better,
        worse_by=0.05,
        floor=0.5,
        max=limit if better == "lower" else None,
        min=limit if better == "higher" else None,
    )
    if timing:  # what is no time is ENV, a question apart
        value, baseline = abs(value) + 1e6 + 1, abs(baseline) + 1e6 + 1
        by = min(by, 1e6)
    waivers = [waiver(up_to={"m": (0.2, True)})] if waived else []
    first = look(value, rule, baseline, waivers=waivers)
    second = look(value + sign * by, rule, baseline, waivers=waivers)
    assert harm(second) >= harm(first)
