"""Timed code that is compiled on the machine: torch.compile and a Triton kernel, each over the same steps in eager torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_accel.workloads.inputs import normal, positive
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, beside, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

BLOCK = 1024


def _steps(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    from torch.nn import functional

    return functional.gelu(x * scale + bias)


def compiled(
    accel: Accelerator,
    rows: int,
    hidden: int,
    dtype: str,
    backend: str = "inductor",
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``gelu(x * scale + bias)`` through ``torch.compile``; ``cold`` holds the compilation, ``ratio`` is over eager."""
    import torch

    made = torch.compile(_steps, backend=backend, fullgraph=True, dynamic=False)
    return _against_eager(accel, made, rows, hidden, dtype, seed, min_time)


def triton_kernel(
    accel: Accelerator, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time ``gelu(x * scale + bias)`` as one Triton kernel; ``cold`` holds its compilation, ``ratio`` is over eager torch."""
    import torch

    from pytest_accel.workloads.triton_kernels import gelu_of_scaled

    def run(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        blocks = (x.numel() + BLOCK - 1) // BLOCK
        gelu_of_scaled[(blocks,)](x, scale, bias, out, x.numel(), x.shape[-1], BLOCK=BLOCK)
        return out

    return _against_eager(accel, run, rows, hidden, dtype, seed, min_time)


def _against_eager(
    accel: Accelerator,
    make: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    rows: int,
    hidden: int,
    dtype: str,
    seed: int,
    min_time: float,
) -> Metrics:
    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed)
    scale, bias = (normal((hidden,), dtype, accel.device, seed + more) for more in (1, 2))
    out, cold = accel.first(lambda: make(x, scale, bias))
    correct = agrees(
        out[-CHECK_ROWS:],
        lambda: _steps(x[-CHECK_ROWS:].cpu().double(), scale.cpu().double(), bias.cpu().double()),
        dtype,
    )
    moved = 2.0 * rows * hidden * x.element_size()
    times = accel.time(lambda: make(x, scale, bias), bytes=moved, min_time=min_time)
    # Recording operators under a compiled function would compile it again: the profiler only, where it sees the device.
    named = accel.device.type != "cpu"
    metrics = figures(accel, lambda: make(x, scale, bias), times, correct, cold=cold, moved=moved, named=named)
    metrics["ratio"] = statistics.median(times) / beside(accel, lambda: _steps(x, scale, bias), min_time)
    return metrics
