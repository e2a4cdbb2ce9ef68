"""Timed attention: prefill and decode, each back end, and ratios that hold across machines. torch is imported inside."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads.inputs import normal, positive
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, beside, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator


@dataclass(frozen=True)
class _Work:
    """Attention on inputs of one shape: what runs it, its FLOP and bytes, and whether an output of it is right."""

    run: Callable[[], torch.Tensor]
    flops: float
    moved: float
    right: Callable[[torch.Tensor], bool]


def _work(
    accel: Accelerator,
    batch: int,
    heads: int,
    kv: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    dtype: str,
    causal: bool,
    seed: int,
) -> _Work:
    import torch
    from torch.nn import functional

    q = normal((batch, heads, seq_q, head_dim), dtype, accel.device, seed)
    key = normal((batch, kv, seq_kv, head_dim), dtype, accel.device, seed + 1)
    value = normal((batch, kv, seq_kv, head_dim), dtype, accel.device, seed + 2)

    def run() -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, key, value, is_causal=causal, enable_gqa=kv != heads)

    def golden() -> torch.Tensor:
        one, keys, values = q[-1:, -1:].cpu().double(), key[-1:, -1:].cpu().double(), value[-1:, -1:].cpu().double()
        # The last query rows of the last head are enough; under causality row i sees keys up to i.
        tail = one[..., -CHECK_ROWS:, :]
        scores = tail @ keys.transpose(-1, -2) / head_dim**0.5
        if causal:
            places = torch.arange(seq_q - tail.shape[-2], seq_q)[:, None]
            scores = scores.masked_fill(torch.arange(seq_kv)[None] > places, float("-inf"))
        return scores.softmax(-1) @ values

    return _Work(
        run,
        flops=4.0 * batch * heads * seq_q * seq_kv * head_dim * (0.5 if causal else 1.0),
        moved=float(q.element_size() * head_dim * batch * (2 * heads * seq_q + 2 * kv * seq_kv)),
        right=lambda out: agrees(out[-1:, -1:, -CHECK_ROWS:], golden, dtype),
    )


def attention(
    accel: Accelerator,
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    dtype: str,
    kv_heads: int = 0,
    causal: bool = False,
    backend: str = "auto",
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``scaled_dot_product_attention``; ``kv_heads`` 0 means as many as ``heads`` (fewer: grouped queries).

    ``backend`` is auto, flash, efficient, cudnn or math; one that does not take these inputs is UNMEASURED.
    """
    positive(batch=batch, heads=heads, seq_q=seq_q, seq_kv=seq_kv, head_dim=head_dim)
    kv = _kv_heads(heads, kv_heads)
    work = _work(accel, batch, heads, kv, seq_q, seq_kv, head_dim, dtype, causal, seed)
    with _backend(backend):
        try:
            out, cold = accel.first(work.run)
        except RuntimeError as error:
            if backend != "auto" and accel.classify(error) not in (ErrorKind.OUT_OF_MEMORY, ErrorKind.POISONED):
                raise Unmeasured(f"attention backend '{backend}' does not take these inputs: {error}") from error
            raise
        correct = work.right(out)
        times = accel.time(work.run, flops=work.flops, bytes=work.moved, dtype=dtype, min_time=min_time)
        return figures(accel, work.run, times, correct, cold=cold, flops=work.flops, moved=work.moved, dtype=dtype)


def attention_ratio(
    accel: Accelerator,
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    dtype: str,
    versus: str,
    kv_heads: int = 0,
    causal: bool = False,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time attention as torch chooses to run it, and other attention in the same session; ``ratio`` is theirs.

    ``versus``: ``math`` (the back end that writes the whole matrix: a fast path is far below 1), ``mha`` (as many key and
    value heads as query heads: grouped queries read less) or ``half_dim`` (half the head_dim and twice the heads, which
    is the same arithmetic: near 1 where both have a fast kernel).
    """
    positive(batch=batch, heads=heads, seq_q=seq_q, seq_kv=seq_kv, head_dim=head_dim)
    kv = _kv_heads(heads, kv_heads)
    if versus not in ("math", "mha", "half_dim"):
        raise BadArguments(f"versus: must be math, mha or half_dim, not {versus}")
    work = _work(accel, batch, heads, kv, seq_q, seq_kv, head_dim, dtype, causal, seed)
    out, cold = accel.first(work.run)
    correct = work.right(out)
    del out
    times = accel.time(work.run, flops=work.flops, bytes=work.moved, dtype=dtype, min_time=min_time)
    metrics = figures(accel, work.run, times, correct, cold=cold, flops=work.flops, moved=work.moved, dtype=dtype)
    other = work
    if versus == "mha":
        other = _work(accel, batch, heads, heads, seq_q, seq_kv, head_dim, dtype, causal, seed)
    elif versus == "half_dim":
        other = _work(accel, batch, 2 * heads, 2 * kv, seq_q, seq_kv, head_dim // 2, dtype, causal, seed)
    with _backend("math" if versus == "math" else "auto"):
        other_right = other.right(other.run())
        metrics["ratio"] = statistics.median(times) / beside(accel, other.run, min_time)
    metrics["correct"] = "yes" if correct and other_right else "no"
    return metrics


def _kv_heads(heads: int, kv_heads: int) -> int:
    kv = kv_heads or heads
    if heads % kv:
        raise BadArguments(f"kv_heads: {kv} does not divide heads ({heads})")
    return kv


@contextlib.contextmanager
def _backend(name: str) -> Iterator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    if name == "auto":
        yield
        return
    if name not in backends:
        raise BadArguments(f"backend: must be auto, {', '.join(backends)}, not {name}")
    with sdpa_kernel(backends[name]):
        yield
