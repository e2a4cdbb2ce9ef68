"""What a fused kernel is tested against: named inputs, the plain formula over them, and its tolerance. torch is imported inside.

A suite names a formula and says in which order the kernel takes these inputs; nothing here knows a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import formulas
from pytest_accel.workloads.inputs import normal, torch_dtype
from pytest_accel.workloads.llm_ops import LOSS, ROTATED

if TYPE_CHECKING:
    import torch

    Inputs = dict[str, Any]

LAYOUTS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3)}  # where batch, heads, seq, dim stand
SIZES = {"batch": 2, "heads": 4, "kv_heads": 4, "seq": 192, "head_dim": 64, "rows": 32, "hidden": 4096, "classes": 4096}
FLAGS: dict[str, Any] = {"causal": False, "style": "half", "layout": "bhsd", "eps": 1e-5}


@dataclass(frozen=True)
class Formula:
    """Inputs on the host by name, ``compute`` over the same names (in any float dtype), the rule and S."""

    inputs: Inputs
    compute: Callable[[Inputs], torch.Tensor]
    rule: Tolerance
    magnitude: Callable[[Inputs], torch.Tensor] | None = None


def formula(name: str, dtype: str, shape: Mapping[str, Any], seed: int) -> Formula:
    """The formula ``name`` with inputs of ``shape`` (``SIZES`` and ``FLAGS`` where it says nothing).

    Raises BadArguments for a name or an entry of ``shape`` that is not known.
    """
    if name not in FORMULAS:
        raise BadArguments(f"formula: must be one of {', '.join(sorted(FORMULAS))}, not '{name}'")
    unknown = sorted(set(shape) - set(SIZES) - set(FLAGS))
    if unknown:
        raise BadArguments(f"shape: there is no '{unknown[0]}'; there are {', '.join([*SIZES, *FLAGS])}")
    wanted = {**SIZES, **FLAGS, **shape}
    if "kv_heads" not in shape and "heads" in shape:
        wanted["kv_heads"] = wanted["heads"]
    if wanted["layout"] not in LAYOUTS:
        raise BadArguments(f"shape: layout must be one of {', '.join(LAYOUTS)}, not '{wanted['layout']}'")
    return FORMULAS[name](dtype, wanted, seed)


def _random(dtype: str, seed: int, *shape: int) -> torch.Tensor:
    import torch

    return normal(shape, dtype, torch.device("cpu"), seed)


def _laid(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    return tensor.permute(LAYOUTS[layout]).contiguous()


def _plain(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    order = LAYOUTS[layout]
    return tensor.permute([order.index(i) for i in range(4)])


def _attention(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
    import torch

    queries = (s["batch"], s["heads"], s["seq"], s["head_dim"])
    keys = (s["batch"], s["kv_heads"], s["seq"], s["head_dim"])
    layout = s["layout"]
    q, k, v = (_laid(_random(dtype, seed + i, *size), layout) for i, size in enumerate((queries, keys, keys)))
    hidden = torch.ones(s["seq"], s["seq"], dtype=torch.bool).triu(1)

    def compute(x: Inputs) -> torch.Tensor:
        q, k, v = (_plain(x[name], layout) for name in "qkv")
        out = formulas.attention(q, k, v, causal=s["causal"])
        return _laid(out, layout)

    scalars = {"scale": 1 / math.sqrt(s["head_dim"]), "heads": s["heads"], "causal": s["causal"]}
    rule = tolerances.of_operator("nn.functional.scaled_dot_product_attention")
    return Formula({"q": q, "k": k, "v": v, "masked": hidden, **scalars}, compute, rule)


def _rotary(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
    import torch

    layout, style, dim = s["layout"], s["style"], s["head_dim"]
    x = _laid(_random(dtype, seed, s["batch"], s["heads"], s["seq"], dim), layout)
    inverse = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = (torch.arange(s["seq"], dtype=torch.float64)[:, None] * inverse).float()
    kind = torch_dtype(dtype)
    cos, sin = angles.double().cos().to(kind), angles.double().sin().to(kind)

    def full(table: torch.Tensor) -> torch.Tensor:
        both = torch.cat((table, table), -1) if style == "half" else table.repeat_interleave(2, -1)
        return _laid(both[None, None], layout)

    def turn(x: Inputs, sign: int) -> torch.Tensor:
        wide = _plain(x["x"].abs() if sign > 0 else x["x"], layout)
        c, d = (x[name].abs() if sign > 0 else x[name] for name in ("cos", "sin"))
        return _laid(formulas.rotary(wide, c, d, style, sign), layout)

    inputs = {"x": x, "cos": cos, "sin": sin, "cos_full": full(cos), "sin_full": full(sin), "angles_full": full(angles)}
    inputs["angles"] = _laid(angles[None, None], layout)
    return Formula(inputs, lambda given: turn(given, -1), ROTATED, lambda given: turn(given, 1))


def _norm(kind: str) -> Callable[[str, Mapping[str, Any], int], Formula]:
    def make(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
        hidden, eps = s["hidden"], s["eps"]
        weight = _random(dtype, seed + 1, hidden)
        inputs = {"x": _random(dtype, seed, s["rows"], hidden), "weight": weight, "eps": eps, "hidden": hidden}
        inputs["bias"] = _random(dtype, seed + 2, hidden)

        def compute(x: Inputs) -> torch.Tensor:
            if kind == "rms_norm":
                return formulas.rms_norm(x["x"], x["weight"], eps)
            return formulas.layer_norm(x["x"], x["weight"], x["bias"], eps)

        def size(x: Inputs) -> torch.Tensor:
            wide = x["x"]
            if kind == "rms_norm":
                return compute(x).abs()
            spread = (wide - wide.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
            return wide.abs() * (spread + eps).rsqrt() * x["weight"].abs() + x["bias"].abs()

        return Formula(inputs, compute, tolerances.of_operator(f"nn.functional.{kind}"), size)

    return make


def _swiglu(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
    import torch

    gate, up = (_random(dtype, seed + i, s["rows"], s["hidden"]) for i in range(2))

    def compute(x: Inputs) -> torch.Tensor:
        both = x["gate_up"]
        return formulas.swiglu(*both.chunk(2, dim=-1))

    rule = Tolerance(
        4.0,
        0.8,
        "peak",
        0.0,
        "silu(gate) may be rounded to the dtype before the product: half an ulp more of each",
        2.5,
    )
    return Formula({"gate_up": torch.cat((gate, up), -1), "gate": gate, "up": up}, compute, rule)


def _cross_entropy(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
    import torch

    logits = _random(dtype, seed, s["rows"], s["classes"])
    target = torch.randint(0, s["classes"], (s["rows"],), generator=torch.Generator().manual_seed(seed + 1))
    return Formula(
        {"logits": logits, "target": target}, lambda x: formulas.cross_entropy(x["logits"], x["target"]), LOSS
    )


def _matmul(dtype: str, s: Mapping[str, Any], seed: int) -> Formula:
    a, b = _random(dtype, seed, s["rows"], s["hidden"]), _random(dtype, seed + 1, s["hidden"], s["rows"])
    return Formula(
        {"a": a, "b": b, "b_transposed": b.t().contiguous()},
        lambda x: x["a"] @ x["b"],
        tolerances.of_operator("mm"),
        lambda x: x["a"].abs() @ x["b"].abs(),
    )


FORMULAS: Mapping[str, Callable[[str, Mapping[str, Any], int], Formula]] = {
    "attention": _attention,
    "rotary": _rotary,
    "rms_norm": _norm("rms_norm"),
    "layer_norm": _norm("layer_norm"),
    "swiglu": _swiglu,
    "cross_entropy": _cross_entropy,
    "matmul": _matmul,
}
