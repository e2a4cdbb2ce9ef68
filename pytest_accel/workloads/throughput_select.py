"""Timed sort, topk and random numbers. torch is imported inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

SIGMAS = 6.0  # of the mean and the variance of a sample: one right generator in 10^8 calls fails


def sort(accel: Accelerator, rows: int, length: int, dtype: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time ``sort`` of each row of ``[rows, length]``; the last rows must be the host's exactly."""
    return _ordered(accel, rows, length, 0, dtype, seed, min_time)


def topk(
    accel: Accelerator, rows: int, length: int, k: int, dtype: str, seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time ``topk`` of each row of ``[rows, length]``; the last rows must be the host's exactly."""
    positive(k=k)
    if k > length:
        raise BadArguments(f"k: {k} is more than the row's {length}")
    return _ordered(accel, rows, length, k, dtype, seed, min_time)


def _ordered(accel: Accelerator, rows: int, length: int, k: int, dtype: str, seed: int, min_time: float) -> Metrics:
    positive(rows=rows, length=length)
    x = normal((rows, length), dtype, accel.device, seed)

    def run() -> torch.Tensor:
        return x.topk(k, -1).values if k else x.sort(-1).values

    out, cold = accel.first(run)
    right = x[-CHECK_ROWS:].cpu().float().sort(-1, descending=bool(k)).values
    found = out[-CHECK_ROWS:].cpu().float()
    correct = bool((found == (right[:, :k] if k else right)).all())
    times = accel.time(run, min_time=min_time)
    return figures(accel, run, times, correct, cold=cold, moved=float(x.numel() * x.element_size()), of_roof=False)


def random_fill(
    accel: Accelerator, count: int, kind: str = "normal", dtype: str = "float32", min_time: float = 0.3
) -> Metrics:
    """Time filling ``count`` numbers with ``normal`` or ``uniform`` ones; mean and variance must be a sample's of those."""
    import torch

    positive(count=count)
    if kind not in ("normal", "uniform"):
        raise BadArguments(f"kind: must be normal or uniform, not {kind}")
    x = torch.empty(count, dtype=torch_dtype(dtype), device=accel.device)

    def run() -> torch.Tensor:
        return x.normal_() if kind == "normal" else x.uniform_()

    out, cold = accel.first(run)
    once = out.float().cpu().double()
    centre, variance, fourth = (0.0, 1.0, 3.0) if kind == "normal" else (0.5, 1 / 12, 1 / 80)
    off = abs(float(once.mean()) - centre) / math.sqrt(variance / count)
    spread = abs(float((once - centre).square().mean()) - variance) / math.sqrt((fourth - variance**2) / count)
    again = run().float().cpu().double()
    correct = off < SIGMAS and spread < SIGMAS and bool((once != again).any())
    moved = float(count * x.element_size())
    times = accel.time(run, bytes=moved, min_time=min_time)
    return figures(accel, run, times, correct, cold=cold, moved=moved)
