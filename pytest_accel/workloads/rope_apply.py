"""Rotary positions applied to queries and keys: products, norm, scores at long distance. torch is imported inside."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.tolerances_precision import ROTARY
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision_rope import DISTANCES
from pytest_accel.workloads.inputs import FLOATS, normal, positive, torch_dtype
from pytest_accel.workloads.probes import Card, Probe
from pytest_accel.workloads.rope_phase import BLIND_BELOW, inverse_frequencies, phase_table

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Apply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, str], torch.Tensor]

LAYOUTS = ("half", "interleave")
POSITIONS = ("plain", "per_batch", "grid", "sections")
SHIFTS = (0, 4096, 32768)


def rope_apply(
    accel: Accelerator,
    dtype: str = "bfloat16",
    head_dim: int = 128,
    rotary_dim: int = 0,
    layout: str = "half",
    positions: str = "plain",
    table_dtype: str = "",
    strided: bool = False,
    first: int = 4096,
    length: int = 128,
    base: float = 10000.0,
    implementation: str = "",
    backward: bool = True,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Rotate queries ``[2, 4, length, head_dim]`` on the device with unit-circle tables, against float64.

    Both use one table, rounded to ``table_dtype`` (default: ``dtype``), so this judges the products alone; the tables
    are ``rope_table``'s and ``rope_recipe``'s work. ``rotary_dim`` (0: all of ``head_dim``) rotates a leading part.
    ``positions`` start at ``first``: ``plain``, ``per_batch`` (each row of the batch its own), ``grid`` (two axes, half
    of the dimensions each), ``sections`` (three axes in turn, as multimodal models have). ``strided`` takes a
    transposed view as model code does. ``implementation`` (``package.module:function``) judges
    ``f(x, cos, sin, layout) -> rotated`` instead: x ``[batch, heads, length, head_dim]``, tables
    ``[batch, length, rotary_dim/2]`` on the device.

    Metrics: those of every judged call, and ``norm``, the largest change of a rotated part's norm over what roundings of
    table and result allow. Raises BadArguments for arguments that contradict each other.
    """
    import torch

    rotary = rotary_dim or head_dim
    positive(head_dim=head_dim, rotary=rotary, length=length)
    if layout not in LAYOUTS or positions not in POSITIONS or rotary % 2 or rotary > head_dim or dtype not in FLOATS:
        raise BadArguments(
            f"layout: one of {', '.join(LAYOUTS)}; positions: of {', '.join(POSITIONS)}; rotary_dim even, at most "
            f"head_dim; got {layout}, {positions}, {rotary}, {head_dim}, dtype {dtype}"
        )
    if first + length < BLIND_BELOW:
        accel.note("blind", f"positions end at {first + length}: use at least 4096, real tables turn slowly below")
    apply = loaded(implementation) if implementation else plain
    kind, table_kind = torch_dtype(dtype), torch_dtype(table_dtype or dtype)
    angles = _angles(positions, first, length, rotary, base)
    cos, sin = angles.cos().to(table_kind), angles.sin().to(table_kind)
    x = normal((2, 4, length, head_dim), dtype, torch.device("cpu"), seed)

    def call(value: torch.Tensor) -> torch.Tensor:
        if strided:  # [batch, length, heads, head_dim] in memory, seen as [batch, heads, length, head_dim]
            value = value.transpose(1, 2).contiguous().transpose(1, 2)
        out = apply(value, cos.to(value.device), sin.to(value.device), layout)
        return out.to(kind)

    def golden(value: torch.Tensor) -> torch.Tensor:
        return plain(value, cos.to(value.dtype), sin.to(value.dtype), layout)

    card = Card(accel)
    card.add(
        Probe(
            group="rotated",
            name=f"{layout}, head_dim {head_dim}, rotary {rotary}, positions {positions}",
            call=call,
            golden=golden,
            inputs=(x,),
            rule=ROTARY,
            grad_rule=ROTARY,
            wrt=(0,) if backward else (),
            scale=lambda value: _sizes(value, cos.double(), sin.double(), layout),
            grad_scale=lambda g, value: [_sizes(g, cos.double(), sin.double(), layout)],
            may_vary=False,
            seed=seed,
        )
    )
    return {**card.metrics(), "norm": _norm(call(x.to(accel.device)).cpu(), x, rotary, table_kind)}


def plain(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """The rotation as model code writes it: ``x1*c - x2*s`` and ``x2*c + x1*s``, the rest of ``head_dim`` untouched.

    ``x``: ``[batch, heads, length, head_dim]``; tables ``[batch, length, rotary/2]``, a batch of one serves all.
    """
    import torch

    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    if layout == "half":
        a, b = turned[..., :half], turned[..., half:]
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((out, rest.to(out.dtype)), -1) if rest.shape[-1] else out


def _sizes(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """S: |a*cos| + |b*sin| of each element; 0 where nothing is rotated."""
    import torch

    half = cos.shape[-1]
    x, cos, sin = x.abs(), cos.abs()[:, None], sin.abs()[:, None]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    if layout == "half":
        a, b = turned[..., :half], turned[..., half:]
        out = torch.cat((a * cos + b * sin, b * cos + a * sin), -1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((a * cos + b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((out, torch.zeros_like(rest)), -1)


def _angles(positions: str, first: int, length: int, rotary: int, base: float) -> torch.Tensor:
    """Angles ``[1 or 2, length, rotary/2]`` in float64."""
    import torch

    inv_freq = inverse_frequencies(rotary, base)
    place = torch.arange(first, first + length, dtype=torch.float64)
    if positions == "plain":
        return (place[:, None] * inv_freq)[None]
    if positions == "per_batch":
        return torch.stack((place, place + 1371))[..., None] * inv_freq
    width = max(1, int(math.sqrt(length)))
    index = torch.arange(length)
    row, column = first + index // width, first // 2 + index % width
    axes = (row.double(), column.double()) if positions == "grid" else (place, row.double(), column.double())
    owner = torch.arange(rotary // 2) * len(axes) // (rotary // 2) if positions == "grid" else torch.arange(rotary // 2)
    chosen = torch.stack(axes)[owner % len(axes)].transpose(0, 1)
    return (chosen * inv_freq)[None]


def _norm(out: torch.Tensor, x: torch.Tensor, rotary: int, table: torch.dtype) -> float:
    """Largest | |Rx|/|x| - 1 | of the rotated part over 2 (u_table + u_result): a rotation keeps the norm."""
    import torch

    before = x.double()[..., :rotary].norm(dim=-1)
    after = out.double()[..., :rotary].norm(dim=-1)
    allowed = float(torch.finfo(table).eps + torch.finfo(out.dtype).eps)
    return float(((after / before - 1).abs() / allowed).max())


def rope_scores(
    accel: Accelerator,
    dtype: str = "float32",
    head_dim: int = 128,
    base: float = 10000.0,
    recipe: str = "elementwise",
    cast_early: str = "none",
    table: str = "",
    implementation: str = "",
    seed: int = 0,
) -> dict[str, float | int]:
    """Scores of one query and key at distances of 1 to 16384, both shifted by up to 32768: only the distance may matter.

    Tables and rotations run on the device in ``dtype``; ``recipe`` and ``cast_early`` as in ``rope_table``; ``table``
    (``package.module:function``) builds the tables instead, as ``rope_table``'s ``implementation``, and
    ``implementation`` rotates, as in ``rope_apply``. Near distances hide a phase in 16 bits: at distance 17 a bfloat16
    ``inv_freq`` reads as bfloat16 rounding does.

    Metrics: ``ratio_D``, the largest error of the score at distance D over the derived bound: each pair of dimensions
    is off by its phase, ``(theta_m + theta_n) 2^-23``, plus four roundings of the tables' and the result's dtype, weighted
    by |q_j||k_j|. ``error_D`` is that error over |q||k|.
    """
    import torch

    from pytest_accel.workloads import rope

    positive(head_dim=head_dim)
    if dtype not in FLOATS or head_dim % 2:
        raise BadArguments(f"dtype: one of {', '.join(FLOATS)}; head_dim even; got {dtype}, {head_dim}")
    build = rope._loaded(table) if table else phase_table(recipe, cast_early)
    apply = loaded(implementation) if implementation else plain
    kind = torch_dtype(dtype)
    q, k = (normal((16, head_dim), dtype, torch.device("cpu"), seed + i) for i in range(2))
    half = head_dim // 2
    pairs = (q.double()[:, :half].square() + q.double()[:, half:].square()).sqrt()
    pairs = pairs * (k.double()[:, :half].square() + k.double()[:, half:].square()).sqrt()
    lengths = q.double().norm(dim=-1) * k.double().norm(dim=-1)
    inv_freq = inverse_frequencies(head_dim, base)
    metrics: dict[str, float | int] = {}
    for distance in DISTANCES:
        near = torch.tensor(SHIFTS)
        far = near + distance
        golden = _score(q.double(), k.double(), _exact(far, inv_freq), _exact(near, inv_freq), plain)
        tables = []
        for place in (far, near):
            cos, sin = build(place.to(accel.device), head_dim, base, kind, accel.device)
            tables.append((cos[:, :half], sin[:, :half]))
        found = _score(q.to(accel.device), k.to(accel.device), tables[0], tables[1], apply).cpu().double()
        phase = (near + far).double()[None, :, None] * inv_freq * 2.0**-23
        roundings = 4 * float(torch.finfo(kind).eps) + 4 * 2.0**-23
        bound = (pairs[:, None, :] * (phase + roundings)).sum(-1)
        error = (found - golden).abs()
        worst = float((error / bound).max())
        metrics[f"ratio_{distance}"] = worst if not math.isnan(worst) else math.inf
        metrics[f"error_{distance}"] = float((error / lengths[:, None]).nan_to_num(nan=math.inf).max())
    return metrics


def _exact(place: torch.Tensor, inv_freq: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    angles = place.double()[:, None] * inv_freq
    return angles.cos(), angles.sin()


def _score(q: torch.Tensor, k: torch.Tensor, far: Any, near: Any, apply: Apply) -> torch.Tensor:
    """Scores ``[rows, shifts]``: q rotated to the far positions, k to the near ones; products summed in float32 at least."""
    count = far[0].shape[0]
    turned = [
        apply(x[:, None, None, :].expand(-1, 1, count, -1), cos[None], sin[None], "half")[:, 0]
        for x, (cos, sin) in ((q, far), (k, near))
    ]
    a, b = (part if part.element_size() == 8 else part.float() for part in turned)
    return (a * b).sum(-1)


def loaded(name: str) -> Any:
    """The function ``package.module:function``. Raises BadArguments where it cannot be had."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise BadArguments(f"implementation: write it as package.module:function, not '{name}'")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadArguments(f"implementation: '{name}' cannot be imported: {error}") from error
