"""Convolutions judged for accuracy, forward and backward, and one of more than 2^31 bytes. torch is imported inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_accel.measure import accuracy
from pytest_accel.measure import tolerances_precision as rules
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.probes import Card, Probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Tensors = Sequence[torch.Tensor]


def conv_accuracy(
    accel: Accelerator,
    size: list[int],
    kernel: list[int],
    in_channels: int = 16,
    out_channels: int = 16,
    batch: int = 1,
    stride: int = 1,
    groups: int = 1,
    dtype: str = "bfloat16",
    channels_last: bool = False,
    backward: bool = True,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """A convolution of one, two or three dimensions (as ``size`` and ``kernel`` have) against float64, forward and backward.

    Padding keeps the size where the stride is 1. Domains, each with a metric ``status_*``: ``normal``, and ``tiny`` (inputs
    near the smallest normal number, as gradients of float16 training are). Raises BadArguments where ``size`` and
    ``kernel`` do not fit.
    """
    import torch

    positive(in_channels=in_channels, out_channels=out_channels, batch=batch, stride=stride, groups=groups)
    if len(size) != len(kernel) or len(size) not in (1, 2, 3):
        raise BadArguments(f"size and kernel: one to three numbers each, as many as each other; got {size}, {kernel}")
    padding = [width // 2 for width in kernel]
    host = torch.device("cpu")
    shape = (batch, in_channels, *size)
    weight_shape = (out_channels, in_channels // groups, *kernel)
    weight_scale = 1 / math.sqrt(in_channels // groups * math.prod(kernel))

    def call(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        form = {2: torch.channels_last, 3: torch.channels_last_3d}.get(len(size)) if channels_last else None
        if form is not None:
            x, w = x.contiguous(memory_format=form), w.contiguous(memory_format=form)
        return _convolve(x, w, b, stride, padding, groups)

    def scale(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _convolve(x.abs(), w.abs(), b.abs(), stride, padding, groups)

    def grad_scale(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Tensors:
        leaves = [part.abs().requires_grad_() for part in (x, w, b)]
        out = _convolve(leaves[0], leaves[1], leaves[2], stride, padding, groups)
        return tuple(torch.autograd.grad(out, leaves, g.abs()))

    card = Card(accel)
    for domain in ("normal", "tiny"):
        small = 1.0 if domain == "normal" else float(torch.finfo(torch_dtype(dtype)).smallest_normal) * 4
        inputs = (
            normal(shape, dtype, host, seed, max(small, 2.0**-60)),
            normal(weight_shape, dtype, host, seed + 1, weight_scale),
            normal((out_channels,), dtype, host, seed + 2, small if domain == "tiny" else 1.0),
        )
        card.add(
            Probe(
                group=domain,
                name=f"{len(size)}-dimensional, input {list(shape)}, kernel {kernel}",
                call=call,
                golden=lambda x, w, b: _convolve(x, w, b, stride, padding, groups),
                inputs=inputs,
                rule=rules.SUM_OF_PRODUCTS,
                grad_rule=rules.SUM_OF_PRODUCTS,
                wrt=(0, 1, 2) if backward else (),
                scale=scale,
                grad_scale=grad_scale,
                seed=seed,
            )
        )
    return card.metrics()


def _convolve(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, stride: int, padding: list[int], groups: int
) -> torch.Tensor:
    from torch.nn import functional

    function = (functional.conv1d, functional.conv2d, functional.conv3d)[len(padding) - 1]
    found: torch.Tensor = function(x, w, b, stride=stride, padding=padding, groups=groups)
    return found


def conv_large(
    accel: Accelerator,
    depth: int = 124,
    height: int = 1282,
    width: int = 722,
    channels: int = 16,
    dtype: str = "bfloat16",
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Conv3d with a kernel of 1x3x3 on more than 2^31 bytes (the defaults: 3.7 GB), forward and backward.

    The kernel does not mix slices, so three slices (first, middle, last) are judged against float64 and the others for
    non-finite values. The gradient of the output is zero but for those three, so that of the weight is theirs alone, and
    that of every other slice of the input must be exactly zero.
    """
    import torch

    positive(depth=depth, height=height, width=width, channels=channels)
    kind = torch_dtype(dtype)
    slices = sorted({0, depth // 2, depth - 1})
    w = normal((channels, channels, 1, 3, 3), dtype, accel.device, seed, 1 / math.sqrt(channels * 9))
    generator = torch.Generator(device=accel.device).manual_seed(seed)
    x = torch.empty((1, channels, depth, height, width), dtype=kind, device=accel.device)
    for place in range(depth):
        x[:, :, place] = torch.randn(1, channels, height, width, generator=generator, device=accel.device).to(kind)
    x.requires_grad_()
    w.requires_grad_()
    out = torch.nn.functional.conv3d(x, w, padding=(0, 1, 1))
    g = torch.zeros_like(out)
    for place in slices:
        g[:, :, place] = torch.randn(out[:, :, place].shape, generator=generator, device=accel.device).to(kind)
    grad_x, grad_w = torch.autograd.grad(out, (x, w), g)
    accel.synchronize()
    metrics: dict[str, float | int | str] = {
        "nonfinite": int((~out.detach().isfinite()).sum()) + int((~grad_x.isfinite()).sum()),
        "stray": sum(int(grad_x[:, :, place].count_nonzero()) for place in range(depth) if place not in slices),
    }
    words, worst, reasons = ["supported"], {"max_ulp": 0.0, "grad_max_ulp": 0.0}, []
    wide_w = w.detach().cpu().double()[:, :, 0]
    total_w, size_w = torch.zeros_like(wide_w), torch.zeros_like(wide_w)
    for place in slices:
        part, cotangent = (t[:, :, place].detach().cpu().double() for t in (x, g))
        y64, gx, gw = _slice(part, wide_w, cotangent)
        sy, sx, sw = _slice(part.abs(), wide_w.abs(), cotangent.abs())
        total_w, size_w = total_w + gw, size_w + sw
        for name, found, golden, size in (
            ("max_ulp", out[:, :, place], y64, sy),
            ("grad_max_ulp", grad_x[:, :, place], gx, sx),
        ):
            judged = accuracy.compare(found, golden, rule=rules.SUM_OF_PRODUCTS, magnitude=size)
            worst[name] = max(worst[name], judged.max_ulp)
            words.append(judged.word)
            reasons += [f"slice {place}, {name}: {judged.reason}"] if judged.reason else []
    judged = accuracy.compare(grad_w[:, :, 0], total_w, rule=rules.SUM_OF_PRODUCTS, magnitude=size_w)
    words.append(judged.word)
    reasons += [f"weight: {judged.reason}"] if judged.reason else []
    worst["grad_max_ulp"] = max(worst["grad_max_ulp"], judged.max_ulp)
    accel.note("found", reasons)
    from pytest_accel.workloads.catalog.shared import STATUS

    return {"status": max(words, key=STATUS.index), **metrics, **worst}


def _slice(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
    """One slice as a convolution of two dimensions in float64: result and gradients of input and weight."""
    import torch

    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    out = torch.nn.functional.conv2d(x, w, padding=1)
    grads = torch.autograd.grad(out, (x, w), g)
    return [out.detach(), *(grad.detach() for grad in grads)]
