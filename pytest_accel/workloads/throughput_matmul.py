"""Timed matrix products: floating point, 8-bit floating point, 8-bit integers. torch is imported inside."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, beside, figures

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator


def gemm(
    accel: Accelerator,
    m: int,
    n: int,
    k: int,
    dtype: str,
    trans_a: bool = False,
    trans_b: bool = False,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``[m, k] @ [k, n]`` of normal numbers; ``times_float32`` is the ratio to the same product in float32."""
    positive(m=m, n=n, k=k)
    a = normal((k, m) if trans_a else (m, k), dtype, accel.device, seed)
    b = normal((n, k) if trans_b else (k, n), dtype, accel.device, seed + 1)
    a, b = a.t() if trans_a else a, b.t() if trans_b else b
    rows = a[:: max(1, m // CHECK_ROWS)]
    out, cold = accel.first(lambda: a @ b)
    correct = agrees(out[:: max(1, m // CHECK_ROWS)], lambda: rows.cpu().double() @ b.cpu().double(), dtype)
    flops, moved = 2.0 * m * n * k, float((m * k + k * n + m * n) * a.element_size())
    times = accel.time(lambda: a @ b, flops=flops, bytes=moved, dtype=dtype, min_time=min_time)
    metrics = figures(accel, lambda: a @ b, times, correct, cold=cold, flops=flops, dtype=dtype)
    if dtype != "float32":
        a, b = a.float(), b.float()
        plain = accel.time(lambda: a @ b, min_time=min_time / 4, min_samples=5, max_time=1.0)
        metrics["times_float32"] = statistics.median(times) / statistics.median(plain)
    return metrics


def gemm_float8(
    accel: Accelerator, m: int, n: int, k: int, dtype: str = "float8_e4m3fn", seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time torch's scaled product of ``[m, k]`` and ``[k, n]`` in an 8-bit float, out in bfloat16, one scale a tensor.

    ``ratio``: its time over that of the same product in bfloat16.
    """
    import torch

    positive(m=m, n=n, k=k)
    kind = torch_dtype(dtype)
    if kind.itemsize != 1 or not kind.is_floating_point:
        raise BadArguments(f"dtype: must be an 8-bit float such as float8_e4m3fn, not {dtype}")
    a = normal((m, k), "float32", accel.device, seed).to(kind)
    b = normal((n, k), "float32", accel.device, seed + 1).to(kind).t()  # the product wants the second by columns
    one = torch.ones((), dtype=torch.float32, device=accel.device)

    def run() -> torch.Tensor:
        return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    step = max(1, m // CHECK_ROWS)
    out, cold = accel.first(run)
    correct = agrees(out[::step], lambda: a[::step].cpu().double() @ b.cpu().double(), "bfloat16")
    flops = 2.0 * m * n * k
    times = accel.time(run, flops=flops, dtype=dtype, min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold, flops=flops, dtype=dtype)
    wide_a, wide_b = a.bfloat16(), b.bfloat16()
    metrics["ratio"] = statistics.median(times) / beside(accel, lambda: wide_a @ wide_b, min_time)
    return metrics


def gemm_int8(accel: Accelerator, m: int, n: int, k: int, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time torch's product of 8-bit integers ``[m, k]`` and ``[k, n]`` into 32-bit ones, which is exact.

    ``ratio``: its time over that of the same shape in bfloat16.
    """
    import torch

    positive(m=m, n=n, k=k)
    made = torch.Generator().manual_seed(seed)
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, generator=made).to(accel.device)
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8, generator=made).to(accel.device).t()

    def run() -> torch.Tensor:
        return torch._int_mm(a, b)

    step = max(1, m // CHECK_ROWS)
    out, cold = accel.first(run)
    # 127 * 127 * k is far below 2^53, so that the float64 product is exact too.
    correct = bool((out[::step].cpu().double() == a[::step].cpu().double() @ b.cpu().double()).all())
    flops = 2.0 * m * n * k
    times = accel.time(run, flops=flops, dtype="int8", min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold, flops=flops, dtype="int8")
    wide_a, wide_b = a.bfloat16(), b.bfloat16()
    metrics["ratio"] = statistics.median(times) / beside(accel, lambda: wide_a @ wide_b, min_time)
    return metrics
