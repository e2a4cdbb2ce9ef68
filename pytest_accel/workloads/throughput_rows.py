"""Timed work along rows: norms, softmax, rotary embedding, cross-entropy, embedding; and fused against unfused.

Memory limits all of it: bytes are the least that must move. torch is imported inside.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, beside, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

EPS = 1e-6


def _timed(
    accel: Accelerator,
    run: Callable[[], torch.Tensor],
    golden: Callable[[], torch.Tensor],
    dtype: str,
    moved: float,
    min_time: float,
) -> Metrics:
    """Time ``run``, whose last rows must be those of ``golden`` in float64."""
    out, cold = accel.first(run)
    correct = agrees(out[-CHECK_ROWS:], golden, dtype)
    times = accel.time(run, bytes=moved, min_time=min_time)
    return figures(accel, run, times, correct, cold=cold, moved=moved)


def rms_norm(accel: Accelerator, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time ``rms_norm`` over ``[rows, hidden]`` with a weight; bytes are one read and one write of the input."""
    from torch.nn import functional

    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed)
    weight = normal((hidden,), dtype, accel.device, seed + 1)

    def golden() -> torch.Tensor:
        return _rms(x[-CHECK_ROWS:].cpu().double(), weight.cpu().double())

    def run() -> torch.Tensor:
        return functional.rms_norm(x, (hidden,), weight, eps=EPS)

    return _timed(accel, run, golden, dtype, 2.0 * rows * hidden * x.element_size(), min_time)


def layer_norm(accel: Accelerator, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time ``layer_norm`` over ``[rows, hidden]`` with weight and bias; bytes are one read and one write of the input."""
    from torch.nn import functional

    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed)
    weight, bias = (normal((hidden,), dtype, accel.device, seed + more) for more in (1, 2))

    def golden() -> torch.Tensor:
        return _layer(x[-CHECK_ROWS:].cpu().double(), weight.cpu().double(), bias.cpu().double())

    def run() -> torch.Tensor:
        return functional.layer_norm(x, (hidden,), weight, bias, eps=EPS)

    return _timed(accel, run, golden, dtype, 2.0 * rows * hidden * x.element_size(), min_time)


def softmax(accel: Accelerator, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time ``softmax`` over the last dimension of ``[rows, hidden]``; bytes are one read and one write."""
    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed, scale=2.0)
    moved = 2.0 * rows * hidden * x.element_size()
    return _timed(
        accel, lambda: x.softmax(-1), lambda: x[-CHECK_ROWS:].cpu().double().softmax(-1), dtype, moved, min_time
    )


def rotary(
    accel: Accelerator,
    batch: int,
    heads: int,
    seq: int,
    head_dim: int,
    dtype: str,
    base: float = 10000.0,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time the rotary embedding of ``[batch, heads, seq, head_dim]`` by halves, as models write it (not fused)."""
    import torch

    positive(batch=batch, heads=heads, seq=seq, head_dim=head_dim)
    if head_dim % 2:
        raise BadArguments(f"head_dim: must be even, not {head_dim}")
    x = normal((batch * heads, seq, head_dim), dtype, accel.device, seed)
    angles = torch.arange(seq).double()[:, None] / base ** (torch.arange(0, head_dim, 2).double() / head_dim)
    angles = torch.cat([angles, angles], -1)
    cos, sin = (table.to(torch_dtype(dtype)).to(accel.device) for table in (angles.cos(), angles.sin()))

    def golden() -> torch.Tensor:
        return rotated(x[-CHECK_ROWS:].cpu().double(), cos.cpu().double(), sin.cpu().double())

    return _timed(accel, lambda: rotated(x, cos, sin), golden, dtype, 2.0 * x.numel() * x.element_size(), min_time)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``x`` (…, seq, head_dim) turned by angles whose cosines and sines are ``[seq, head_dim]``, halves against each other."""
    import torch

    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def cross_entropy(
    accel: Accelerator, rows: int, vocab: int, dtype: str, seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time the mean cross-entropy of logits ``[rows, vocab]`` with its gradient; the gradient's last rows are checked.

    Bytes: the logits read for the loss, and read and their gradient written on the way back.
    """
    import torch
    from torch.nn import functional

    positive(rows=rows, vocab=vocab)
    logits = normal((rows, vocab), dtype, accel.device, seed, scale=2.0).requires_grad_()
    made = torch.Generator().manual_seed(seed + 1)
    targets = torch.randint(vocab, (rows,), generator=made)
    there = targets.to(accel.device)

    def run() -> torch.Tensor:
        return torch.autograd.grad(functional.cross_entropy(logits, there), logits)[0]

    def golden() -> torch.Tensor:
        some = logits.detach()[-CHECK_ROWS:].cpu().double().softmax(-1)
        some[torch.arange(len(some)), targets[-CHECK_ROWS:]] -= 1.0
        return some / rows

    return _timed(accel, run, golden, dtype, 3.0 * rows * vocab * logits.element_size(), min_time)


def embedding(
    accel: Accelerator, tokens: int, vocab: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time the look-up of ``tokens`` random rows of ``[vocab, hidden]``, which must be those rows exactly."""
    import torch
    from torch.nn import functional

    positive(tokens=tokens, vocab=vocab, hidden=hidden)
    table = normal((vocab, hidden), dtype, accel.device, seed)
    places = torch.randint(vocab, (tokens,), generator=torch.Generator().manual_seed(seed + 1))
    there = places.to(accel.device)

    def run() -> torch.Tensor:
        return functional.embedding(there, table)

    out, cold = accel.first(run)
    correct = torch.equal(out[-CHECK_ROWS:].cpu(), table.cpu()[places[-CHECK_ROWS:]])
    moved = 2.0 * tokens * hidden * table.element_size()
    times = accel.time(run, bytes=moved, min_time=min_time)
    return figures(accel, run, times, correct, cold=cold, moved=moved)


def fused(
    accel: Accelerator, op: str, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3
) -> Metrics:
    """Time torch's own ``op`` (rms_norm, layer_norm or softmax) and the same written out in its single steps.

    ``ratio``: fused over unfused, in the same session. A kernel that is fused reads and writes once; steps do so each.
    """
    from torch.nn import functional

    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed)
    weight, bias = (normal((hidden,), dtype, accel.device, seed + more) for more in (1, 2))
    one: Callable[[], torch.Tensor]
    steps: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    if op == "rms_norm":
        one, steps = lambda: functional.rms_norm(x, (hidden,), weight, eps=EPS), lambda x, w, b: _rms(x, w)
    elif op == "layer_norm":
        one, steps = lambda: functional.layer_norm(x, (hidden,), weight, bias, eps=EPS), _layer
    elif op == "softmax":
        one, steps = lambda: x.softmax(-1), lambda x, w, b: _softmax(x)
    else:
        raise BadArguments(f"op: must be rms_norm, layer_norm or softmax, not {op}")

    def golden() -> torch.Tensor:
        return steps(x[-CHECK_ROWS:].cpu().double(), weight.cpu().double(), bias.cpu().double())

    metrics = _timed(accel, one, golden, dtype, 2.0 * rows * hidden * x.element_size(), min_time)
    times = metrics["time"]
    assert isinstance(times, list)
    metrics["ratio"] = statistics.median(times) / beside(accel, lambda: steps(x, weight, bias), min_time)
    return metrics


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight


def _layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight + bias


def _softmax(x: torch.Tensor) -> torch.Tensor:
    raised = (x - x.amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True)
