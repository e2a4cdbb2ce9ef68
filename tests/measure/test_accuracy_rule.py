"""The accuracy rule against planted faults: every one of the reference's fault matrix is caught, and no correct kernel."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.measure import accuracy, tolerances
from pytest_accel.measure.types import Unfit

torch = pytest.importorskip("torch")
MM = tolerances.of_operator("mm")
ADD = tolerances.of_operator("mul")


@pytest.fixture(params=["float16", "bfloat16"])
def product(request):
    """A 64 x 2048 x 64 product in a 16-bit dtype: (correct result, golden, reference, magnitude, a, b)."""
    dtype = getattr(torch, request.param)
    made = torch.Generator().manual_seed(1)
    a = torch.randn(64, 2048, generator=made).to(dtype)
    b = torch.randn(2048, 64, generator=made).to(dtype)
    golden = a.double() @ b.double()
    reference = (a.float() @ b.float()).to(dtype)
    return golden.to(dtype), golden, reference, a.double().abs() @ b.double().abs(), a, b


def judged(product, result):
    _, golden, reference, magnitude, _, _ = product
    return accuracy.compare(result, golden, reference, rule=MM, magnitude=magnitude)


def test_another_summation_order_in_float32_is_right(product):
    _, _, _, _, a, b = product
    parts = [a[:, i : i + 128].float() @ b[i : i + 128].float() for i in range(0, 2048, 128)]
    found = judged(product, sum(reversed(parts)).to(a.dtype))
    assert found.word == "supported", found.reason
    assert found.max_ulp <= 1.0


def one_element_a_quarter_off(y, a, b):
    y[3, 5] *= 1.25
    return y


def few_elements_zero(y, a, b):
    y.view(-1)[::1400] = 0
    return y


def one_nan(y, a, b):
    y[0, 0] = math.nan
    return y


def one_infinity(y, a, b):
    y[0, 0] = -math.inf
    return y


def tail_of_k_dropped(y, a, b):
    return (a[:, :-16].float() @ b[:-16].float()).to(y.dtype)


def low_precision_accumulation(y, a, b):
    total = torch.zeros_like(y)
    for i in range(0, a.shape[1], 16):
        total = (total.float() + a[:, i : i + 16].float() @ b[i : i + 16].float()).to(y.dtype)
    return total


def one_ulp_low_everywhere(y, a, b):
    return torch.nextafter(y, torch.full_like(y, -math.inf))


def truncated_toward_zero(y, a, b):
    return torch.nextafter(y, torch.zeros_like(y))


FAULTS = {
    one_element_a_quarter_off: "wrong",
    few_elements_zero: "wrong",
    one_nan: "nonfinite",
    one_infinity: "nonfinite",
    tail_of_k_dropped: "wrong",
    low_precision_accumulation: "wrong",
    one_ulp_low_everywhere: "wrong",
    truncated_toward_zero: "wrong",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(product, fault):
    good, _, _, _, a, b = product
    found = judged(product, fault(good.clone(), a, b))
    assert found.word == FAULTS[fault]
    assert found.reason


def test_a_nan_in_the_golden_result_fails_as_well():
    golden = torch.tensor([1.0, math.nan], dtype=torch.float64)
    found = accuracy.compare(torch.tensor([1.0, 2.0]), golden, rule=ADD)
    assert (found.word, found.nonfinite) == ("nonfinite", 1)


def test_nan_and_infinity_in_the_same_place_are_right():
    golden = torch.tensor([math.nan, math.inf, -math.inf, 1.0], dtype=torch.float64)
    assert accuracy.compare(golden.float(), golden, rule=ADD).word == "supported"
    assert accuracy.compare(-golden.float(), golden, rule=ADD).nonfinite == 2


def test_a_saturated_result_is_told_from_an_infinite_one():
    golden = torch.tensor([1e6, 1.0], dtype=torch.float64)
    found = accuracy.compare(torch.tensor([65504.0, 1.0], dtype=torch.float16), golden, rule=ADD)
    assert (found.word, found.saturated, found.nonfinite) == ("saturated", 1, 0)


@pytest.mark.parametrize("value", [65504.0, math.inf])
def test_either_side_is_right_at_the_threshold_of_overflow(value):
    golden = torch.tensor([65515.0], dtype=torch.float64)
    assert accuracy.compare(torch.tensor([value], dtype=torch.float16), golden, rule=ADD).word == "supported"


def test_whole_numbers_and_booleans_must_be_equal():
    right = torch.tensor([1, 2, 3])
    assert accuracy.compare(right, right, rule=ADD).word == "supported"
    found = accuracy.compare(torch.tensor([1, 2, 4]), right, rule=ADD)
    assert (found.word, found.max_ulp, found.worst) == ("wrong", 1.0, 2)
    assert accuracy.compare(torch.tensor([True]), torch.tensor([False]), rule=ADD).word == "wrong"


def test_complex_numbers_are_judged_as_pairs_of_reals():
    golden = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    assert accuracy.compare(golden.to(torch.complex64), golden, rule=ADD).count == 4
    assert accuracy.compare(golden.conj().to(torch.complex64), golden, rule=ADD).word == "wrong"


def test_an_ulp_is_clamped_at_the_smallest_normal_number():
    tiny = accuracy.ulp(torch.tensor([0.0, 2.0**-24, 1.0, 1.5, 2.0], dtype=torch.float64), torch.float16)
    assert tiny.tolist() == [2.0**-24, 2.0**-24, 2.0**-10, 2.0**-10, 2.0**-9]


def test_a_reference_that_changes_between_two_runs_is_refused():
    values = iter([torch.tensor([1.0]), torch.tensor([1.0 + 2**-20])])
    with pytest.raises(Unfit, match="two different results") as caught:
        accuracy.twice(lambda: [next(values)])
    assert caught.value.code == "reference-unstable"


def test_the_number_of_threads_is_restored_after_a_golden_run():
    before = torch.get_num_threads()
    seen = accuracy.twice(lambda: [torch.tensor([float(torch.get_num_threads())])])
    assert seen[0].item() == 1.0
    assert torch.get_num_threads() == before


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-60000, 60000), min_size=1, max_size=60),
    st.sampled_from(["float16", "bfloat16", "float32"]),
)
def test_one_correct_rounding_is_always_right(values, name):
    golden = torch.tensor(values, dtype=torch.float64)
    found = accuracy.compare(golden.to(getattr(torch, name)), golden, rule=ADD)
    assert found.word == "supported"
    assert found.max_ulp <= 0.5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-60000, 60000), min_size=1, max_size=60), st.integers(0, 59), st.floats(3, 1e4))
def test_an_error_of_three_ulps_in_any_one_element_is_caught(values, place, ulps):
    golden = torch.tensor(values, dtype=torch.float64)
    result = golden.to(torch.float32)
    place %= len(values)
    result[place] += ulps * accuracy.ulp(golden, torch.float32)[place].item()
    assert accuracy.compare(result, golden, rule=ADD).word == "wrong"


def test_every_tolerance_names_its_source_and_no_operator_is_in_two_classes():
    names = [name for text, _ in tolerances._CLASSES for name in text.split()]
    assert len(names) == len(set(names))
    assert all(rule.source for rule in tolerances.OPERATORS.values())
