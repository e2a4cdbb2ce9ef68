"""Operators of language models that torch's database lacks or tests on toy sizes only. torch is imported inside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_accel.measure import tolerances
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import formulas
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.judging import Case, judge, note_fault

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Metrics = dict[str, float | int | str]

ROTATED = Tolerance(
    2.0,
    0.6,
    "abs",
    1.5,
    "x1 cos - x2 sin: each product and the sum may be rounded to the dtype, half an ulp each, of S = |x1 cos| + |x2 sin|",
)
NORM_GRADIENT = Tolerance(
    2.0,
    0.6,
    "row",
    1.0,
    "a gradient of a norm subtracts terms of the row's size; mean and rstd may be kept in the dtype (a host's bfloat16 "
    "layer_norm reads 14 ulp where they cancel, 0.5 of this unit)",
    1.5,
    4.0,
)
_DATABASE = tolerances.of_operator("nn.functional.cross_entropy")
LOSS = replace(
    _DATABASE,
    source=_DATABASE.source
    + ". In float32 the sum of K exponentials is off by about sqrt(K) * 2^-24 of itself whatever the "
    "loss: at a vocabulary of 128256 a host reads 2.2 max, 1.4 rms, the same sign in every row",
    max_ulp_float32=4.0,
    rms_ulp_float32=2.5,
    bias=2.5,
)
LOSS_GRADIENT = Tolerance(
    2.0,
    0.6,
    "abs",
    1.0,
    "softmax is exp(logit - log sum): that difference may be rounded to the dtype (log_softmax keeps it so), a relative "
    "error of u * (|logit| + |log sum|) in the softmax, the same for a whole row; S = that, plus what is subtracted at "
    "the target. Smoothing adds a sum over the classes (a host's float32 reads 6.9 at 32000 classes)",
    4.0,
    16.0,
    bias=2.0,
)


def one_hot(accel: Accelerator, rows: int = 257, classes: int = 1000, seed: int = 0) -> Metrics:
    """``torch.nn.functional.one_hot`` of ``rows`` indices, with and without ``num_classes``: exactly equal."""
    import torch
    from torch.nn import functional

    positive(rows=rows, classes=classes)
    index = torch.randint(0, classes, (rows,), generator=torch.Generator().manual_seed(seed))
    index[0] = classes - 1  # so that the number of classes is the same where it is left to be found

    def run() -> list[torch.Tensor]:
        there = index.to(accel.device)
        return [functional.one_hot(there, classes), functional.one_hot(there)]

    def compute(kind: torch.dtype) -> list[torch.Tensor]:
        table = torch.zeros(rows, classes, dtype=torch.int64)
        table[torch.arange(rows), index] = 1
        return [table, table]

    found = judge(accel, Case(run, compute, tolerances.of_operator("gather")))
    note_fault(accel, found, rows=rows, classes=classes, seed=seed)
    return found.metrics()


def fused_norm(
    accel: Accelerator,
    kind: str,
    hidden: int,
    dtype: str,
    rows: int = 16,
    scale: float = 1.0,
    backward: bool = False,
    seed: int = 0,
) -> Metrics:
    """``rms_norm`` or ``layer_norm`` over ``[rows, hidden]`` of normal numbers times ``scale``, with a weight.

    ``scale`` 300 makes the squares overflow float16, which a kernel must do in float32. ``backward`` judges the
    gradient of the input instead.
    """
    import torch
    from torch.nn import functional

    positive(rows=rows, hidden=hidden)
    if kind not in ("rms_norm", "layer_norm"):
        raise BadArguments(f"kind: must be rms_norm or layer_norm, not {kind}")
    cpu, eps = torch.device("cpu"), 1e-5
    x = normal((rows, hidden), dtype, cpu, seed, scale)
    weight = normal((hidden,), dtype, cpu, seed + 1)
    bias = normal((hidden,), dtype, cpu, seed + 2) if kind == "layer_norm" else None
    toward = normal((rows, hidden), dtype, cpu, seed + 3)

    def gradient(out: torch.Tensor, source: torch.Tensor) -> list[torch.Tensor]:
        return [torch.autograd.grad(out, source, toward.to(out))[0]] if backward else [out]

    def run() -> list[torch.Tensor]:
        there = x.detach().to(accel.device).requires_grad_(backward)
        factor = weight.to(accel.device)
        if kind == "rms_norm":
            return gradient(functional.rms_norm(there, (hidden,), factor, eps), there)
        offset = None if bias is None else bias.to(accel.device)
        return gradient(functional.layer_norm(there, (hidden,), factor, offset, eps), there)

    def compute(to: torch.dtype) -> list[torch.Tensor]:
        source, factor = x.detach().to(to).requires_grad_(backward), weight.to(to)
        if kind == "rms_norm":
            return gradient(formulas.rms_norm(source, factor, eps), source)
        return gradient(formulas.layer_norm(source, factor, None if bias is None else bias.to(to), eps), source)

    def size() -> list[torch.Tensor | None]:
        if backward:
            return [None]
        wide = x.double()
        spread = wide.square().mean(-1, keepdim=True) if bias is None else wide.var(-1, unbiased=False, keepdim=True)
        terms = wide.abs() * (spread + eps).rsqrt() * weight.double().abs()
        return [terms if bias is None else terms + bias.double().abs()]

    rule = NORM_GRADIENT if backward else tolerances.of_operator(f"nn.functional.{kind}")
    found = judge(accel, Case(run, compute, rule, size))
    note_fault(accel, found, kind=kind, dtype=dtype, shape=[rows, hidden], seed=seed)
    return found.metrics()


def rotary(
    accel: Accelerator,
    style: str,
    head_dim: int,
    dtype: str,
    rotary_dim: int = 0,
    positions: int = 131072,
    tokens: int = 64,
    heads: int = 4,
    seed: int = 0,
) -> Metrics:
    """The rotation written in torch, as models do, on ``tokens`` positions spread up to ``positions``, two batches.

    ``style`` is half or interleaved; ``rotary_dim`` 0 rotates the whole head. cos and sin are made in float64 and
    rounded to ``dtype``, the same for device and golden: tables are judged by ``rope_table``. Each batch has positions
    of its own, which a kernel that reads ``cos[0]`` for all gets wrong.
    """
    import torch

    positive(head_dim=head_dim, positions=positions, tokens=tokens, heads=heads)
    width = rotary_dim or head_dim
    if style not in ("half", "interleaved"):
        raise BadArguments(f"style: must be half or interleaved, not {style}")
    if width % 2 or width > head_dim:
        raise BadArguments(f"rotary_dim: must be even and at most head_dim ({head_dim}), not {width}")
    places = torch.linspace(0, positions - 1, 2 * tokens, dtype=torch.float64).round()
    cos, sin = (t.to(torch_dtype(dtype)).reshape(2, 1, tokens, -1) for t in formulas.tables(places, width))
    x = normal((2, heads, tokens, head_dim), dtype, torch.device("cpu"), seed)

    def run() -> list[torch.Tensor]:
        return [formulas.rotary(x.to(accel.device), cos.to(accel.device), sin.to(accel.device), style)]

    def compute(to: torch.dtype) -> list[torch.Tensor]:
        return [formulas.rotary(x.to(to), cos.to(to), sin.to(to), style)]

    def size() -> list[torch.Tensor]:
        return [formulas.rotary_terms(x.double(), cos.double(), sin.double(), style)]

    found = judge(accel, Case(run, compute, ROTATED, size))
    note_fault(accel, found, style=style, dtype=dtype, shape=list(x.shape), rotary_dim=width, seed=seed)
    return found.metrics()


def cross_entropy(
    accel: Accelerator,
    classes: int,
    dtype: str,
    rows: int = 32,
    scale: float = 4.0,
    smoothing: float = 0.0,
    backward: bool = False,
    seed: int = 0,
) -> Metrics:
    """``cross_entropy`` of ``[rows, classes]`` logits without reduction, every eighth row ignored.

    ``classes`` is a vocabulary's size; ``scale`` the logits' standard deviation. ``backward`` judges the gradient of
    the logits instead.
    """
    import torch
    from torch.nn import functional

    positive(rows=rows, classes=classes)
    logits = normal((rows, classes), dtype, torch.device("cpu"), seed, scale)
    target = torch.randint(0, classes, (rows,), generator=torch.Generator().manual_seed(seed + 1))
    target[::8] = -100

    def outcome(loss: torch.Tensor, source: torch.Tensor) -> list[torch.Tensor]:
        return [torch.autograd.grad(loss.sum(), source)[0]] if backward else [loss]

    def run() -> list[torch.Tensor]:
        there = logits.detach().to(accel.device).requires_grad_(backward)
        where = target.to(accel.device)
        loss = functional.cross_entropy(there, where, label_smoothing=smoothing, reduction="none")
        return outcome(loss, there)

    def compute(to: torch.dtype) -> list[torch.Tensor]:
        source = logits.detach().to(to).requires_grad_(backward)
        return outcome(formulas.cross_entropy(source, target, smoothing=smoothing), source)

    def size() -> list[torch.Tensor | None]:
        if not backward:
            return [None]
        wide = logits.double()
        total = wide.logsumexp(-1, keepdim=True)
        share = (wide - total).exp()
        at_target = torch.zeros_like(wide).scatter_(1, target.clamp(min=0)[:, None], 1.0 - smoothing)
        return [share * (wide.abs() + total.abs()) + at_target + smoothing / classes]

    found = judge(accel, Case(run, compute, LOSS_GRADIENT if backward else LOSS, size))
    note_fault(accel, found, dtype=dtype, shape=[rows, classes], smoothing=smoothing, seed=seed)
    return found.metrics()
