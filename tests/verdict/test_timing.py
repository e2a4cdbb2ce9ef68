"""Timings: one session screens, fresh processes confirm, and the rates of false alarm and detection are measured."""

from __future__ import annotations

import datetime
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.verdict.judge import judge
from pytest_accel.verdict.reduce import session_value
from pytest_accel.verdict.types import Accepted, Entry, Judgement, Observation, Rule, Verdict

TODAY = datetime.date(2026, 6, 1)
TIME = Rule(kind="timing", unit="us", better="lower", worse_by=0.03)
RATE = Rule(kind="timing", unit="GB/s", better="higher", worse_by=0.03)
SIX = (100.0,) * 6


def look(
    sessions: list[Any], left: int = 0, rule: Rule = TIME, baseline: tuple[Any, ...] = SIX, **more: Any
) -> Judgement:
    entry = Entry({"t": Accepted(baseline)})
    observations = [Observation({"t": each}) for each in sessions]
    return judge(observations, {"t": rule}, entry, today=TODAY, sessions_left=left, **more)


@pytest.mark.parametrize(
    ("sessions", "left", "verdict", "code"),
    [
        ([101.0], 2, "PASS", ""),
        ([102.0], 2, "PASS", ""),
        ([102.5], 2, "INCONCLUSIVE", "suspect"),  # two thirds of the tolerance: a second look is cheap
        ([102.5, 102.5, 102.5], 0, "PASS", "not-reproduced"),
        ([95.0], 2, "IMPROVED", "improved"),
        ([110.0], 2, "INCONCLUSIVE", "suspect"),
        ([110.0, 110.0], 1, "INCONCLUSIVE", "suspect"),
        ([110.0, 110.0, 109.0], 0, "REGRESSION", "worse"),
        ([110.0, 100.0], 1, "INCONCLUSIVE", "suspect"),
        ([110.0, 100.0, 101.0], 0, "PASS", "not-reproduced"),
        ([110.0, 110.0, 99.0], 0, "INCONCLUSIVE", "sessions-disagree"),
        ([110.0, 110.0, 101.0], 0, "REGRESSION", "worse"),
        ([110.0], 0, "REGRESSION", "worse"),
        ([100.0, 110.0, 110.5], 0, "INCONCLUSIVE", "sessions-disagree"),
        ([95.0, 101.0], 0, "PASS", ""),
    ],
)
def test_a_slow_session_is_confirmed_in_fresh_processes(
    sessions: list[float], left: int, verdict: str, code: str
) -> None:
    for rule, turned in ((TIME, sessions), (RATE, [200.0 - each for each in sessions])):
        judged = look(turned, left, rule)
        assert (judged.verdict.value, judged.code) == (verdict, code)
        assert bool(judged.suspects) == (code == "suspect")
        assert "against 100" in judged.reason


def test_one_outlier_among_samples_moves_nothing() -> None:
    assert look([(100.0,) * 19 + (5000.0,)]).verdict is Verdict.PASS
    assert session_value((1.0, 2.0, 300.0)) == 2.0
    assert session_value("native") == "native"
    assert str(session_value((1.0, float("nan")))) == "nan"


def test_samples_without_variance_are_fine_and_still_worse_when_worse() -> None:
    assert look([(100.0,) * 20]).verdict is Verdict.PASS
    assert look([(104.0,) * 20] * 3).verdict is Verdict.REGRESSION


def test_a_session_too_noisy_to_see_the_tolerance_is_inconclusive_and_says_how_many_it_takes() -> None:
    noisy = tuple(100.0 + 60.0 * (-1) ** index * (index % 7) / 6 for index in range(9))
    judged = look([noisy])
    assert (judged.verdict, judged.code) == (Verdict.INCONCLUSIVE, "too-noisy")
    assert "sessions" in judged.reason
    assert look([noisy], 2).suspects == ("t",)
    slow = tuple(5 * sample for sample in (100.0, 130.0, 70.0, 120.0, 80.0, 110.0, 90.0))
    assert look([slow] * 3).verdict is Verdict.REGRESSION  # noise does not hide what is far beyond it


def test_sessions_that_disagree_say_how_many_it_would_take() -> None:
    told = look([110.0, 110.0, 99.0]).reason
    assert "disagree (110, 110, 99 us)" in told
    assert "about 18 sessions" in told


def test_a_baseline_of_few_sessions_is_called_provisional() -> None:
    assert "provisional, 2 of 6 sessions" in look([100.0], baseline=(100.0, 100.0)).reason
    assert "provisional" not in look([100.0]).reason
    assert "provisional, 1 of 6 sessions" in look([200.0], baseline=(100.0,)).reason


@pytest.mark.parametrize("value", [0, 0.0, -1.0, (0.0, 0.0, 0.0)])
def test_a_time_that_is_none_is_not_credible(value: Any) -> None:
    judged = look([value], 2)
    assert (judged.verdict, judged.code) == (Verdict.ENV, "not-credible")


def test_a_limit_of_a_timing_is_confirmed_too() -> None:
    limited = Rule(kind="timing", unit="us", better="lower", worse_by=9.0, max=150.0)
    assert look([160.0], 2, limited).suspects == ("t",)
    assert look([160.0, 100.0, 100.0], 0, limited).verdict is Verdict.PASS
    judged = look([160.0, 170.0, 100.0], 0, limited)
    assert (judged.verdict, judged.code) == (Verdict.REGRESSION, "limit")


def test_in_process_a_suspect_is_inconclusive_unless_far_beyond() -> None:
    limited = Rule(kind="timing", unit="us", better="lower", worse_by=0.03, max=106.0)
    assert look([105.0], 2, in_process=True).code == "unconfirmed"
    assert not look([105.0], 2, in_process=True).suspects
    assert look([109.1], 2, in_process=True).verdict is Verdict.REGRESSION
    assert look([107.0], 2, limited, in_process=True).verdict is Verdict.REGRESSION
    assert look([101.0], 0, in_process=True).verdict is Verdict.PASS


def harm(judged: Judgement) -> int:
    """The order of badness, but for IMPROVED, which is worse than PASS only for the baseline."""
    return -1 if judged.verdict is Verdict.IMPROVED else judged.verdict.badness


TIMES = st.lists(st.floats(90.0, 120.0), min_size=1, max_size=3)


@given(TIMES, st.integers(0, 2), st.floats(0.0, 15.0), st.integers(0, 2))
def test_a_slower_session_never_makes_the_verdict_better(
    sessions: list[float], which: int, by: float, left: int
) -> None:
    slower = list(sessions)
    slower[which % len(slower)] += by
    assert harm(look(slower, left)) >= harm(look(sessions, left))


def simulate(shift: float, metrics: int, seed: int, accepted: int, spread: float = 0.008) -> dict[str, float]:
    """Rates of each verdict for unchanged work slowed by ``shift``, ``accepted`` baseline sessions, up to three in a run.

    Between sessions: a spread of its own for each metric, log-normal around ``spread``; within: 0.5 %, 20 samples of which
    2 % are 30 % slow; 3 % of a run's sessions are bad as a whole (8 % slower), none of the baseline's (unfit ones are kept out).
    """
    draw = random.Random(seed)

    def session(between: float, slow: float, bad: float = 0.03) -> tuple[float, ...]:
        level = 100.0 * (1 + slow) * (1 + draw.gauss(0, between)) * (1.08 if draw.random() < bad else 1.0)
        return tuple(level * (1 + draw.gauss(0, 0.005)) * (1.3 if draw.random() < 0.02 else 1.0) for _ in range(20))

    counts: dict[str, int] = {}
    for _ in range(metrics):
        between = spread * draw.lognormvariate(0, 0.4)
        baseline = tuple(statistics.median(session(between, 0.0, bad=0.0)) for _ in range(accepted))
        seen: list[Any] = [session(between, shift)]
        judged = look(seen, 2, baseline=baseline)
        while judged.suspects:
            seen.append(session(between, shift))
            judged = look(seen, 3 - len(seen), baseline=baseline)
        counts[judged.verdict.value] = counts.get(judged.verdict.value, 0) + 1
    return {verdict: count / metrics for verdict, count in counts.items()}


@pytest.mark.parametrize("accepted", [3, 6])
def test_rates_of_false_alarm_and_detection_on_noisy_simulated_sessions(accepted: int) -> None:
    """Provisional (3 of 6 sessions: the tolerance alone) and with statistics; a spread that is hard for a tolerance of 3 %."""
    rates = {shift: simulate(shift, 500, 7, accepted) for shift in (0.0, 0.05, 0.10)}
    for shift, found in rates.items():
        print(f"{accepted} accepted sessions, {shift:.0%} slower: {found}")
    assert rates[0.0].get("REGRESSION", 0.0) <= (0.01 if accepted < 6 else 0.002)
    assert rates[0.0].get("PASS", 0.0) + rates[0.0].get("IMPROVED", 0.0) >= 0.97
    assert rates[0.05]["REGRESSION"] >= 0.85
    assert rates[0.10]["REGRESSION"] >= 0.98
