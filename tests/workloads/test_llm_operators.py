"""Operators of language models: sound ones pass, each planted fault gets its own word, refusals are told apart from faults."""

from __future__ import annotations

import math
import warnings

import pytest

from pytest_accel.measure import fallback
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import formulas, narrow_mm
from pytest_accel.workloads.builtin import WORKLOADS
from pytest_accel.workloads.catalog import llm_operators

torch = pytest.importorskip("torch")
functional = torch.nn.functional

SMALL_ATTENTION = {"batch": 1, "heads": 4, "kv_heads": 2, "seq_q": 24, "seq_kv": 24}
SOUND = [
    ("one_hot", {"rows": 9, "classes": 12}),
    ("fused_norm", {"kind": "rms_norm", "hidden": 128, "dtype": "float16", "scale": 300.0}),
    ("fused_norm", {"kind": "layer_norm", "hidden": 128, "dtype": "bfloat16", "backward": True}),
    ("rotary_accuracy", {"style": "half", "head_dim": 16, "dtype": "bfloat16", "tokens": 8}),
    ("rotary_accuracy", {"style": "interleaved", "head_dim": 24, "rotary_dim": 8, "dtype": "float32", "tokens": 8}),
    ("cross_entropy_accuracy", {"classes": 500, "dtype": "bfloat16"}),
    ("cross_entropy_accuracy", {"classes": 500, "dtype": "float32", "smoothing": 0.1, "backward": True}),
    ("int_mm", {}),
    ("int_mm", {"m": 33, "n": 32, "k": 64, "trans_b": False}),
    ("scaled_mm", {"m": 16, "n": 32, "k": 64}),
    ("scaled_mm", {"m": 16, "n": 32, "k": 64, "scaling": "row", "a_dtype": "float8_e5m2", "out_dtype": "float32"}),
    ("grouped_mm", {"rows": [8, 0, 16], "n": 32, "k": 64}),
]


@pytest.mark.parametrize(("name", "params"), SOUND)
def test_a_sound_operator_is_supported(measured, name, params):
    found = measured(name, **params)
    assert (found["status"], found["faults"], found["nonfinite"]) == ("supported", 0, 0)
    assert found["max_ulp"] <= 4


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "padding"])
@pytest.mark.parametrize("backward", [False, True])
def test_an_attention_kernel_is_judged_under_every_mask_and_backward(measured, mask, backward):
    found = measured(
        "attention_backend", backend="flash", head_dim=16, dtype="bfloat16", mask=mask, backward=backward,
        **SMALL_ATTENTION,
    )  # fmt: skip
    assert found["status"] == "supported"


def test_a_kernel_that_is_not_here_is_unsupported_and_no_fault(measured, accelerator):
    found = measured("attention_backend", backend="cudnn", head_dim=16, dtype="float32", **SMALL_ATTENTION)
    assert (found["status"], found["faults"]) == ("unsupported", 0)
    assert "No viable backend" in accelerator.notes["found"]["reason"]
    assert "max_ulp" not in found


def test_a_device_that_takes_no_notice_of_the_chosen_kernel_has_not_got_it(measured, monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(torch.nn.attention, "sdpa_kernel", lambda chosen: nullcontext())
    found = measured("attention_backend", backend="efficient", head_dim=16, dtype="float32", **SMALL_ATTENTION)
    assert found["status"] == "unsupported"


@pytest.mark.parametrize(
    ("name", "target", "fault", "params"),
    [
        ("one_hot", "one_hot", lambda f: lambda *a: f(*a).roll(1, -1), {"rows": 9, "classes": 12}),
        (
            "fused_norm",
            "rms_norm",  # a kernel that sums the squares in the dtype
            lambda f: lambda x, shape, w, eps: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w,
            {"kind": "rms_norm", "hidden": 128, "dtype": "float16", "scale": 300.0},
        ),
        (
            "cross_entropy_accuracy",
            "cross_entropy",
            lambda f: lambda *a, **k: f(*a, **k) * 1.01,
            {"classes": 100, "dtype": "float32"},
        ),
        (
            "attention_backend",
            "scaled_dot_product_attention",  # report: an additive mask that is dropped
            lambda f: lambda q, k, v, attn_mask=None, **more: f(q, k, v, **more),
            {"backend": "auto", "head_dim": 16, "dtype": "bfloat16", "mask": "float", **SMALL_ATTENTION},
        ),
    ],
)
def test_a_planted_fault_is_wrong_and_says_where(measured, accelerator, monkeypatch, name, target, fault, params):
    monkeypatch.setattr(functional, target, fault(getattr(functional, target)))
    found = measured(name, **params)
    assert (found["status"], found["faults"]) == ("wrong", 1)
    assert "element" in accelerator.notes["found"]["reason"]


def test_a_rotation_that_reads_the_first_batchs_table_for_all_is_wrong(measured, monkeypatch):
    plain = formulas.rotary

    def first_only(x, cos, sin, style="half", sign=-1):
        on_device = cos.dtype == torch.bfloat16
        return plain(x, cos[:1], sin[:1], style, sign) if on_device else plain(x, cos, sin, style, sign)

    monkeypatch.setattr(formulas, "rotary", first_only)
    found = measured("rotary_accuracy", style="half", head_dim=16, dtype="bfloat16", tokens=8)
    assert found["status"] == "wrong"


def test_gradients_that_are_nan_are_nonfinite(measured, monkeypatch):
    plain = functional.scaled_dot_product_attention

    def spoilt(q, k, v, **more):
        out = plain(q, k, v, **more)
        if q.dtype == torch.bfloat16:
            out.register_hook(lambda grad: torch.where(torch.arange(grad.shape[-1]) == 0, torch.nan, grad))
        return out

    monkeypatch.setattr(functional, "scaled_dot_product_attention", spoilt)
    found = measured(
        "attention_backend", backend="auto", head_dim=16, dtype="bfloat16", backward=True, **SMALL_ATTENTION
    )
    assert found["status"] == "nonfinite"
    assert found["nonfinite"] > 0


def test_one_wrong_sum_of_int8_is_wrong(measured, monkeypatch):
    plain = torch._int_mm

    def off(a, b):
        out = plain(a, b).clone()
        out[-1, -1] += 1
        return out

    monkeypatch.setattr(torch, "_int_mm", off)
    assert measured("int_mm")["status"] == "wrong"


def test_two_different_answers_are_nondeterministic(measured, monkeypatch):
    flips = iter(range(100))
    plain = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: plain(a, b) + next(flips) % 2)
    assert measured("int_mm")["status"] == "nondeterministic"


def test_a_fall_back_is_a_fault_though_numbers_agree(measured, monkeypatch):
    monkeypatch.setattr(fallback, "SEEN", {})
    plain = torch._int_mm

    def warns(a, b):
        warnings.warn("The operator 'aten::_int_mm' will fall back to run on the CPU.", stacklevel=1)
        return plain(a, b)

    monkeypatch.setattr(torch, "_int_mm", warns)
    found = measured("int_mm")
    assert (found["status"], found["faults"]) == ("fallback", 1)


def test_an_error_that_means_nothing_known_is_never_taken_for_a_state(measured, monkeypatch):
    def broken(a, b):
        raise RuntimeError("something odd")

    monkeypatch.setattr(torch, "_int_mm", broken)
    with pytest.raises(RuntimeError, match="something odd"):
        measured("int_mm")


def test_a_torch_without_the_function_is_unsupported(measured, monkeypatch):
    monkeypatch.delattr(torch, "_int_mm")
    assert measured("int_mm")["status"] == "unsupported"


@pytest.mark.parametrize(
    ("dtype", "block"), [("float8_e4m3fn", 32), ("float4_e2m1fn_x2", 32), ("float4_e2m1fn_x2", 16)]
)
def test_block_scaled_numbers_multiplied_by_hand_from_the_bytes_a_device_gets_are_right(
    monkeypatch, measured, dtype, block
):
    """A stand-in device reads the packed numbers and the tiled scales as cuBLAS documents them, and multiplies."""

    def reads(a, b, scale_a, recipe_a, scale_b, recipe_b, *, swizzle_a, swizzle_b, output_dtype):
        assert recipe_a == getattr(functional.ScalingType, f"BlockWise1x{block}")
        wide = [_numbers(x) * _scale_of(s, *x.shape, block, dtype) for x, s in ((a, scale_a), (b.t(), scale_b))]
        return (wide[0] @ wide[1].t()).to(output_dtype)

    monkeypatch.setattr(functional, "scaled_mm", reads)
    found = measured("block_scaled_mm", m=130, n=40, k=192, dtype=dtype, block=block)
    assert found["status"] == "supported"


def _numbers(x):
    if x.dtype != torch.float4_e2m1fn_x2:
        return x.double()
    codes = x.contiguous().view(torch.uint8)
    both = torch.stack((codes & 15, codes >> 4), -1).flatten(1).long()
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    return table[both]


def _scale_of(scales, rows, columns, block, dtype):
    numbers = columns * (2 if dtype.startswith("float4") else 1)
    flat = scales.float().double()
    wide = math.ceil(numbers / block / 4)
    found = torch.empty(rows, numbers // block, dtype=torch.float64)
    for r in range(rows):
        for c in range(numbers // block):
            tile = (r // 128) * wide + c // 4
            found[r, c] = flat[tile * 512 + (r % 32) * 16 + (r % 128 // 32) * 4 + c % 4]
    return found.repeat_interleave(block, 1)


def test_the_host_does_not_take_block_scales_and_that_is_no_fault(measured):
    assert measured("block_scaled_mm", m=128, n=128, k=128)["status"] == "unsupported"
    assert set(narrow_mm.SCALES) == {16, 32}


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("attention_backend", {"backend": "fast", "head_dim": 8, "dtype": "float32"}, "backend"),
        ("attention_backend", {"backend": "math", "head_dim": 8, "dtype": "float32", "kv_heads": 3}, "does not divide"),
        ("attention_backend", {"backend": "math", "head_dim": 8, "dtype": "float32", "mask": "odd"}, "mask"),
        ("fused_norm", {"kind": "l2", "hidden": 8, "dtype": "float32"}, "rms_norm or layer_norm"),
        ("rotary_accuracy", {"style": "half", "head_dim": 8, "dtype": "float32", "rotary_dim": 10}, "at most head_dim"),
        ("scaled_mm", {"m": 1, "n": 1, "k": 1, "scaling": "cell"}, "tensor or row"),
        ("block_scaled_mm", {"m": 1, "n": 1, "k": 32, "block": 8}, "block"),
        ("grouped_mm", {"rows": [], "n": 1, "k": 1}, "group sizes"),
    ],
)
def test_wrong_arguments_are_refused_in_words(measured, name, params, words):
    with pytest.raises(BadArguments, match=words):
        measured(name, **params)


def test_no_workload_of_this_family_hides_one_of_another():
    for workload in llm_operators.ALL:
        assert WORKLOADS[workload.name] is workload
