"""Timed convolutions over two or three dimensions: layouts, dilation, groups. torch is imported inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

CHECK_CHANNELS = 4


def conv(
    accel: Accelerator,
    batch: int,
    channels: int,
    out_channels: int,
    size: list[int],
    kernel: int,
    dtype: str,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    padding: int = -1,
    channels_last: bool = False,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``conv2d`` or ``conv3d``, as ``size`` has two numbers or three, with a kernel as long in every dimension.

    ``padding`` -1 keeps the size (for an odd kernel and stride 1). One corner of the first sample's first channels is held
    against float64.
    """
    import torch
    from torch.nn import functional

    positive(batch=batch, channels=channels, out_channels=out_channels, kernel=kernel, stride=stride, groups=groups)
    if len(size) not in (2, 3):
        raise BadArguments(f"size: must be two numbers (conv2d) or three (conv3d), not {size}")
    if channels % groups or out_channels % groups:
        raise BadArguments(f"groups: {groups} must divide channels ({channels}) and out_channels ({out_channels})")
    pad = dilation * (kernel - 1) // 2 if padding < 0 else padding
    convolve = functional.conv2d if len(size) == 2 else functional.conv3d
    form = torch.contiguous_format
    if channels_last:
        form = torch.channels_last if len(size) == 2 else torch.channels_last_3d
    each = channels // groups
    x = normal((batch, channels, *size), dtype, accel.device, seed).to(memory_format=form)
    shape = (out_channels, each, *(kernel,) * len(size))
    weight = normal(shape, dtype, accel.device, seed + 1, scale=math.prod(shape[1:]) ** -0.5).to(memory_format=form)

    def run() -> torch.Tensor:
        return convolve(x, weight, stride=stride, padding=pad, dilation=dilation, groups=groups)

    out, cold = accel.first(run)
    kept = min(CHECK_CHANNELS, out_channels // groups)
    corner = (slice(1), slice(kept)) + (slice(CHECK_ROWS),) * len(size)
    # The corner's last output sees no more of the input than this, and nothing of the padding behind it.
    needed = (slice(1), slice(each)) + (slice(CHECK_ROWS * stride + dilation * (kernel - 1)),) * len(size)

    def golden() -> torch.Tensor:
        some, part = x[needed].cpu().double().contiguous(), weight[:kept].cpu().double().contiguous()
        return convolve(some, part, stride=stride, padding=pad, dilation=dilation)[corner]

    correct = agrees(out[corner], golden, dtype)
    flops = 2.0 * out.numel() * math.prod(shape[1:])
    moved = float((x.numel() + weight.numel() + out.numel()) * x.element_size())
    del out
    # Fast algorithms do with fewer operations than these, so that no roof can be held against them.
    times = accel.time(run, min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold, flops=flops, moved=moved, dtype=dtype, of_roof=False)
    metrics.pop("roof_share", None)
    return metrics
