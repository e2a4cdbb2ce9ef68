"""Attention judged for accuracy: each back end, mask and value domain, forward and backward. torch is imported inside."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.tolerances import ACCUMULATE_FLOAT32
from pytest_accel.measure.tolerances_precision import ATTENTION, ATTENTION_GRADIENT
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive, torch_dtype
from pytest_accel.workloads.probes import NO_KERNEL, Card, Probe

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

BACKENDS = {
    "auto": None,
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "mem_efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
MASKS = ("none", "bool", "float", "causal")
NEGATIVE = -120.0  # logits so low that exp without the row's maximum is 0, as after a long training run


@dataclass(frozen=True)
class _Shape:
    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int


def attention_accuracy(
    accel: Accelerator,
    backend: str = "auto",
    mask: str = "none",
    dtype: str = "bfloat16",
    heads: int = 2,
    kv_heads: int = 2,
    head_dim: int = 64,
    lengths: list[int] | None = None,
    backward: bool = True,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """``scaled_dot_product_attention`` on one back end against float64, over value domains and lengths.

    ``lengths`` should hold one that is 0 and one that is 64 modulo 128 (default 128 and 192). Domains, each with a
    metric ``status_*``: ``normal``; ``large`` (logits of ±60 and values of 50); ``tiny`` (inputs near the smallest
    normal number); ``equal`` (all inputs equal); ``negative`` (all logits near -120); ``masked`` (some rows see
    nothing: the others must be right); ``nan`` (a NaN in one query row must stay in that row); ``edge`` (length 1, and
    no queries). The word ``masked_rows`` says what a row gets that sees nothing: zeros, nan, or other.
    """
    positive(heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    if backend not in BACKENDS or mask not in MASKS or heads % kv_heads:
        raise BadArguments(
            f"backend: one of {', '.join(BACKENDS)}; mask: of {', '.join(MASKS)}; heads a multiple of kv_heads; "
            f"got {backend}, {mask}, {heads}, {kv_heads}"
        )
    card = Card(accel)
    plan = _Plan(backend, mask, dtype, backward, seed)
    chosen = [128, 192] if lengths is None else lengths
    for length in chosen:
        shape = _Shape(1, heads, kv_heads, length, head_dim)
        for domain in ("normal", "large", "tiny", "equal", "negative"):
            card.add(plan.probe(domain, shape))
    shape = _Shape(1, heads, kv_heads, chosen[-1], head_dim)
    card.add(plan.probe("nan", shape))
    card.add(plan.probe("edge", _Shape(1, heads, kv_heads, 1, head_dim)))
    _no_queries(accel, card, plan, shape)
    metrics: dict[str, float | int | str] = {}
    if mask in ("bool", "float"):
        card.add(plan.probe("masked", shape))
        metrics["masked_rows"] = _masked_rows(accel, plan, shape)
    return {**card.metrics(), **metrics}


@dataclass(frozen=True)
class _Plan:
    backend: str
    mask: str
    dtype: str
    backward: bool
    seed: int

    def probe(self, domain: str, shape: _Shape) -> Probe:
        """The probe of one domain and shape."""
        q, k, v = _inputs(domain, shape, torch_dtype(self.dtype), self.seed)
        mask = _mask(self.mask, domain, shape, torch_dtype(self.dtype), self.seed)
        rows = _kept_rows(domain, mask, shape)
        differentiable = self.backward and domain not in ("nan", "masked")
        return Probe(
            group=domain,
            name=f"length {shape.length}, mask {self.mask}, back end {self.backend}",
            call=self.call(mask),
            golden=lambda a, b, c: _exact(a, b, c, mask, self.mask == "causal"),
            inputs=(q, k, v),
            rule=ATTENTION,
            grad_rule=ATTENTION_GRADIENT,
            wrt=(0, 1, 2) if differentiable else (),
            scale=lambda a, b, c: _scales(a, b, c, None, mask, self.mask == "causal", ATTENTION.kappa, self.dtype)[0],
            grad_scale=lambda g, a, b, c: _scales(
                a, b, c, g, mask, self.mask == "causal", ATTENTION_GRADIENT.kappa, self.dtype
            )[1:],
            rows=rows,
            same_host_work=f"attention {domain} {shape} {self.mask} {self.dtype} {differentiable} {self.seed}",
            seed=self.seed,
        )

    def call(self, mask: torch.Tensor | None) -> Callable[..., torch.Tensor]:
        """The device's attention, on the chosen back end."""

        def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            from torch.nn import functional

            own = None if mask is None else mask.to(q.device)
            if own is not None and own.is_floating_point():
                own = own.to(q.dtype)
            grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
            with _on_backend(self.backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=own, is_causal=self.mask == "causal", **grouped
                )

        return run


@contextlib.contextmanager
def _on_backend(name: str) -> Iterator[None]:
    """Let attention run on one back end only; backward follows the one that forward took."""
    if BACKENDS[name] is None:
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, str(BACKENDS[name]))):
        yield


def _inputs(
    domain: str, shape: _Shape, kind: torch.dtype, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values on the host, in the dtype."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(heads: int) -> torch.Tensor:
        return torch.randn(shape.batch, heads, shape.length, shape.head_dim, generator=generator)

    q, k, v = normal(shape.heads), normal(shape.kv_heads), normal(shape.kv_heads)
    if domain == "large":
        q, k, v = q * 4, k * 4, v * 50
    elif domain == "tiny":
        small = min(float(torch.finfo(kind).smallest_normal) * 4, 2.0**-14)
        small = max(small, 2.0**-40)  # bfloat16's own smallest numbers square to zero in float32 as well
        q, k, v = q * small, k * small, v * small
    elif domain == "equal":
        q, k, v = torch.ones_like(q), torch.ones_like(k), torch.full_like(v, 3.0)
    elif domain == "negative":
        # q = a + noise, k = -a + noise with a^2 * sqrt(head_dim) = 120: every logit is near -120.
        a = math.sqrt(-NEGATIVE / math.sqrt(shape.head_dim))
        q, k = a + q * 0.05, -a + k * 0.05
    elif domain == "nan":
        q[:, :, shape.length // 2, 0] = math.nan
    return q.to(kind), k.to(kind), v.to(kind)


def _mask(name: str, domain: str, shape: _Shape, kind: torch.dtype, seed: int) -> torch.Tensor | None:
    """None, True where a key may be seen, or numbers added to logits (rounded to the dtype)."""
    import torch

    if name in ("none", "causal"):
        return None
    generator = torch.Generator().manual_seed(seed + 7)
    size = (shape.length, shape.length)
    seen = torch.rand(size, generator=generator) < 0.8
    seen |= torch.eye(shape.length, dtype=torch.bool)
    if domain == "masked":
        seen[::3] = False
    if name == "bool":
        return seen
    added = torch.randn(size, generator=generator) * 0.5
    return added.masked_fill(~seen, -math.inf).to(kind)


def _kept_rows(domain: str, mask: torch.Tensor | None, shape: _Shape) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Rows that see at least one key: what a row gets that sees nothing differs by back end."""
    if domain != "masked" or mask is None:
        return None
    seen = mask if not mask.is_floating_point() else mask.isfinite()
    keep = seen.any(-1)
    return lambda tensor: tensor[:, :, keep]


def _logits(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked logits, and which keys each row sees, for keys repeated to the number of query heads."""
    import torch

    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = torch.ones(logits.shape[-2:], dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if mask is not None:
        if mask.is_floating_point():
            logits = logits + mask.to(logits.dtype)
            seen = seen & mask.isfinite()
        else:
            seen = seen & mask
    return logits.masked_fill(~seen, -math.inf), seen


def _repeated(q: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return other if other.shape[1] == q.shape[1] else other.repeat_interleave(q.shape[1] // other.shape[1], 1)


def _exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, causal: bool) -> torch.Tensor:
    """Attention by its definition."""
    k, v = _repeated(q, k), _repeated(q, v)
    logits, _ = _logits(q, k, mask, causal)
    return logits.softmax(-1) @ v


def _scales(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cotangent: torch.Tensor | None,
    mask: torch.Tensor | None,
    causal: bool,
    kappa: float,
    dtype: str,
) -> list[torch.Tensor]:
    """S of the output and, with a cotangent, of the gradients of q, k and v (see tolerances_precision)."""
    import torch

    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = _repeated(q, k), _repeated(q, v)
    logits, seen = _logits(q, wide_k, mask, causal)
    p = logits.softmax(-1).nan_to_num(nan=0.0)
    scale = 1 / math.sqrt(q.shape[-1])
    sizes = q.abs().nan_to_num(nan=0.0) @ wide_k.abs().transpose(-1, -2) * scale
    weight = max(kappa * float(torch.finfo(torch_dtype(dtype)).eps) / 2, ACCUMULATE_FLOAT32)
    # Below the dtype's normal numbers a rounding is absolute: float16 keeps no probability under 2^-25.
    smallest = float(torch.finfo(torch_dtype(dtype)).smallest_normal * torch.finfo(torch_dtype(dtype)).eps)
    lost = seen * (smallest / 2 / weight)
    p = p * (1 + sizes * (ACCUMULATE_FLOAT32 / weight)) + lost
    out = p @ wide_v.abs()
    if cotangent is None:
        return [out]
    g = cotangent.abs()
    terms = p * (g @ wide_v.abs().transpose(-1, -2) + (g * out).sum(-1, keepdim=True)) * scale + lost

    def gathered(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if group == 1 else tensor.unflatten(1, (-1, group)).sum(2)

    return [
        out,
        terms @ wide_k.abs(),
        gathered(terms.transpose(-1, -2) @ q.abs()),
        gathered(p.transpose(-1, -2) @ g),
    ]


def _no_queries(accel: Accelerator, card: Card, plan: _Plan, shape: _Shape) -> None:
    """No query at all: an empty result of the right shape, not an error. Asked of the default back end only."""
    if plan.backend != "auto" or plan.mask != "none":
        return
    q, k, v = (tensor.to(accel.device) for tensor in _inputs("normal", shape, torch_dtype(plan.dtype), plan.seed))
    out = plan.call(None)(q[:, :, :0], k, v)
    right = list(out.shape) == [*q.shape[:2], 0, shape.head_dim] and out.dtype == q.dtype
    card.say("edge", "no queries", "supported" if right else "wrong", f"a result of shape {list(out.shape)}")


def _masked_rows(accel: Accelerator, plan: _Plan, shape: _Shape) -> str:
    """What the device gives a row that may see no key."""
    inputs: Any = _inputs("masked", shape, torch_dtype(plan.dtype), plan.seed)
    mask = _mask(plan.mask, "masked", shape, torch_dtype(plan.dtype), plan.seed)
    try:
        out = plan.call(mask)(*(tensor.to(accel.device) for tensor in inputs)).cpu()[:, :, ::3]
    except (RuntimeError, NotImplementedError) as error:
        if accel.classify(error) not in ("unsupported", "dtype-unsupported") and not any(
            words in str(error) for words in NO_KERNEL
        ):
            raise
        return "none"
    if bool((out == 0).all()):
        return "zeros"
    return "nan" if bool(out.isnan().all()) else "other"
