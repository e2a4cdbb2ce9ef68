"""Rotary tables, products, overflow and the gradient scaler: what is right passes, and each public report's fault is seen."""

from __future__ import annotations

import pytest

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import amp, matmul

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("recipe", ["elementwise", "matmul", "matmul_batch"])
def test_a_phase_in_float32_is_within_its_derived_bound_in_every_band(measured, dtype, recipe):
    found = measured("rope_table", dtype=dtype, recipe=recipe, max_position=4096)
    assert found["nonfinite"] == 0
    assert [band for band in found if band.startswith("ratio")] == [f"ratio_{n}" for n in (256, 2048, 4096)]
    assert all(value <= 1.0 for name, value in found.items() if name.startswith("ratio"))


def test_positions_cast_to_bfloat16_pass_below_256_and_fail_below_2048_with_an_error_near_two(measured):
    found = measured("rope_table", dtype="bfloat16", cast_early="positions", max_position=2048)
    assert found["ratio_256"] <= 1.0
    assert found["ratio_2048"] > 1000
    assert 1.9 < found["error_2048"] <= 2.0


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 0.31), ("float16", 0.06)])
def test_inverse_frequencies_cast_early_fail_in_the_first_band(measured, dtype, error):
    found = measured("rope_table", dtype=dtype, cast_early="inv_freq", max_position=256)
    assert found["ratio_256"] > 100
    assert found["error_256"] == pytest.approx(error, rel=0.1)


def test_half_precision_positions_beyond_65504_are_counted_as_non_finite(measured):
    found = measured("rope_table", dtype="float16", cast_early="both", max_position=131072, head_dim=8)
    assert found["nonfinite"] > 0
    assert found["ratio_131072"] == float("inf")


def test_a_suite_of_short_positions_is_called_blind(measured, accelerator):
    measured("rope_table", max_position=256)
    assert "256" in accelerator.notes["blind"]


def test_an_own_implementation_is_measured_and_a_wrong_name_is_refused(measured, monkeypatch):
    def off_by_one(positions, head_dim, base, dtype, device):
        inv_freq = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        phase = (positions + 1)[:, None] * inv_freq[None]
        return torch.cat([phase.cos()] * 2, 1).to(dtype), torch.cat([phase.sin()] * 2, 1).to(dtype)

    import math as module

    monkeypatch.setattr(module, "off_by_one", off_by_one, raising=False)
    assert measured("rope_table", max_position=256, implementation="math:off_by_one")["ratio_256"] > 8
    with pytest.raises(BadArguments, match="cannot be imported"):
        measured("rope_table", implementation="math:no_such")
    with pytest.raises(BadArguments, match="write it as package"):
        measured("rope_table", implementation="math")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_this_cpu_overflows_as_ieee_says(measured, accelerator, dtype):
    found = measured("amp_overflow", dtype=dtype)
    expected = {"overflow_mode": "ieee", "not_finite": 0, "not_overflowed": 0, "subnormals": "kept"}
    assert found == expected, accelerator.notes


def test_a_device_in_saturation_mode_is_named_and_not_called_broken(monkeypatch):
    values = {"exp": 65504.0, "double": 65504.0, "root": 0.0, "square": 65504.0}

    class Number:
        def __init__(self, kind):
            self.kind = kind

        def __getitem__(self, index):
            return values[self.kind]

    class Vector:
        device = torch.device("cpu")
        exp = lambda self: Number("exp")  # noqa: E731
        sqrt = lambda self: Number("root")  # noqa: E731
        __mul__ = lambda self, other: Number("double")  # noqa: E731
        __pow__ = lambda self, other: Number("square")  # noqa: E731

    assert amp._mode(lambda *numbers: Vector(), 65504.0, torch.float16) == "saturate"
    values["exp"] = 65503.0
    assert amp._mode(lambda *numbers: Vector(), 65504.0, torch.float16) == "mixed"


def test_the_scaler_follows_its_documented_trajectory(measured):
    found = measured("grad_scaler")
    steps = "65536,65536,32768,32768,32768,65536,65536,32768,32768,32768,65536,65536"
    assert (found["scales"], found["mismatches"], found["skipped"]) == (steps, 0, 2)
    assert (found["moved_on_skip"], found["held_on_step"], found["parameters"]) == (0, 0, "moved")
    assert found["natural_overflow"] == "skipped"


def test_forty_overflows_of_forty_break_the_limits_and_one_of_forty_does_not(measured):
    always = measured("grad_scaler", steps=40, inject_inf=list(range(40)), inject_nan=[], growth_interval=2000)
    assert (always["skipped"], always["skipped_share"], always["parameters"]) == (40, 1.0, "held")
    assert always["final_scale"] == pytest.approx(5.96e-8, rel=1e-3)
    once = measured("grad_scaler", steps=40, inject_inf=[5], inject_nan=[], growth_interval=2000)
    assert (once["skipped"], once["skipped_share"], once["parameters"]) == (1, 0.025, "moved")
    assert once["mismatches"] == always["mismatches"] == 0


def test_a_scaler_that_ignores_an_overflow_is_found(measured, monkeypatch):
    monkeypatch.setattr(
        torch.amp.GradScaler, "_maybe_opt_step", lambda self, optimizer, state, *args, **kwargs: optimizer.step()
    )
    found = measured("grad_scaler", inject_nan=[])
    assert found["moved_on_skip"] == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_product_of_odd_sizes_is_right_whatever_the_layout(measured, dtype):
    found = measured("gemm_accuracy", m=70, n=131, k=259, dtype=dtype, trans_a=True, trans_b=True)
    assert (found["status"], found["nonfinite"], found["checksum_rows"]) == ("supported", 0, 0)
    strict = measured("gemm_accuracy", m=70, n=131, k=259, dtype=dtype, partials_in_dtype=False)
    assert strict["max_ulp"] <= 1.0


class Tampered:
    """A device whose product has one fault."""

    def __init__(self, accelerator, monkeypatch, fault):
        plain = torch.Tensor.__matmul__
        state = {"left": 1}

        def product(a, b):
            out = plain(a, b)
            if state["left"] and out.dtype == torch.bfloat16:
                state["left"] = 0
                fault(out)
            return out

        monkeypatch.setattr(torch.Tensor, "__matmul__", product)
        self.found = matmul.gemm_accuracy(accelerator, 70, 131, 259, "bfloat16", rows=8)


def test_one_nan_in_a_row_that_is_not_sampled_is_found(accelerator, monkeypatch):
    found = Tampered(accelerator, monkeypatch, lambda out: out[3, 4].fill_(float("nan"))).found
    assert (found["status"], found["nonfinite"]) == ("nonfinite", 1)


def test_a_tile_that_was_never_written_is_found_in_a_row_that_is_not_sampled(accelerator, monkeypatch):
    found = Tampered(accelerator, monkeypatch, lambda out: out[3:5, :16].zero_()).found
    assert (found["status"], found["checksum_rows"]) == ("wrong", 2)


def test_products_of_ones_are_exact_and_a_size_the_dtype_cannot_hold_is_refused(measured):
    assert measured("matmul_ones", dtype="bfloat16", n=256) == {"inexact": 0}
    with pytest.raises(BadArguments, match="power of two"):
        measured("matmul_ones", dtype="bfloat16", n=257)


@pytest.mark.parametrize(("bits", "word"), [(23, "ieee"), (10, "tf32"), (7, "bfloat16")])
def test_the_arithmetic_of_float32_products_is_told_apart(measured, monkeypatch, bits, word):
    plain = torch.Tensor.__matmul__

    def rounded(tensor):
        mantissa, exponent = torch.frexp(tensor)
        return torch.ldexp(torch.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent)

    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: plain(rounded(a), rounded(b)))
    assert measured("float32_mode") == {"mode": word}
