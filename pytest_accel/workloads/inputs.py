"""Inputs and dtype names that several workloads share. torch is imported inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments

if TYPE_CHECKING:
    import torch

FLOATS = ("float64", "float32", "float16", "bfloat16")


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype called ``name``. Raises BadArguments for a name that torch does not know."""
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise BadArguments(f"dtype: torch knows no '{name}'; write it as float32, float16, bfloat16, …")
    return found


def positive(**sizes: int) -> None:
    """Raises BadArguments where a size is not a whole number from 1."""
    for name, value in sizes.items():
        if value < 1:
            raise BadArguments(f"{name}: must be at least 1, not {value}")


def normal(shape: tuple[int, ...], dtype: str, device: torch.device, seed: int, scale: float = 1.0) -> torch.Tensor:
    """Normal numbers, equal on every device: made on the CPU in float32 from ``seed``, rounded to ``dtype``, then
    moved.

    Above 2^24 elements they are made on the device instead (also never zeros), since only speed is measured there.
    """
    import torch

    count = 1
    for size in shape:
        count *= size
    if count > 2**24:
        where = torch.Generator(device=device).manual_seed(seed)
        return (torch.randn(shape, dtype=torch.float32, device=device, generator=where) * scale).to(torch_dtype(dtype))
    made = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, dtype=torch.float32, generator=made) * scale).to(torch_dtype(dtype)).to(device)
