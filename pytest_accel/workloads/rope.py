"""Rotary position tables: the error of cos and sin by position band. torch is imported inside."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.accuracy import one_thread, ulp
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision import BANDS
from pytest_accel.workloads.inputs import FLOATS, positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Table = tuple[torch.Tensor, torch.Tensor]

RECIPES = ("elementwise", "matmul", "matmul_batch")
CASTS = ("none", "positions", "inv_freq", "both")
CHUNK = 4096
BLIND_BELOW = 2048


def rope_table(
    accel: Accelerator,
    dtype: str = "float32",
    head_dim: int = 128,
    base: float = 10000.0,
    max_position: int = 131072,
    recipe: str = "elementwise",
    cast_early: str = "none",
    implementation: str = "",
) -> dict[str, float | int]:
    """Build cos/sin tables on the device and compare them with float64, by band of positions.

    ``recipe`` says how the phase is made in float32: ``elementwise`` product, ``matmul`` as an outer product,
    ``matmul_batch`` the same for a batch of two. ``cast_early`` casts positions, inverse frequencies or both to
    ``dtype`` before the trigonometry: a known fault, kept to show that it is found. ``implementation``
    (``package.module:function``) measures ``f(positions, head_dim, base, dtype, device) -> (cos, sin)`` instead:
    positions int64 ``[P]`` on the device, tables ``[P, head_dim/2]`` or ``[P, head_dim]`` with the halves repeated.

    Metrics by band (the band's upper end, exclusive): ``ratio_N``, the largest error over the bound
    ``theta*2^-23 + 2^-23 + ulp(dtype)/2`` with theta = position * inv_freq (the float32 phase's own rounding, the
    function's, and the table's), and ``error_N``, the largest absolute error. ``nonfinite`` counts entries.
    """
    positive(head_dim=head_dim, max_position=max_position)
    if head_dim % 2:
        raise BadArguments(f"head_dim: must be even, not {head_dim}")
    if dtype not in FLOATS or recipe not in RECIPES or cast_early not in CASTS:
        raise BadArguments(
            f"dtype: one of {', '.join(FLOATS)}; recipe: of {', '.join(RECIPES)}; cast_early: of {', '.join(CASTS)}; "
            f"got {dtype}, {recipe}, {cast_early}"
        )
    build = _loaded(implementation) if implementation else _recipe(recipe, cast_early)
    if max_position < BLIND_BELOW:
        accel.note(
            "blind",
            f"positions end at {max_position}: a phase in 16 bits looks right below {BLIND_BELOW}, use at least 4096",
        )
    import torch

    kind = torch_dtype(dtype)
    inv_freq = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    bands = [band for band in BANDS if band <= max_position] or [BANDS[0]]
    if bands[-1] < max_position and bands[-1] != BANDS[-1]:
        bands.append(BANDS[len(bands)])
    metrics: dict[str, float | int] = {"nonfinite": 0}
    low = 0
    for band in bands:
        ratio = error = 0.0
        for start in range(low, min(band, max_position), CHUNK):
            positions = torch.arange(start, min(start + CHUNK, band, max_position))
            found = _chunk(build, positions, inv_freq, head_dim, base, kind, accel.device)
            ratio, error = max(ratio, found[0]), max(error, found[1])
            metrics["nonfinite"] += found[2]
        metrics[f"ratio_{band}"], metrics[f"error_{band}"] = ratio, error
        low = band
    return metrics


def _chunk(
    build: Callable[..., Table],
    positions: torch.Tensor,
    inv_freq: torch.Tensor,
    head_dim: int,
    base: float,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[float, float, int]:
    """Worst ratio to the bound, worst absolute error, count of non-finite entries (each reads as an infinite error)."""
    import torch

    tables = build(positions.to(device), head_dim, base, dtype, device)
    theta = positions.double()[:, None] * inv_freq[None]
    phase = theta * 2.0**-23 + 2.0**-23
    ratio = error = 0.0
    nonfinite = 0
    for table, function in zip(tables, (torch.cos, torch.sin), strict=True):
        if table.dim() != 2 or table.shape[0] != len(positions) or table.shape[1] not in (head_dim // 2, head_dim):
            raise BadArguments(
                f"implementation: a table has shape {list(table.shape)}, not [{len(positions)}, {head_dim // 2}]"
            )
        for half in table.detach().cpu().double().split(head_dim // 2, dim=1):
            with one_thread():
                golden = function(theta)
            delta = (half - golden).abs_()
            bad = int((~delta.isfinite()).sum())
            if bad:
                nonfinite += bad
                ratio = error = math.inf
                continue
            # The table rounds a value that is off by the phase's error already, so its step may be the next binade's.
            bound = phase + ulp(golden.abs() + phase, table.dtype) / 2 if table.dtype != torch.float64 else phase
            error = max(error, float(delta.max()))
            ratio = max(ratio, float((delta / bound).max()))
    return ratio, error, nonfinite


def _recipe(recipe: str, cast_early: str) -> Callable[..., Table]:
    def build(positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device) -> Table:
        import torch

        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        inv_freq = (1.0 / base**exponent).to(torch.float32).to(device)
        place = positions.to(torch.float32)
        if cast_early in ("positions", "both"):
            place = place.to(dtype)
        if cast_early in ("inv_freq", "both"):
            inv_freq = inv_freq.to(dtype)
        if cast_early != "both":
            place, inv_freq = place.float(), inv_freq.float()
        phase = _phase(place, inv_freq, recipe)
        return phase.cos().to(dtype), phase.sin().to(dtype)

    return build


def _phase(place: torch.Tensor, inv_freq: torch.Tensor, recipe: str) -> torch.Tensor:
    if recipe == "elementwise":
        return place[:, None] * inv_freq[None, :]
    batch = 2 if recipe == "matmul_batch" else 1
    # As model code does it: [batch, head_dim/2, 1] @ [batch, 1, positions], transposed.
    left = inv_freq[None, :, None].expand(batch, -1, 1)
    phase: Any = (left @ place[None, None, :].expand(batch, 1, -1)).transpose(1, 2)
    return phase[batch - 1]


def _loaded(name: str) -> Callable[..., Table]:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise BadArguments(f"implementation: write it as package.module:function, not '{name}'")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise BadArguments(f"implementation: '{name}' cannot be imported: {error}") from error
