"""Attention, functions of rows, convolutions, products, optimisers, random numbers: right ones pass, faults are seen."""

from __future__ import annotations

import pytest

from pytest_accel.measure.types import BadArguments
from pytest_accel.selftest.injections import injected
from pytest_accel.workloads.norms_precision import FUNCTIONS
from pytest_accel.workloads.rng import DISTRIBUTIONS

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")
SMALL = {"lengths": [64, 128], "head_dim": 32}


@pytest.mark.parametrize("mask", ["none", "bool", "float", "causal"])
def test_attention_of_this_host_is_right_in_every_domain(measured, accelerator, mask):
    found = measured("attention_accuracy", mask=mask, dtype="bfloat16", **SMALL)
    words = {value for name, value in found.items() if name.startswith("status_")}
    assert words == {"supported"}, accelerator.notes
    assert found["faults"] == 0
    assert found.get("masked_rows", "zeros") == "zeros"


def test_a_back_end_that_is_not_there_is_unsupported_and_no_fault(measured):
    found = measured("attention_accuracy", backend="cudnn", mask="bool", **SMALL)
    assert (found["status_normal"], found["faults"], found["judged"], found["masked_rows"]) == (
        "unsupported",
        0,
        0,
        "none",
    )


def test_attention_that_ignores_its_mask_is_wrong(measured, monkeypatch):
    plain = torch.nn.functional.scaled_dot_product_attention

    def ignoring(q, k, v, attn_mask=None, **more):
        return plain(q, k, v, **more)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", ignoring)
    found = measured("attention_accuracy", mask="bool", backward=False, **SMALL)
    assert found["status_normal"] == "wrong"
    assert measured("attention_accuracy", mask="none", backward=False, **SMALL)["faults"] == 0


def test_one_nan_in_the_gradient_of_the_queries_is_found_and_named(measured, accelerator):
    with injected("nan_query_gradient", CPU) as tally:
        found = measured("attention_accuracy", mask="bool", **SMALL)
    assert tally.fired
    assert found["status_negative"] == "nonfinite"
    assert "gradient of input 0" in accelerator.notes["found"][0]["reason"]


def test_grouped_attention_is_right_and_a_group_that_does_not_divide_is_refused(measured):
    found = measured("attention_accuracy", heads=4, kv_heads=2, backward=True, **SMALL)
    assert found["faults"] == 0
    with pytest.raises(BadArguments, match="multiple of kv_heads"):
        measured("attention_accuracy", heads=3, kv_heads=2)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_rows_are_right_in_every_domain(measured, accelerator, function):
    for dtype in ("float16", "bfloat16"):
        found = measured("function_accuracy", function=function, dtype=dtype, rows=8, width=300, seed=3)
        assert found["faults"] == 0, accelerator.notes
        assert found["judged"] >= 6


def test_a_norm_whose_sums_are_kept_in_16_bits_is_wrong(measured, monkeypatch):
    def low(x, shape, weight, eps):
        if x.element_size() != 2:
            return plain(x, shape, weight, eps)
        total = x.square().cumsum(-1)[..., -1:] / x.shape[-1]
        return x * (total + eps).rsqrt() * weight

    plain = torch.nn.functional.rms_norm
    monkeypatch.setattr(torch.nn.functional, "rms_norm", low)
    found = measured("function_accuracy", function="rms_norm", dtype="float16", rows=8, width=300, backward=False)
    assert found["status_large"] in ("wrong", "nonfinite")


def test_a_nan_that_leaks_into_another_row_is_found(measured, monkeypatch):
    plain = torch.Tensor.softmax

    def leaking(x, dim):
        out = plain(x, dim)
        return out + 0 * out.sum() if x.element_size() == 2 and bool(x.isnan().any()) else out

    monkeypatch.setattr(torch.Tensor, "softmax", leaking)
    found = measured("function_accuracy", function="softmax", rows=8, width=64, backward=False)
    assert found["status_nonfinite"] == "nonfinite"
    assert found["status_normal"] == "supported"


@pytest.mark.parametrize(("size", "kernel"), [([60], [5]), ([17, 15], [3, 3]), ([3, 12, 9], [1, 3, 3])])
def test_convolutions_are_right_and_a_halved_gradient_is_wrong_where_the_output_is_right(
    measured, accelerator, size, kernel
):
    assert measured("conv_accuracy", size=size, kernel=kernel, in_channels=8, out_channels=8)["faults"] == 0
    with injected("halved_convolution_gradient", CPU):
        found = measured("conv_accuracy", size=size, kernel=kernel, in_channels=8, out_channels=8)
    assert found["status_normal"] == "wrong"
    assert found["max_ulp"] < 1
    assert all("gradient" in item["reason"] for item in accelerator.notes["found"])


def test_the_large_convolution_judges_slices_and_finds_stray_gradients(measured, monkeypatch):
    sizes = {"depth": 5, "height": 20, "width": 18, "channels": 4}
    found = measured("conv_large", **sizes)
    assert (found["status"], found["stray"], found["nonfinite"]) == ("supported", 0, 0)
    plain = torch.autograd.grad

    def smeared(out, inputs, g=None, **more):
        grads = plain(out, inputs, g, **more)
        return (grads[0] + 1e-3, *grads[1:]) if grads[0].dim() == 5 else grads

    monkeypatch.setattr(torch.autograd, "grad", smeared)
    assert measured("conv_large", **sizes)["stray"] > 0


def test_results_that_lean_towards_zero_are_wrong_though_their_mean_error_is_nothing(measured):
    params = {"m": 64, "n": 64, "k": 256, "rows": 64, "dtype": "bfloat16"}
    assert measured("gemm_accuracy", **params)["status"] == "supported"
    with injected("truncated", CPU):
        assert measured("gemm_accuracy", **params)["status"] == "wrong"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_cancelling_sum_tells_sums_in_float32_from_sums_in_16_bits(measured, dtype):
    sizes = {"m": 32, "n": 32, "k": 1024, "dtype": dtype}
    right = measured("gemm_cancelling", **sizes)
    assert right["status"] == "supported"
    assert right["of_partial"] < 0.5
    with injected("low_sum", CPU):
        assert measured("gemm_cancelling", **sizes)["of_partial"] > 1.0


def test_a_product_with_the_identity_finds_rows_that_were_never_written(measured):
    assert measured("matmul_identity", rows=5003, dtype="bfloat16") == {"inexact": 0}
    with injected("sparse_zeros", CPU):
        assert measured("matmul_identity", rows=5003, dtype="bfloat16")["inexact"] > 0


@pytest.mark.parametrize("form", ["plain", "foreach", "fused"])
def test_optimisers_agree_with_float64_in_every_form(measured, form):
    for optimizer in ("SGD", "Adam", "AdamW"):
        found = measured("optimizer_accuracy", optimizer=optimizer, form=form)
        assert found["status"] == "supported"
        assert found["max_ulp"] < 4


def test_an_optimiser_that_leaves_out_its_bias_correction_is_wrong_and_a_missing_form_is_unsupported(
    measured, monkeypatch
):
    assert measured("optimizer_accuracy", optimizer="RMSprop", form="fused")["status"] == "unsupported"
    plain = torch.optim.SGD.step

    def short(self, *args):
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                if parameter.dtype == torch.float32 and self.param_groups[0]["foreach"]:
                    parameter.grad *= 1 + 1e-4
        return plain(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", short)
    assert measured("optimizer_accuracy", optimizer="SGD", form="foreach")["status"] == "wrong"


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_random_numbers_of_this_host_keep_their_moments_and_their_seed(measured, distribution):
    found = measured("random_numbers", distribution=distribution, count=50000)
    assert found["worst_sigma"] < 6
    assert found["out_of_range"] == 0
    words = (found["same_seed"], found["other_seed"], found["next_draw"], found["state"])
    assert words == ("equal", "differs", "differs", "restored")


@pytest.mark.parametrize(
    ("change", "metric", "bad"),
    [
        (lambda x: x * 1.05, "worst_sigma", lambda v: v > 6),
        (lambda x: x - 0.2, "out_of_range", lambda v: v > 0),
        (lambda x: x.sort().values, "worst_sigma", lambda v: v > 6),
        (lambda x: torch.full_like(x, 0.5), "next_draw", lambda v: v == "equal"),
    ],
)
def test_spoilt_generators_are_found(measured, monkeypatch, change, metric, bad):
    plain = torch.rand
    monkeypatch.setattr(torch, "rand", lambda *args, **more: change(plain(*args, **more)))
    assert bad(measured("random_numbers", distribution="uniform", count=50000)[metric])


def test_an_unknown_function_optimiser_or_distribution_is_refused(measured):
    for workload, params in (
        ("function_accuracy", {"function": "sofmax"}),
        ("optimizer_accuracy", {"optimizer": "Adaam"}),
        ("random_numbers", {"distribution": "gauss"}),
        ("conv_accuracy", {"size": [3, 3], "kernel": [3]}),
    ):
        with pytest.raises(BadArguments):
            measured(workload, **params)


def test_an_error_that_means_nothing_known_is_never_taken_for_a_state(measured, monkeypatch):
    def broken(*args, **more):
        raise RuntimeError("something odd")

    monkeypatch.setattr(torch.nn.functional, "silu", broken)
    with pytest.raises(RuntimeError, match="something odd"):
        measured("function_accuracy", function="silu", rows=2, width=4)
