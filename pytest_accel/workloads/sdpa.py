"""Attention, each of torch's kernels by itself: head sizes, grouped queries, masks, forward and backward.

A kernel that refuses the inputs is ``unsupported``: the status of a hole in the table is recorded as well, so that an upgrade
which opens or closes one is seen. torch is imported inside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import fallback, tolerances
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import formulas
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.judging import Case, Judged, judge, note_fault

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
    "overrideable": "OVERRIDEABLE",
}
#: The operator through which a kernel is called: a device that takes no notice of the choice calls another.
OPERATOR = {"flash": "flash_attention", "efficient": "efficient_attention", "cudnn": "cudnn_attention"}
MASKS = ("none", "causal", "bool", "float", "padding")
KEPT = 0.8  # share of keys that a random mask lets take part
BIAS = 4.0  # standard deviation of an additive mask: far enough from 0 that a kernel which drops it is wrong everywhere


def attention_backend(
    accel: Accelerator,
    backend: str,
    head_dim: int,
    dtype: str,
    heads: int = 8,
    kv_heads: int = 8,
    mask: str = "none",
    backward: bool = False,
    batch: int = 2,
    seq_q: int = 192,
    seq_kv: int = 192,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Judge one kernel of ``scaled_dot_product_attention`` against the plain formula in float64.

    ``backend`` is flash, efficient, cudnn, math, overrideable, or auto (torch chooses); ``mask`` none, causal, bool
    ``[batch, 1, q, kv]``, float (added, same shape) or padding ``[batch, 1, 1, kv]``. The default length, 192, is 64
    beyond a multiple of 128, where a kernel's last tile is half full. ``backward`` judges the three gradients instead.
    """
    import torch
    from torch.nn import functional

    positive(head_dim=head_dim, heads=heads, kv_heads=kv_heads, batch=batch, seq_q=seq_q, seq_kv=seq_kv)
    if heads % kv_heads:
        raise BadArguments(f"kv_heads: {kv_heads} does not divide heads ({heads})")
    if mask not in MASKS:
        raise BadArguments(f"mask: must be one of {', '.join(MASKS)}, not {mask}")
    cpu = torch.device("cpu")
    q = normal((batch, heads, seq_q, head_dim), dtype, cpu, seed)
    k = normal((batch, kv_heads, seq_kv, head_dim), dtype, cpu, seed + 1)
    v = normal((batch, kv_heads, seq_kv, head_dim), dtype, cpu, seed + 2)
    toward = normal((batch, heads, seq_q, head_dim), dtype, cpu, seed + 3)
    given = _mask(mask, batch, seq_q, seq_kv, dtype, seed + 4)
    causal = mask == "causal"

    def run() -> list[torch.Tensor]:
        parts = [t.detach().to(accel.device).requires_grad_(backward) for t in (q, k, v)]
        where = None if given is None else given.to(accel.device)
        with _only(backend):
            out = functional.scaled_dot_product_attention(
                parts[0], parts[1], parts[2], attn_mask=where, is_causal=causal, enable_gqa=kv_heads != heads
            )
        return _gradients(out, parts, toward) if backward else [out]

    def compute(kind: torch.dtype) -> list[torch.Tensor]:
        parts = [t.detach().to(kind).requires_grad_(backward) for t in (q, k, v)]
        out = formulas.attention(parts[0], parts[1], parts[2], given, causal)
        return _gradients(out, parts, toward) if backward else [out]

    rule = tolerances.of_operator("nn.functional.scaled_dot_product_attention")
    # A backward kernel rounds the weights and their gradients to the dtype before it multiplies: the reference is the
    # formula with every step rounded, as flash-attention's own tests take it; its sums have no order, so bits may vary.
    rule = replace(rule, condition="peak") if backward else rule
    found = judge(accel, Case(run, compute, rule, native=backward, vary=backward))
    if found.status == "supported" and backend in OPERATOR:
        called = fallback.dispatched(run)
        if not any(OPERATOR[backend] in name for name in called):
            found = Judged("unsupported", f"torch took no notice of the choice of {backend} and called other operators")
    note_fault(accel, found, backend=backend, dtype=dtype, mask=mask, shape=list(q.shape), kv_heads=kv_heads)
    return found.metrics()


def _gradients(out: torch.Tensor, parts: list[torch.Tensor], toward: torch.Tensor) -> list[torch.Tensor]:
    import torch

    return list(torch.autograd.grad(out, parts, toward.to(out)))


def _only(backend: str) -> Any:
    from contextlib import nullcontext

    from torch.nn.attention import SDPBackend, sdpa_kernel

    if backend == "auto":
        return nullcontext()
    if backend not in BACKENDS:
        raise BadArguments(f"backend: must be auto, {', '.join(BACKENDS)}, not {backend}")
    chosen = getattr(SDPBackend, BACKENDS[backend], None)
    if chosen is None:
        raise NotImplementedError(f"this torch has no {BACKENDS[backend]}")
    return sdpa_kernel(chosen)


def _mask(kind: str, batch: int, seq_q: int, seq_kv: int, dtype: str, seed: int) -> torch.Tensor | None:
    """The mask on the host; every query sees at least key 0, since a row without keys is defined by no formula."""
    import torch

    if kind in ("none", "causal"):
        return None
    if kind == "float":
        return (normal((batch, 1, seq_q, seq_kv), "float32", torch.device("cpu"), seed) * BIAS).to(torch_dtype(dtype))
    made = torch.Generator().manual_seed(seed)
    if kind == "bool":
        keep = torch.rand((batch, 1, seq_q, seq_kv), generator=made) < KEPT
    else:
        lengths = torch.randint(1, seq_kv + 1, (batch, 1, 1, 1), generator=made)
        keep = torch.arange(seq_kv) < lengths
    keep[..., 0] = True
    return keep
