"""Quantiles and derivatives of the gamma function against published tables and their own inverses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.verdict.distributions import (
    digamma,
    incomplete_beta,
    normal_quantile,
    t_cdf,
    t_upper,
    trigamma,
    trigamma_inverse,
)


@pytest.mark.parametrize(
    ("tail", "df", "published"),  # NIST/SEMATECH e-Handbook 1.3.6.7.2
    [
        (0.05, 1, 6.314),
        (0.01, 5, 3.365),
        (0.001, 5, 5.894),
        (0.001, 10, 4.144),
        (0.025, 30, 2.042),
        (0.001, 100, 3.174),
    ],
)
def test_student_quantiles_are_those_of_the_table(tail: float, df: float, published: float) -> None:
    assert t_upper(tail, df) == pytest.approx(published, abs=6e-4)


def test_without_degrees_of_freedom_nothing_is_known_and_with_endless_ones_it_is_the_normal() -> None:
    assert math.isinf(t_upper(0.01, 0.0))
    assert t_upper(0.001, math.inf) == pytest.approx(3.0902, abs=1e-4)
    assert normal_quantile(0.999) == pytest.approx(3.0902, abs=1e-4)
    assert t_cdf(1.0, math.inf) == pytest.approx(0.841345, abs=1e-6)


@given(st.floats(1e-5, 0.5), st.floats(0.5, 300.0))
def test_the_quantile_inverts_the_distribution(tail: float, df: float) -> None:
    assert 1 - t_cdf(t_upper(tail, df), df) == pytest.approx(tail, rel=1e-6, abs=1e-12)


@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0), st.floats(1e-3, 1 - 1e-3))
def test_the_incomplete_beta_is_a_symmetric_share(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) + incomplete_beta(b, a, 1 - x) == pytest.approx(1.0, abs=1e-9)
    assert 0.0 <= incomplete_beta(a, b, x) <= 1.0 + 1e-12


def test_derivatives_of_the_gamma_function_have_their_closed_forms() -> None:
    assert digamma(1) == pytest.approx(-0.57721566490153286, abs=1e-12)
    assert digamma(0.5) == pytest.approx(-0.57721566490153286 - 2 * math.log(2), abs=1e-12)
    assert trigamma(1) == pytest.approx(math.pi**2 / 6, abs=1e-12)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2, abs=1e-12)


@given(st.floats(1e-3, 1e4))
def test_the_inverse_of_trigamma_inverts_it(x: float) -> None:
    assert trigamma_inverse(trigamma(x)) == pytest.approx(x, rel=1e-6)
