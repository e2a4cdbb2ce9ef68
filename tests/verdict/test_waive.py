"""What a waiver may cover: words and faults by their name, numbers only as far as it says."""

from __future__ import annotations

import datetime

import pytest

from pytest_accel.verdict.types import Rule, Verdict, WaiverRule
from pytest_accel.verdict.waive import FAULTS, NUMBERS, apply, status_waiver

TODAY = datetime.date(2026, 1, 1)


def waiver(*status: str) -> WaiverRule:
    return WaiverRule({}, status, "known", "https://example.org/1", datetime.date(2026, 12, 31))


@pytest.mark.parametrize("code", NUMBERS)
def test_a_status_that_is_the_code_of_any_number_waives_nothing(code: str) -> None:
    rule = Rule(better="lower")
    assert apply("time", code, 9.0, 1.0, rule, [waiver(code)], TODAY) == (Verdict.REGRESSION, "")


@pytest.mark.parametrize("code", FAULTS)
def test_a_status_waives_the_fault_of_its_name_and_no_other(code: str) -> None:
    assert status_waiver(code, [waiver(code)], TODAY)[0] is Verdict.WAIVED
    other = FAULTS[FAULTS.index(code) - 1]
    assert status_waiver(code, [waiver(other)], TODAY)[0] is Verdict.REGRESSION


def test_a_word_is_waived_by_itself_and_not_by_the_code_of_its_change() -> None:
    rule = Rule()
    assert apply("mode", "worse", "saturate", "ieee", rule, [waiver("saturate")], TODAY)[0] is Verdict.WAIVED
    assert apply("mode", "worse", "saturate", "ieee", rule, [waiver("worse")], TODAY)[0] is Verdict.REGRESSION
    assert apply("mode", "worse", "ieee", "saturate", rule, [waiver("saturate")], TODAY)[0] is Verdict.REGRESSION
