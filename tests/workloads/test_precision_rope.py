"""Rotary positions applied, far out, and the device's sin and cos: what is right passes, known faults are seen."""

from __future__ import annotations

import pytest

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision_rope import DISTANCES

torch = pytest.importorskip("torch")
OWN = "pytest_accel.selftest.rope_faults:"


@pytest.mark.parametrize("layout", ["half", "interleave"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_rotation_by_its_formula_is_right_forward_and_backward_and_keeps_the_norm(measured, dtype, layout):
    found = measured("rope_apply", dtype=dtype, layout=layout)
    assert (found["status_rotated"], found["faults"], found["repeats"]) == ("supported", 0, "equal")
    assert found["max_ulp"] <= 1.0
    assert found["grad_max_ulp"] <= 1.0
    assert found["norm"] <= 1.0


@pytest.mark.parametrize("positions", ["per_batch", "grid", "sections"])
@pytest.mark.parametrize(("head_dim", "rotary"), [(64, 0), (80, 32), (192, 0), (256, 128)])
def test_partial_rotations_and_positions_of_several_axes_are_right_on_strided_views(
    measured, positions, head_dim, rotary
):
    found = measured(
        "rope_apply", head_dim=head_dim, rotary_dim=rotary, positions=positions, strided=True, length=36, backward=False
    )
    assert (found["status_rotated"], found["faults"]) == ("supported", 0)


def test_a_kernel_that_takes_the_first_rows_positions_for_all_is_found_only_with_positions_by_row(measured):
    own = {"implementation": OWN + "first_batch_only"}
    assert measured("rope_apply", positions="plain", **own)["status_rotated"] == "supported"
    assert measured("rope_apply", positions="per_batch", **own)["status_rotated"] == "wrong"


def test_a_kernel_of_the_other_layout_keeps_the_norm_and_is_found_all_the_same(measured):
    found = measured("rope_apply", implementation=OWN + "wrong_layout")
    assert found["norm"] <= 1.0
    assert found["status_rotated"] == "wrong"


def test_a_kernel_that_answers_differently_each_time_is_nondeterministic(measured, monkeypatch):
    import math as module

    from pytest_accel.workloads.rope_apply import plain

    calls = iter(range(100))

    def racy(x, cos, sin, layout):
        return plain(x, cos, sin, layout) * (1 + 0.5 * (next(calls) % 2))

    monkeypatch.setattr(module, "racy", racy, raising=False)
    found = measured("rope_apply", implementation="math:racy", backward=False)
    assert found["status_rotated"] == "nondeterministic"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_of_a_right_table_depend_on_the_distance_alone_and_an_early_cast_shows_at_far_distances_only(
    measured, dtype
):
    right = measured("rope_scores", dtype=dtype)
    assert all(right[f"ratio_{distance}"] <= 0.2 for distance in DISTANCES)
    wrong = measured("rope_scores", dtype=dtype, cast_early="inv_freq")
    assert wrong["ratio_1"] <= 0.2
    assert all(wrong[f"ratio_{distance}"] > 1.0 for distance in DISTANCES[1:])


@pytest.mark.parametrize("recipe", ["elementwise", "matmul", "matmul_batch", "autocast", "cast_module"])
def test_every_recipe_of_model_code_stays_within_the_bound_up_to_a_million(measured, recipe):
    found = measured("rope_recipe", recipe=recipe, dtype="bfloat16", base=500000.0)
    ratios = {name: value for name, value in found.items() if name.startswith("ratio_")}
    assert list(ratios)[-1] == "ratio_1048576"
    assert all(value <= 1.0 for value in ratios.values())
    assert found["nonfinite"] == 0


@pytest.mark.parametrize("scaling", ["linear", "ntk", "yarn"])
def test_scaled_frequencies_are_within_the_bound_and_another_scaling_is_not(measured, scaling, monkeypatch):
    found = measured("rope_recipe", scaling=scaling, max_position=8192)
    assert all(value <= 1.0 for name, value in found.items() if name.startswith("ratio_"))
    unscaled = measured("rope_recipe", scaling=scaling, max_position=8192, implementation=OWN + "by_angle_addition")
    assert unscaled["ratio_4096"] > 1000


def test_a_sine_whose_range_reduction_ends_at_a_hundred_thousand_is_found(measured, monkeypatch):
    right = measured("trigonometry")
    assert max(right["sin_ulp"], right["cos_ulp"]) <= 2.0
    assert (right["above_one"], right["nonfinite"]) == (0, 0)
    exact = torch.sin

    def short(x):
        if x.dtype == torch.float64:
            return exact(x)
        turns = torch.round(x / 6.2831853)
        return torch.where(x.abs() > 1e5, exact(x - turns * 6.2831855), exact(x))

    monkeypatch.setattr(torch, "sin", short)
    assert measured("trigonometry")["sin_ulp"] > 4.0


def test_arguments_that_contradict_each_other_are_refused_and_short_positions_are_called_blind(measured, accelerator):
    with pytest.raises(BadArguments, match="layout"):
        measured("rope_apply", layout="pairs")
    with pytest.raises(BadArguments, match="at most head_dim"):
        measured("rope_apply", rotary_dim=512)
    with pytest.raises(BadArguments, match="write it as package"):
        measured("rope_apply", implementation="math")
    measured("rope_recipe", max_position=256)
    assert "256" in accelerator.notes["blind"]
