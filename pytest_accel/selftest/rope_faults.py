"""Rotary tables and rotations with known faults, and right ones computed otherwise. torch is imported inside.

Tables: ``f(positions, head_dim, base, dtype, device) -> (cos, sin)``. Rotations: ``f(x, cos, sin, layout) -> rotated``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_accel.workloads.rope_apply import plain
from pytest_accel.workloads.rope_phase import inverse_frequencies, phase_table

if TYPE_CHECKING:
    import torch

    Table = tuple[torch.Tensor, torch.Tensor]


def positions_cast(
    positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Table:
    """Positions cast to the dtype before the trigonometry."""
    return phase_table("elementwise", "positions")(positions, head_dim, base, dtype, device)


def inv_freq_cast(
    positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Table:
    """Inverse frequencies cast to the dtype before the trigonometry."""
    return phase_table("elementwise", "inv_freq")(positions, head_dim, base, dtype, device)


def off_by_one(positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device) -> Table:
    """Every position is one too large."""
    return phase_table("elementwise")(positions + 1, head_dim, base, dtype, device)


def tf32(positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device) -> Table:
    """The outer product with factors of ten bits of fraction, as TF32 has."""
    phase = _ten_bits(positions.float())[:, None] * _ten_bits(inverse_frequencies(head_dim, base).float().to(device))
    return phase.cos().to(dtype), phase.sin().to(dtype)


def _ten_bits(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    fraction, exponent = torch.frexp(tensor)
    return torch.ldexp(torch.round(fraction * 2.0**11) / 2.0**11, exponent)


def by_angle_addition(
    positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Table:
    """A right table: the phase in two parts, made on the host in float64 and rounded once."""
    angles = positions.cpu().double()[:, None] * inverse_frequencies(head_dim, base)
    return angles.cos().to(dtype).to(device), angles.sin().to(dtype).to(device)


def first_batch_only(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """All rows of a batch are turned by the first row's positions, as a fused kernel did."""
    return plain(x, cos[:1], sin[:1], layout)


def wrong_layout(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """Halves turned as pairs, or the other way round: the norm is kept."""
    return plain(x, cos, sin, "interleave" if layout == "half" else "half")


def products_in_float32(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """A right rotation: products and sum in float32, rounded once, as a fused kernel does."""
    return plain(x.float(), cos.float(), sin.float(), layout).to(x.dtype)
