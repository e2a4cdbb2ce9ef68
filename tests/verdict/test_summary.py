"""Exit codes and the headline, by the interface's table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.verdict.summary import exit_code, headline, worst
from pytest_accel.verdict.types import Verdict

V = Verdict
CODES = {V.REGRESSION: 1, V.ENV: 10, V.MISSING: 11, V.UNMEASURED: 11, V.INCONCLUSIVE: 11, V.NEW: 11}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_alone_has_its_code(verdict: Verdict) -> None:
    assert exit_code([(verdict, False)], asked=1) == CODES.get(verdict, 0)


@pytest.mark.parametrize(
    ("verdicts", "more", "code"),
    [
        ([], {"asked": 0}, 5),
        ([], {"asked": 0, "ordinary_failed": True}, 1),
        ([], {"asked": 2}, 11),
        ([(V.PASS, False)], {"asked": 2}, 11),
        ([(V.NEW, True), (V.PASS, False)], {"asked": 2}, 0),
        ([(V.MISSING, True)], {"asked": 1}, 11),
        ([(V.PASS, False)], {"asked": 1, "ordinary_failed": True}, 1),
        ([(V.ENV, False), (V.MISSING, False)], {"asked": 2}, 10),
        ([(V.REGRESSION, False), (V.ENV, False)], {"asked": 2}, 1),
        ([(V.REGRESSION, False)], {"asked": 1, "config": True}, 4),
        ([(V.REGRESSION, False)], {"asked": 1, "config": True, "interrupted": True}, 2),
        ([(V.REGRESSION, False)], {"asked": 1, "interrupted": True, "internal": True}, 3),
    ],
)
def test_the_first_that_applies_gives_the_code(verdicts: Any, more: dict[str, Any], code: int) -> None:
    assert exit_code(verdicts, **more) == code


@given(st.lists(st.tuples(st.sampled_from(list(Verdict)), st.booleans()), max_size=6))
def test_code_zero_needs_proof_that_everything_was_measured(verdicts: list[tuple[Verdict, bool]]) -> None:
    code = exit_code(verdicts, asked=len(verdicts))
    fine = {V.PASS, V.IMPROVED, V.WAIVED}
    assert (code == 0) == (bool(verdicts) and all(v in fine or (v is V.NEW and ok) for v, ok in verdicts))


def test_the_headline_is_the_worst_verdict_and_never_pass_where_nothing_was_judged() -> None:
    assert headline([V.PASS, V.ENV], judged=1) == "ENV"
    assert headline([V.NEW, V.NEW], judged=0, accepted_new=True, recording=True) == "RECORDED ONLY"
    assert headline([V.NEW, V.PASS], judged=1, accepted_new=True, recording=True) == "PASS"
    assert headline([V.NEW], judged=0, accepted_new=True) == "NEW"
    assert headline([V.NEW, V.PASS], judged=1) == "NEW"
    assert headline([V.NEW, V.MISSING], judged=0, accepted_new=True, recording=True) == "MISSING"
    assert headline([], judged=0) == "NOTHING ASKED"


def test_the_order_of_badness_is_that_of_the_interface() -> None:
    assert worst(list(Verdict)) is V.REGRESSION
    assert worst([V.PASS, V.IMPROVED, V.WAIVED]) is V.WAIVED
    assert worst([]) is None
