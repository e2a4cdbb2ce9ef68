"""The names of what ran: read from the profiler's demangled names, or from torch's dispatch where no profiler sees the device."""

from __future__ import annotations

import pytest

from pytest_accel.measure import kernels
from pytest_accel.measure.kernels import LONGEST, NAME, joined, kernels_of, shortened

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
            "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
            "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >",
        ),
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float, float>(float*, float const*, int)",
            "at::native::softmax_warp_forward<float, float>",
        ),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_kernel", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_kernel"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
    ],
)
def test_a_kernels_name_loses_its_result_type_and_its_arguments(name, short):
    assert shortened(name) == short


def test_long_names_that_differ_only_at_their_end_stay_different():
    names = [shortened("kernel<" + "float, " * 60 + last + ">") for last in ("int", "long")]
    assert names[0] != names[1]
    assert all(len(name) <= NAME for name in names)


def test_names_are_joined_in_order_with_their_counts_and_never_too_long():
    assert joined(["b", "a", "b"]) == "b x2; a"
    assert joined([]) == ""
    word = joined(f"kernel_{number:0>40}" for number in range(100))
    assert len(word) <= LONGEST
    assert word.endswith("; …")


def test_operators_tell_one_back_end_of_attention_from_another():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 16, 8)

    def run():
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    usual = kernels_of(run, "cpu", lambda: None)
    with sdpa_kernel(SDPBackend.MATH):
        other = kernels_of(run, "cpu", lambda: None)
    assert usual == "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert "softmax" in other
    assert "flash" not in other


def test_views_and_book_keeping_are_no_kernels():
    x = torch.randn(4, 4)
    assert kernels_of(lambda: x.t().reshape(16).view(4, 4)[0].mul(2.0), "cpu", lambda: None) == "aten::clone; aten::mul"


def test_a_profiler_that_sees_no_kernel_is_told_from_work_that_has_none(monkeypatch):
    monkeypatch.setattr(kernels, "_profiler_sees", lambda device_type: True)
    monkeypatch.setattr(kernels, "_profiled", lambda fn, device_type, synchronize: [])
    assert kernels_of(lambda: None, "anything", lambda: None) == kernels.UNSEEN
