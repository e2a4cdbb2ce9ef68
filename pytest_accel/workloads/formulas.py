"""Plain formulas of what language models fuse, in the float dtype of their inputs, on the host. torch is imported inside.

Written from the papers' definitions in elementary tensor operations, so that nothing here calls what it is to judge.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """``softmax(q k^T * scale + mask) v`` for q ``[batch, heads, seq, dim]``; fewer heads of k and v are repeated.

    A bool ``mask`` is true where a key takes part; a float one is added. ``causal``: query i sees keys 0 to i, as torch
    aligns them (top left).
    """
    import torch

    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.to(q.dtype)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str = "half", sign: int = -1) -> torch.Tensor:
    """Rotate the first ``2 * cos.shape[-1]`` elements of the last dimension of x; the rest stays.

    ``half`` pairs element i with i + n (GPT-NeoX, Llama), ``interleaved`` 2i with 2i + 1 (GPT-J). cos and sin
    broadcast over x's other dimensions. ``sign`` 1 adds what a rotation subtracts.
    """
    import torch

    n = cos.shape[-1]
    turned, rest = x[..., : 2 * n], x[..., 2 * n :]
    first, second = (turned[..., :n], turned[..., n:]) if style == "half" else (turned[..., 0::2], turned[..., 1::2])
    one, two = first * cos + sign * (second * sin), second * cos + first * sin
    joined = torch.cat((one, two), dim=-1) if style == "half" else torch.stack((one, two), dim=-1).flatten(-2)
    return torch.cat((joined, rest), dim=-1)


def rotary_terms(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str = "half") -> torch.Tensor:
    """``|x1 cos| + |x2 sin|``: the terms whose difference a rotation is, S of the accuracy rule."""
    return rotary(x.abs(), cos.abs(), sin.abs(), style, sign=1)


def tables(positions: torch.Tensor, dim: int, base: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin in float64, ``[positions, dim / 2]``, of ``position * base^(-2i/dim)`` (RoFormer)."""
    import torch

    inverse = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions.double()[:, None] * inverse
    return angles.cos(), angles.sin()


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension."""
    normed = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return normed if weight is None else normed * weight


def layer_norm(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimension (variance of the population)."""
    away = x - x.mean(-1, keepdim=True)
    normed = away * (away.square().mean(-1, keepdim=True) + eps).rsqrt()
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``gate * sigmoid(gate) * up``."""
    return gate * gate.sigmoid() * up


def cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, smoothing: float = 0.0
) -> torch.Tensor:
    """One loss a row of ``[rows, classes]``: ``log sum exp - (1-s) logit[target] - s mean(logits)``, 0 where ignored."""
    top = logits.amax(-1, keepdim=True)
    log_sum = (logits - top).exp().sum(-1).log() + top[..., 0]
    kept = target != ignore_index
    chosen = logits.gather(-1, target.clamp(min=0)[:, None])[:, 0]
    loss = log_sum - (1 - smoothing) * chosen
    if smoothing:
        loss = loss - smoothing * logits.mean(-1)
    return loss * kept
