"""Drift in use: a small decoder writes token after token with a key-value cache, against float64. torch is imported inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.accuracy import twice
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision_drift import DRIFT_BANDS
from pytest_accel.workloads.inputs import positive, torch_dtype
from pytest_accel.workloads.rope_apply import loaded, plain
from pytest_accel.workloads.rope_phase import phase_table

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Weights = dict[str, torch.Tensor]

VOCABULARY = 256
BASE = 10000.0
POINTS = 64  # of the series in the notes
SHARP = 3.0  # logits of attention spread by 3, as trained models' do: a wrong phase then moves what is attended to
MARGIN = 8.0  # a token counts as differing where float64's two best logits are apart by more than 8 mean errors


@dataclass(frozen=True)
class _Sizes:
    layers: int
    width: int
    heads: int
    kv_heads: int

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def decode_drift(
    accel: Accelerator,
    dtype: str = "bfloat16",
    tokens: int = 1024,
    first: int = 0,
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    fused: bool = True,
    cast_early: str = "none",
    table: str = "",
    implementation: str = "",
    seed: int = 0,
) -> dict[str, float | int]:
    """Decode ``tokens`` given tokens one by one on the device and compare each position's logits with float64.

    The decoder has random weights: RMSNorm, grouped-query attention with rotary positions from ``first`` on and a
    key-value cache, SwiGLU. ``fused`` uses torch's fused attention, norm and activation, else their parts. Tokens are given
    (not the model's own choice), so that one early difference does not make all later ones incomparable.
    ``cast_early`` as in ``rope_table``; ``table`` and ``implementation`` (``package.module:function``) put the user's own
    tables and rotation in, as in ``rope_scores``.

    Errors are |logits - golden| over |golden|, in roundoffs of the dtype. Metrics: ``drift_N``, their mean over the
    positions of a band that ends at N; ``growth``, the mean of the last quarter over that of the first (a right decoder
    reads near 1); ``slope``, roundoffs a thousand tokens, by least squares; ``worst``; ``nonfinite``; ``differing``, tokens whose
    best logit is another one although float64's two best are clearly apart; ``first_differing`` (``tokens`` where none is). The
    notes hold a series of 64 points for a plot.
    """
    import torch

    positive(tokens=tokens, layers=layers, width=width, heads=heads, kv_heads=kv_heads)
    sizes = _Sizes(layers, width, heads, kv_heads)
    if dtype not in ("float16", "bfloat16") or width % heads or heads % kv_heads or sizes.head_dim % 2:
        raise BadArguments(
            f"dtype: float16 or bfloat16 (a float32 phase's own rounding grows with its position); width a multiple of "
            f"heads, heads of kv_heads, head_dim even; got {dtype}, {width}, {heads}, {kv_heads}"
        )
    kind = torch_dtype(dtype)
    weights = {name: tensor.to(kind) for name, tensor in _weights(sizes, seed).items()}
    ids = torch.randint(0, VOCABULARY, (tokens,), generator=torch.Generator().manual_seed(seed + 1))
    places = torch.arange(first, first + tokens)
    wide = {name: tensor.double() for name, tensor in weights.items()}
    exact = _exact_table(places, sizes.head_dim)
    (golden,) = twice(lambda: [_whole(wide, ids, sizes, exact)])
    if table:
        from pytest_accel.workloads import rope

        build = rope._loaded(table)
    else:
        build = phase_table("elementwise", cast_early)
    rotate = loaded(implementation) if implementation else plain
    half = sizes.head_dim // 2
    cos, sin = (
        part[:, :half].to(kind) for part in build(places.to(accel.device), sizes.head_dim, BASE, kind, accel.device)
    )
    own = {name: tensor.to(accel.device) for name, tensor in weights.items()}
    with torch.no_grad():
        found = _decode(own, ids.to(accel.device), sizes, (cos, sin), rotate, fused)
    accel.synchronize()
    return _metrics(accel, found.cpu().double(), golden, kind, tokens)


def _weights(sizes: _Sizes, seed: int) -> Weights:
    """Random weights that keep activations near 1, in float32 on the CPU."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) / math.sqrt(rows)

    width, kv = sizes.width, sizes.kv_heads * sizes.head_dim
    made = {"embedding": torch.randn(VOCABULARY, width, generator=generator), "head": normal(width, VOCABULARY)}
    for layer in range(sizes.layers):
        made |= {
            f"{layer}.q": normal(width, width) * SHARP,
            f"{layer}.k": normal(width, kv),
            f"{layer}.v": normal(width, kv),
            f"{layer}.o": normal(width, width),
            f"{layer}.gate": normal(width, 2 * width),
            f"{layer}.up": normal(width, 2 * width),
            f"{layer}.down": normal(2 * width, width),
        }
        for name in ("first", "second"):
            made[f"{layer}.{name}"] = 1 + 0.1 * torch.randn(width, generator=generator)
    return made


def _exact_table(places: torch.Tensor, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    from pytest_accel.workloads.rope_phase import inverse_frequencies

    angles = places.double()[:, None] * inverse_frequencies(head_dim, BASE)
    return angles.cos(), angles.sin()


def _norm(x: torch.Tensor, weight: torch.Tensor, fused: bool) -> torch.Tensor:
    from torch.nn import functional

    if fused:
        return functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)
    wide = x if x.element_size() == 8 else x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()).to(x.dtype) * weight


def _feed(x: torch.Tensor, w: Weights, layer: int, fused: bool) -> torch.Tensor:
    from torch.nn import functional

    gate, up = x @ w[f"{layer}.gate"], x @ w[f"{layer}.up"]
    active = functional.silu(gate) if fused else gate * gate.sigmoid()
    return (active * up) @ w[f"{layer}.down"]


def _heads(x: torch.Tensor, count: int) -> torch.Tensor:
    """``[length, width]`` as ``[1, heads, length, head_dim]``."""
    return x.unflatten(-1, (count, -1)).transpose(0, 1)[None]


def _whole(w: Weights, ids: torch.Tensor, sizes: _Sizes, table: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Logits ``[tokens, vocabulary]`` of all positions at once, by the definitions, in the weights' dtype."""
    import torch

    x = w["embedding"][ids]
    length = len(ids)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    for layer in range(sizes.layers):
        y = _norm(x, w[f"{layer}.first"], False)
        q = plain(_heads(y @ w[f"{layer}.q"], sizes.heads), table[0][None], table[1][None], "half")
        k = plain(_heads(y @ w[f"{layer}.k"], sizes.kv_heads), table[0][None], table[1][None], "half")
        v = _heads(y @ w[f"{layer}.v"], sizes.kv_heads)
        k, v = (part.repeat_interleave(sizes.heads // sizes.kv_heads, 1) for part in (k, v))
        logits = (q @ k.transpose(-1, -2) / math.sqrt(sizes.head_dim)).masked_fill(future, -math.inf)
        x = x + (logits.softmax(-1) @ v)[0].transpose(0, 1).flatten(1) @ w[f"{layer}.o"]
        x = x + _feed(_norm(x, w[f"{layer}.second"], False), w, layer, False)
    return x @ w["head"]


def _decode(
    w: Weights,
    ids: torch.Tensor,
    sizes: _Sizes,
    table: tuple[torch.Tensor, torch.Tensor],
    rotate: Callable[..., torch.Tensor],
    fused: bool,
) -> torch.Tensor:
    """Logits ``[tokens, vocabulary]``, one position after the other, keys and values kept in a cache."""
    import torch

    length = len(ids)
    some = w["embedding"]
    cache: list[Any] = [
        torch.zeros(2, 1, sizes.kv_heads, length, sizes.head_dim, dtype=some.dtype, device=some.device)
        for _ in range(sizes.layers)
    ]
    out = []
    rows = some[ids]
    for place in range(length):
        x = rows[place : place + 1]
        cos, sin = table[0][None, place : place + 1], table[1][None, place : place + 1]
        for layer in range(sizes.layers):
            y = _norm(x, w[f"{layer}.first"], fused)
            q = rotate(_heads(y @ w[f"{layer}.q"], sizes.heads), cos, sin, "half")
            cache[layer][0, :, :, place] = rotate(_heads(y @ w[f"{layer}.k"], sizes.kv_heads), cos, sin, "half")[
                :, :, 0
            ]
            cache[layer][1, :, :, place] = _heads(y @ w[f"{layer}.v"], sizes.kv_heads)[:, :, 0]
            seen = _attend(q, cache[layer][0, :, :, : place + 1], cache[layer][1, :, :, : place + 1], fused)
            x = x + seen[0].transpose(0, 1).flatten(1) @ w[f"{layer}.o"]
            x = x + _feed(_norm(x, w[f"{layer}.second"], fused), w, layer, fused)
        out.append(x @ w["head"])
    return torch.cat(out)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, fused: bool) -> torch.Tensor:
    from torch.nn import functional

    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = (part.repeat_interleave(group, 1) for part in (k, v))
    if fused:
        return functional.scaled_dot_product_attention(q, k, v)
    logits = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return logits.float().softmax(-1).to(q.dtype) @ v


def _metrics(
    accel: Accelerator, found: torch.Tensor, golden: torch.Tensor, kind: torch.dtype, tokens: int
) -> dict[str, float | int]:
    import torch

    roundoff = float(torch.finfo(kind).eps) / 2
    errors = ((found - golden).norm(dim=1) / golden.norm(dim=1) / roundoff).nan_to_num(nan=math.inf)
    quarter = max(1, tokens // 4)
    metrics: dict[str, float | int] = {
        "nonfinite": int((~found.isfinite()).sum()),
        "worst": float(errors.max()),
        "growth": float(errors[-quarter:].mean() / errors[:quarter].mean()),
    }
    places = torch.arange(tokens, dtype=torch.float64) / 1000
    centred = places - places.mean()
    metrics["slope"] = float((centred * (errors - errors.mean())).sum() / centred.square().sum().clamp(min=1e-12))
    low = 0
    for band in DRIFT_BANDS:
        if low >= tokens:
            break
        metrics[f"drift_{band}"] = float(errors[low:band].mean())
        low = band
    best = golden.topk(2, dim=1).values
    noise = (found - golden).abs().mean(dim=1)
    clear = (best[:, 0] - best[:, 1]) > MARGIN * noise.nan_to_num(nan=0.0)
    different = found.nan_to_num(nan=-math.inf).argmax(1) != golden.argmax(1)
    first = different.nonzero()
    metrics["differing"] = int((different & clear).sum())
    metrics["first_differing"] = int(first[0]) if len(first) else tokens
    step = max(1, tokens // POINTS)
    series = [float(errors[i : i + step].mean()) for i in range(0, tokens, step)]
    accel.note(
        "series",
        {"unit": "roundoffs", "every": step, "values": [round(v, 3) if math.isfinite(v) else "inf" for v in series]},
    )
    return metrics
