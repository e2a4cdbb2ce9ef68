"""Phases of rotary positions: scalings, the recipes that model code uses, and the device's sin and cos."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.accuracy import one_thread, twice, ulp
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision_rope import LONG_BANDS
from pytest_accel.workloads.inputs import FLOATS, positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Table = tuple[torch.Tensor, torch.Tensor]

RECIPES = ("elementwise", "matmul", "matmul_batch", "autocast", "cast_module")
SCALINGS = ("none", "linear", "ntk", "yarn")
BLIND_BELOW = 2048
#: Where 8, 11 and 16 bits of a position end, and the ends of the bands (precision.md, 12 A).
EDGES = (0, 1, 255, 256, 257, 2047, 2048, 2049, 4095, 8191, 32767, 65504, 65535, 131071, 1048575)
WINDOW = 64  # positions judged below each edge


def inverse_frequencies(dim: int, base: float, scaling: str = "none", factor: float = 4.0) -> torch.Tensor:
    """``base^(-2i/dim)`` in float64, ``[dim/2]``.

    ``linear`` divides by ``factor``; ``ntk`` raises the base to ``base * factor^(dim/(dim-2))``; ``yarn`` divides the low
    frequencies only, with a ramp between 32 turns and 1 turn of 4096 positions, as the YaRN paper has it.
    """
    import torch

    exponent = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    if scaling == "ntk":
        base = base * factor ** (dim / (dim - 2))
    plain = 1.0 / base**exponent
    if scaling == "linear":
        return plain / factor
    if scaling != "yarn":
        return plain

    def place(turns: float) -> float:
        return dim * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(place(32)), 0), min(math.ceil(place(1)), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 1)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def phase_table(
    recipe: str, cast_early: str = "none", scaling: str = "none", factor: float = 4.0
) -> Callable[..., Table]:
    """A builder ``f(positions, head_dim, base, dtype, device) -> (cos, sin)`` by one of the recipes of model code.

    ``autocast``: a matmul below an open autocast that the module switches off for itself. ``cast_module``: a module that
    was cast to the dtype as a whole and makes its frequencies anew in float32. The others as in ``rope_table``.
    """
    if recipe not in RECIPES or scaling not in SCALINGS:
        raise BadArguments(f"recipe: one of {', '.join(RECIPES)}; scaling: of {', '.join(SCALINGS)}")

    def build(positions: torch.Tensor, head_dim: int, base: float, dtype: torch.dtype, device: torch.device) -> Table:
        import torch

        from pytest_accel.workloads.rope import _phase

        inv_freq = inverse_frequencies(head_dim, base, scaling, factor).to(torch.float32).to(device)
        place = positions.to(torch.float32)
        if cast_early in ("positions", "both"):
            place = place.to(dtype).float()
        if cast_early in ("inv_freq", "both"):
            inv_freq = inv_freq.to(dtype).float()
        if recipe == "autocast":
            low = dtype if dtype in (torch.float16, torch.bfloat16) else torch.bfloat16
            with torch.autocast(device.type, dtype=low), torch.autocast(device.type, enabled=False):
                phase = _phase(place, inv_freq, "matmul")
        elif recipe == "cast_module":
            phase = _cast_module(inv_freq, place, dtype)
        else:
            phase = _phase(place, inv_freq, recipe)
        return phase.cos().to(dtype), phase.sin().to(dtype)

    return build


def _cast_module(inv_freq: torch.Tensor, place: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A module holding the frequencies as a buffer, cast to ``dtype``; it kept the float32 ones beside it."""
    import torch

    module = torch.nn.Module()
    module.register_buffer("inv_freq", inv_freq.clone())
    module.original = inv_freq
    module.to(dtype)
    if module.inv_freq.dtype != torch.float32:
        module.inv_freq = module.original
    buffer: Any = module.inv_freq
    return place[:, None] * buffer[None, :]


def rope_recipe(
    accel: Accelerator,
    dtype: str = "float32",
    head_dim: int = 128,
    base: float = 10000.0,
    recipe: str = "elementwise",
    scaling: str = "none",
    factor: float = 4.0,
    max_position: int = 1048576,
    implementation: str = "",
) -> dict[str, float | int]:
    """cos/sin tables at the edges where positions lose bits, up to a million, against float64.

    64 positions before and at each edge (256, 2048, 4096, …) are judged, so that a million positions cost no more than a
    thousand. ``implementation`` as in ``rope_table``; ``scaling`` and ``factor`` as in ``inverse_frequencies`` (an own
    implementation is compared with ``none``, ``linear``, ``ntk`` or ``yarn`` as named). Metrics and bound as in ``rope_table``.
    """
    import torch

    from pytest_accel.workloads import rope

    positive(head_dim=head_dim, max_position=max_position)
    if dtype not in FLOATS or head_dim % 2:
        raise BadArguments(f"dtype: one of {', '.join(FLOATS)}; head_dim even; got {dtype}, {head_dim}")
    if max_position < BLIND_BELOW:
        accel.note("blind", f"positions end at {max_position}: a phase in 16 bits looks right below {BLIND_BELOW}")
    build = rope._loaded(implementation) if implementation else phase_table(recipe, "none", scaling, factor)
    inv_freq = inverse_frequencies(head_dim, base, scaling, factor)
    metrics: dict[str, float | int] = {"nonfinite": 0}
    low = 0
    for band in LONG_BANDS:
        if low >= max_position:
            break
        edges = [edge for edge in EDGES if low <= edge < min(band, max_position)]
        edges.append(min(band, max_position) - 1)
        chosen = sorted(
            {place for edge in edges for place in range(max(edge - WINDOW + 1, low), edge + 1) if place < max_position}
        )
        found = rope._chunk(build, torch.tensor(chosen), inv_freq, head_dim, base, torch_dtype(dtype), accel.device)
        metrics[f"ratio_{band}"], metrics[f"error_{band}"] = found[0], found[1]
        metrics["nonfinite"] += found[2]
        low = band
    return metrics


def trigonometry(accel: Accelerator, dtype: str = "float32") -> dict[str, float | int]:
    """The device's ``sin`` and ``cos`` of exact arguments up to 2^21: the reduction of the range must not lose bits.

    Arguments are integers times powers of two, all exact in ``dtype``, so that only the functions are judged. Metrics by
    function: ``sin_ulp``, ``cos_ulp``, the largest error in ULPs of the result (at least those of 2^-10: near a zero the
    bits left are fewer); ``above_one``, results beyond 1; ``nonfinite``. A table that is right below 1e5 only is found.
    """
    import torch

    kind = torch_dtype(dtype)
    exact = torch.arange(1, 2049, dtype=torch.float64)
    values = torch.cat([exact * 2.0**power for power in range(-4, 11)]).to(kind)
    values = values[values.isfinite()].unique()
    values = torch.cat((values, -values))
    arguments = values.to(accel.device)
    metrics: dict[str, float | int] = {"nonfinite": 0, "above_one": 0}
    for name, function in (("sin", torch.sin), ("cos", torch.cos)):
        function(arguments)  # the first call of a process is not the one that is judged
        found = function(arguments).cpu().double()
        (golden,) = twice(lambda f=function: [f(values.double())])  # type: ignore[misc]
        bad = ~found.isfinite()
        with one_thread():
            unit = ulp(golden.abs().clamp(min=2.0**-10), kind)
        metrics["nonfinite"] += int(bad.sum())
        metrics["above_one"] += int((found.abs() > 1).sum())
        metrics[f"{name}_ulp"] = float(((found - golden).abs() / unit)[~bad].max())
    return metrics
