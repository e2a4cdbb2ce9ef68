"""A small decoder of today's shape with random weights: RMS norm, grouped queries, rotary embedding, gated feed-forward.

Written out in plain functions of tensors, so that one code runs as prefill, as decode step, in training, and in float64 on
the host as the golden result. torch is imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive, torch_dtype
from pytest_accel.workloads.throughput_rows import EPS, rotated

if TYPE_CHECKING:
    import torch

BASE = 10000.0
Weights = dict[str, "torch.Tensor"]
Linear = Callable[[str, "torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Size:
    """The model's dimensions; ``heads`` divides ``hidden`` and ``kv_heads`` divides ``heads``."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int

    def __post_init__(self) -> None:
        positive(layers=self.layers, hidden=self.hidden, heads=self.heads, ffn=self.ffn, vocab=self.vocab)
        if self.kv_heads < 1 or self.heads % self.kv_heads or self.hidden % (2 * self.heads):
            raise BadArguments(
                f"kv_heads ({self.kv_heads}) must divide heads ({self.heads}), and twice heads hidden ({self.hidden})"
            )

    @property
    def head_dim(self) -> int:
        """Numbers of one head."""
        return self.hidden // self.heads

    def shapes(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Every weight matrix, ``[in, out]``; ``embed`` and ``lm_head`` are apart."""
        kv = self.kv_heads * self.head_dim
        yield "embed", (self.vocab, self.hidden)
        for layer in range(self.layers):
            yield f"{layer}.q", (self.hidden, self.hidden)
            yield f"{layer}.k", (self.hidden, kv)
            yield f"{layer}.v", (self.hidden, kv)
            yield f"{layer}.o", (self.hidden, self.hidden)
            yield f"{layer}.gate", (self.hidden, self.ffn)
            yield f"{layer}.up", (self.hidden, self.ffn)
            yield f"{layer}.down", (self.ffn, self.hidden)
        yield "lm_head", (self.hidden, self.vocab)

    def matrix_flops(self) -> float:
        """FLOP of the matrix products of one token, without attention and embedding."""
        return sum(2.0 * rows * columns for name, (rows, columns) in self.shapes() if name != "embed")


def weights(size: Size, dtype: str, device: torch.device) -> Weights:
    """Normal weights of variance 1/in (the embedding's 1), from the device's seeded generator."""
    import torch

    made = {}
    for name, shape in size.shapes():
        scale = 1.0 if name == "embed" else shape[0] ** -0.5
        made[name] = (torch.randn(shape, device=device) * scale).to(torch_dtype(dtype))
    return made


def angles(size: Size, positions: int, dtype: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines ``[positions, head_dim]`` of the rotary embedding, made on the host in float64."""
    import torch

    turns = torch.arange(positions).double()[:, None] / BASE ** (
        torch.arange(0, size.head_dim, 2).double() / size.head_dim
    )
    turns = torch.cat([turns, turns], -1)
    return turns.cos().to(torch_dtype(dtype)).to(device), turns.sin().to(torch_dtype(dtype)).to(device)


def hidden_states(
    size: Size,
    held: Weights,
    tokens: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    linear: Linear | None = None,
    cache: list[tuple[torch.Tensor, torch.Tensor]] | None = None,
) -> torch.Tensor:
    """``[batch, seq, hidden]`` before the last product, for tokens ``[batch, seq]`` at the positions of ``cos`` and ``sin``.

    Without ``cache`` each token sees those before it. With it (keys and values ``[batch, kv_heads, length, head_dim]`` a
    layer) the one token of each row is put in the last place, in place, and sees all. ``linear`` replaces ``x @ weight``.
    """
    from torch.nn import functional

    multiply = linear or (lambda name, x: x @ held[name])
    x = functional.embedding(tokens, held["embed"])
    batch, seq = tokens.shape

    def split(y: torch.Tensor, heads: int) -> torch.Tensor:
        return y.view(batch, seq, heads, size.head_dim).transpose(1, 2)

    for layer in range(size.layers):
        normed = functional.rms_norm(x, (size.hidden,), eps=EPS)
        q = rotated(split(multiply(f"{layer}.q", normed), size.heads), cos, sin)
        k = rotated(split(multiply(f"{layer}.k", normed), size.kv_heads), cos, sin)
        v = split(multiply(f"{layer}.v", normed), size.kv_heads)
        if cache is not None:
            keys, values = cache[layer]
            keys[:, :, -1:].copy_(k)
            values[:, :, -1:].copy_(v)
            k, v = keys, values
        seen = functional.scaled_dot_product_attention(
            q, k, v, is_causal=cache is None, enable_gqa=size.heads != size.kv_heads
        )
        x = x + multiply(f"{layer}.o", seen.transpose(1, 2).reshape(batch, seq, size.hidden))
        normed = functional.rms_norm(x, (size.hidden,), eps=EPS)
        gated = functional.silu(multiply(f"{layer}.gate", normed)) * multiply(f"{layer}.up", normed)
        x = x + multiply(f"{layer}.down", gated)
    return functional.rms_norm(x, (size.hidden,), eps=EPS)


def exact_product(held: Weights) -> Linear:
    """``x @ weight`` on the host in float64, one weight at a time, so that no second model has to be kept."""
    return lambda name, x: x @ held[name].cpu().double()
