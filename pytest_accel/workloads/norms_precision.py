"""Norms, softmax, cross-entropy, reductions and activations over value domains, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_accel.measure import tolerances_precision as rules
from pytest_accel.measure.tolerances import KAPPA, Tolerance
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive, torch_dtype
from pytest_accel.workloads.probes import Card, Probe

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Scale = Callable[..., torch.Tensor]

EPS = 1e-5
#: gelu(inf) is inf * (1 + erf(inf)) / 2: torch 2.13 gives inf in float64 and nan in float32 on the same CPU.
_NO_INF = frozenset(("gelu",))


@dataclass(frozen=True)
class _Function:
    """A function of ``x [rows, width]`` and, where ``weighted``, of a weight ``[width]``; S of its result and gradients."""

    call: Callable[..., torch.Tensor]
    scale: Scale
    grad_scale: Callable[..., Sequence[torch.Tensor | None]]
    weighted: bool = False
    rule: Tolerance = rules.ROW
    grad_rule: Tolerance = rules.ROW_GRADIENT
    may_vary: bool = True


def _functions(dtype: str) -> dict[str, _Function]:
    import torch
    from torch.nn import functional as f

    def rstd(x: torch.Tensor, centred: bool) -> torch.Tensor:
        y = x - x.mean(-1, keepdim=True) if centred else x
        return (y.square().mean(-1, keepdim=True) + EPS).rsqrt()

    def norm_scale(centred: bool) -> Scale:
        def scale(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x.abs() + (x.abs().mean(-1, keepdim=True) if centred else 0)) * rstd(x, centred) * w.abs()

        return scale

    def norm_grads(centred: bool) -> Callable[..., Sequence[torch.Tensor]]:
        def grads(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Sequence[torch.Tensor]:
            y = x - x.mean(-1, keepdim=True) if centred else x
            s = rstd(x, centred)
            # x - mean is known to a roundoff of x only, so the normalised value is as unsure as |x| rstd.
            wide, gw = (y.abs() + x.abs()) * s, (g * w).abs()
            dx = s * (gw + gw.mean(-1, keepdim=True) + wide * (gw * wide).mean(-1, keepdim=True))
            return dx, (g.abs() * wide).sum(0)

        return grads

    # A logit's own float32 roundoff makes a relative error of its size in the exponential.
    info = torch.finfo(torch_dtype(dtype))
    # g * 2 / n may be below the dtype's normal numbers, where a rounding is absolute, before it is multiplied.
    lost = float(info.smallest_normal * info.eps) / 2 / max(float(info.eps) / 2, rules.LOGIT_FLOAT32)
    wide = rules.LOGIT_FLOAT32 / max(float(torch.finfo(torch_dtype(dtype)).eps) / 2, rules.LOGIT_FLOAT32)

    def soft(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) * (1 + wide * (x.abs() + x.abs().amax(-1, keepdim=True)))

    def soft_grads(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        p = soft(x)
        return [p * (g.abs() + (p * g.abs()).sum(-1, keepdim=True))]

    def from_logarithm(x: torch.Tensor) -> torch.Tensor:
        """exp of a logarithm that was rounded to the dtype: off by the logarithm's size."""
        return soft(x) * (1 + x.log_softmax(-1).abs().nan_to_num(posinf=0.0))

    def log_soft_grads(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return [g.abs() + from_logarithm(x) * g.abs().sum(-1, keepdim=True)]

    def log_sum_grads(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return [g.abs()[:, None] * soft(x) * (1 + x.logsumexp(-1, keepdim=True).abs() + x.abs())]

    def row_size(x: torch.Tensor) -> torch.Tensor:
        return x.abs().amax(-1, keepdim=True) + math.log(max(x.shape[-1], 2))

    def entropy(x: torch.Tensor) -> torch.Tensor:
        target = (torch.arange(x.shape[0], device=x.device) * 7) % x.shape[1]
        return f.cross_entropy(x, target, reduction="none")

    def entropy_grads(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return [g.abs()[:, None] * (from_logarithm(x) + 1.0 / x.shape[1])]

    def summed(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return [g.abs()[..., None].expand_as(x)]

    def spread_grads(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        size = g.abs()[:, None] * (2 / max(x.shape[-1], 1)) + lost
        return [size * (x.abs() + x.abs().mean(-1, keepdim=True))]

    def size(x: torch.Tensor) -> torch.Tensor:
        return x.abs()

    def product(g: torch.Tensor, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return [g.abs() * (1 + x.abs())]

    element = (False, rules.ELEMENTWISE, rules.ELEMENTWISE_GRADIENT)
    product_rule = (False, rules.SUM_OF_PRODUCTS, rules.SUM_OF_PRODUCTS)
    return {
        "rms_norm": _Function(
            lambda x, w: f.rms_norm(x, (x.shape[-1],), w, EPS), norm_scale(False), norm_grads(False), True
        ),
        "layer_norm": _Function(
            lambda x, w: f.layer_norm(x, (x.shape[-1],), w, None, EPS), norm_scale(True), norm_grads(True), True
        ),
        "softmax": _Function(lambda x: x.softmax(-1), soft, soft_grads),
        "log_softmax": _Function(lambda x: x.log_softmax(-1), row_size, log_soft_grads),
        "cross_entropy": _Function(entropy, lambda x: row_size(x).squeeze(-1), entropy_grads),
        "logsumexp": _Function(lambda x: x.logsumexp(-1), lambda x: row_size(x).squeeze(-1), log_sum_grads),
        "sum": _Function(lambda x: x.sum(-1), lambda x: x.abs().sum(-1), summed, *product_rule),
        "mean": _Function(
            lambda x: x.mean(-1),
            lambda x: x.abs().mean(-1),
            lambda g, x: [s / max(x.shape[-1], 1) for s in summed(g, x)],
            *product_rule,
        ),
        "var": _Function(
            lambda x: x.var(-1, unbiased=False),
            lambda x: x.square().mean(-1) * 2,
            spread_grads,
            *product_rule,
        ),
        "vector_norm": _Function(
            lambda x: torch.linalg.vector_norm(x, dim=-1),
            lambda x: x.norm(dim=-1),
            lambda g, x: [g.abs()[:, None] * x.abs() / x.norm(dim=-1, keepdim=True).clamp(min=1e-300)],
            *product_rule,
        ),
        "cumsum": _Function(
            lambda x: x.cumsum(-1),
            lambda x: x.abs().cumsum(-1),
            lambda g, x: [g.abs().flip(-1).cumsum(-1).flip(-1)],
            rule=rules.CUMULATIVE,
            grad_rule=rules.CUMULATIVE,
        ),
        "gelu": _Function(f.gelu, size, product, *element),
        "silu": _Function(f.silu, size, product, *element),
        "swiglu": _Function(
            lambda x: f.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
            _swiglu_size,
            lambda g, x: [_swiglu_sizes(g, x)],
            rule=rules.ROW,
            grad_rule=rules.ELEMENTWISE_GRADIENT,
        ),
    }


def _swiglu_size(x: torch.Tensor) -> torch.Tensor:
    """|silu(a) b|, and what a float32 silu of a very negative number leaves, KAPPA of |a b|."""
    from torch.nn import functional as f

    a, b = x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]
    return (f.silu(a) * b).abs() + KAPPA * (a * b).abs()


def _swiglu_sizes(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    import torch

    a, b = x[:, : x.shape[1] // 2].abs(), x[:, x.shape[1] // 2 :].abs()
    return torch.cat((g.abs() * b * (1 + a), g.abs() * a), 1)


FUNCTIONS = (
    "rms_norm",
    "layer_norm",
    "softmax",
    "log_softmax",
    "cross_entropy",
    "logsumexp",
    "sum",
    "mean",
    "var",
    "vector_norm",
    "cumsum",
    "gelu",
    "silu",
    "swiglu",
)


def function_accuracy(
    accel: Accelerator,
    function: str,
    dtype: str = "bfloat16",
    rows: int = 32,
    width: int = 1000,
    backward: bool = True,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """One norm, reduction or activation of ``[rows, width]`` against float64, over value domains, forward and backward.

    Domains, each with a metric ``status_*``: ``normal``; ``large`` (50 times normal, with one row of 1000 added: sums
    that cancel); ``tiny`` (around the smallest normal number); ``equal`` (all elements of a row equal); ``nonfinite``
    (one row holds a NaN, one an inf: the other rows must not change); ``edge`` (width 1, and no rows).
    Raises BadArguments for an unknown function.
    """
    positive(rows=rows, width=width)
    known = _functions(dtype)
    if function not in known:
        raise BadArguments(f"function: one of {', '.join(FUNCTIONS)}; not {function}")
    made = known[function]
    card = Card(accel)
    for domain in ("normal", "large", "tiny", "equal", "nonfinite"):
        values = _values(domain, rows, width, dtype, seed, with_inf=function not in _NO_INF)
        card.add(_probe(domain, function, made, values, dtype, backward, seed))
    small = 2 if function == "swiglu" else 1
    card.add(_probe("edge", function, made, _values("normal", rows, small, dtype, seed), dtype, backward, seed))
    if function != "var":  # torch warns of a division by no elements, rightly
        card.add(_probe("edge", function, made, _values("normal", 0, width, dtype, seed), dtype, False, seed))
    return card.metrics()


def _values(domain: str, rows: int, width: int, dtype: str, seed: int, with_inf: bool = True) -> torch.Tensor:
    import torch

    kind = torch_dtype(dtype)
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    if domain == "large":
        x = x * 50
        x[0] += 1000
        x[1] = x[1].abs() * torch.tensor([1.0, -1.0]).repeat(width // 2 + 1)[:width]
    elif domain == "tiny":
        x = x * max(float(torch.finfo(kind).smallest_normal) * 2, 2.0**-60)
    elif domain == "equal":
        x = x[:, :1].expand(rows, width).clone()
    elif domain == "nonfinite":
        x[rows // 2, 0] = math.nan
        if with_inf:
            x[(rows // 2 + 1) % rows, width - 1] = math.inf
    return x.to(kind)


def _probe(domain: str, name: str, made: _Function, x: torch.Tensor, dtype: str, backward: bool, seed: int) -> Probe:
    import torch

    inputs = [x]
    if made.weighted:
        generator = torch.Generator().manual_seed(seed + 1)
        inputs.append((1 + 0.1 * torch.randn(x.shape[-1], generator=generator)).to(torch_dtype(dtype)))
    # A gradient at a NaN is a NaN for its row and for every sum over rows: only forward says anything there.
    wanted = tuple(range(len(inputs))) if backward and domain != "nonfinite" and not _flat(domain, name) else ()
    return Probe(
        group=domain,
        name=f"{name} of {list(x.shape)}",
        call=made.call,
        inputs=inputs,
        rule=made.rule,
        grad_rule=made.grad_rule,
        wrt=wanted,
        scale=made.scale,
        grad_scale=made.grad_scale,
        may_vary=made.may_vary,
        independent=x.shape[0],
        seed=seed,
    )


def _flat(domain: str, name: str) -> bool:
    """Where a gradient is 0/0 by its definition or a difference of equal numbers that only float64 resolves."""
    return domain == "equal" and name in ("layer_norm", "var")
