"""A small decoder's time to the first token, and its decode step, eager and as a replayed graph. torch is imported inside."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.decoder import Size, angles, exact_product, hidden_states, weights
from pytest_accel.workloads.inputs import positive
from pytest_accel.workloads.throughput_figures import CHECK_ROWS, Metrics, agrees, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator


def decoder_prefill(
    accel: Accelerator,
    batch: int,
    prompt: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    dtype: str,
    min_time: float = 0.3,
) -> Metrics:
    """Time a prompt of ``[batch, prompt]`` tokens up to its first new token: ``time`` is the device's, ``ttft`` the user's.

    ``ttft``: milliseconds from the call to the finished token by the host's clock, warm; ``tokens_per_s``: prompt tokens.
    The states of the first tokens, which see no later ones, are held against float64.
    """
    import torch

    size = Size(layers, hidden, heads, kv_heads, ffn, vocab)
    positive(batch=batch, prompt=prompt)
    held = weights(size, dtype, accel.device)
    tokens = _tokens(accel, batch, prompt, vocab)
    cos, sin = angles(size, prompt, dtype, accel.device)

    def run() -> torch.Tensor:
        last = hidden_states(size, held, tokens, cos, sin)[:, -1]
        return (last @ held["lm_head"]).argmax(-1)

    def golden() -> torch.Tensor:
        few = slice(min(prompt, CHECK_ROWS))
        embedded = {"embed": held["embed"].cpu().double()}
        turned = cos[few].cpu().double(), sin[few].cpu().double()
        return hidden_states(size, embedded, tokens[:1, few].cpu(), *turned, linear=exact_product(held))

    with torch.no_grad():
        states = hidden_states(size, held, tokens, cos, sin)[:1, : min(prompt, CHECK_ROWS)]
        correct = agrees(states, golden, dtype)
        first, cold = accel.first(run)
        correct = correct and bool(((first >= 0) & (first < vocab)).all())
        # 2 for the multiplication and the addition, 2 products, half of the pairs: causal.
        flops = batch * prompt * (size.matrix_flops() + 2.0 * layers * hidden * prompt)
        flops -= batch * (prompt - 1) * 2.0 * hidden * vocab  # only the last position meets the vocabulary
        times = accel.time(run, flops=flops, dtype=dtype, min_time=min_time)
        metrics = figures(accel, run, times, correct, cold=cold, flops=flops, dtype=dtype)
        ttft = statistics.median([accel.first(run)[1] for _ in range(7)])
    metrics["ttft"] = ttft * 1e-3
    metrics["tokens_per_s"] = batch * prompt / ttft * 1e6
    return metrics


def decoder_decode(
    accel: Accelerator,
    batch: int,
    context: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    dtype: str,
    graph: bool = False,
    min_time: float = 0.3,
) -> Metrics:
    """Time one decode step of ``batch`` rows whose caches hold ``context`` tokens: a token in, the next one out.

    ``graph``: the step is captured and replayed in one launch (refused where the platform has no graphs, so that nothing
    else is timed under that name), and ``ratio`` is its time over the eager step's, both by the host's clock with the wait.
    ``tokens_per_s``: new tokens of all rows by the host's clock. The states are held against float64.
    """
    import torch

    size = Size(layers, hidden, heads, kv_heads, ffn, vocab)
    positive(batch=batch, context=context)
    held = weights(size, dtype, accel.device)
    tokens = _tokens(accel, batch, 1, vocab)
    cos, sin = (table[-1:] for table in angles(size, context, dtype, accel.device))
    shape = (batch, kv_heads, context, size.head_dim)
    kind = held["embed"].dtype
    halves = [torch.randn(shape, device=accel.device).to(kind) for _ in range(2 * layers)]
    cache = list(zip(halves[::2], halves[1::2], strict=True))

    def states() -> torch.Tensor:
        return hidden_states(size, held, tokens, cos, sin, cache=cache)

    def step() -> torch.Tensor:
        return (states()[:, -1] @ held["lm_head"]).argmax(-1)

    def golden() -> torch.Tensor:
        embedded = {"embed": held["embed"].cpu().double()}
        alone = [(keys[:1].cpu().double(), values[:1].cpu().double()) for keys, values in cache]
        turned = cos.cpu().double(), sin.cpu().double()
        return hidden_states(size, embedded, tokens[:1].cpu(), *turned, linear=exact_product(held), cache=alone)

    with torch.no_grad():
        correct = agrees(states()[:1], golden, dtype)
        eager, cold = accel.first(step)
        run = _replayed(accel, step, eager) if graph else step
        if graph:
            correct = correct and bool((run() == eager).all())
        cached = batch * layers * 2 * kv_heads * context * size.head_dim
        moved = float((size.matrix_flops() / 2 + cached) * held["embed"].element_size())
        times = accel.time(run, bytes=moved, min_time=min_time)
        metrics = figures(accel, run, times, correct, cold=cold, moved=moved)
        wall = statistics.median([accel.first(run)[1] for _ in range(15)])
        if graph:
            metrics["ratio"] = wall / statistics.median([accel.first(step)[1] for _ in range(15)])
    metrics["tokens_per_s"] = batch / wall * 1e6
    return metrics


def _replayed(accel: Accelerator, step: Callable[[], torch.Tensor], like: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The step as a replayed graph, which puts its tokens into one tensor shaped ``like`` another's."""
    import torch

    kept = torch.zeros_like(like)
    replay = accel.graph(lambda: kept.copy_(step()))
    if replay is None:
        raise BadArguments(f"graph: {accel.platform} has no graphs; keep the case to platforms that have them")

    def run() -> torch.Tensor:
        replay()
        return kept

    return run


def _tokens(accel: Accelerator, batch: int, length: int, vocab: int) -> torch.Tensor:
    import torch

    return torch.randint(vocab, (batch, length), generator=torch.Generator().manual_seed(0)).to(accel.device)
