"""Mixed precision: where 16-bit arithmetic overflows, and whether the gradient scaler answers (torch is imported inside)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

_NOT_IEEE = (
    "an overflow gives a finite number here: a gradient scaler that looks for infinities never skips a step, its scale grows "
    "without end, and training converges later. Ask for IEEE mode (Ascend: INF_NAN_MODE_ENABLE=1, ACL_RT_OVERFLOW_MODE=1), or "
    "use the vendor's own scaler, which reads the overflow register"
)
GROWTH, BACKOFF = 2.0, 0.5  # torch.amp.GradScaler's defaults


def amp_overflow(accel: Accelerator, dtype: str = "float16") -> dict[str, int | str]:
    """Probe overflow in a 16-bit dtype: its mode, what must stay finite, what must overflow, and subnormals.

    Metrics: ``overflow_mode`` (``ieee``, ``saturate`` or ``mixed``); ``not_finite`` and ``not_overflowed``, counts of
    probes that failed, whose names and values are in the notes; ``subnormals`` (``kept`` or ``flushed``).
    """
    import torch

    kind = torch_dtype(dtype)
    if kind not in (torch.float16, torch.bfloat16):
        raise BadArguments(f"dtype: must be float16 or bfloat16, not {dtype}")
    top = torch.finfo(kind).max

    def on(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64).to(kind).to(accel.device)

    mode = _mode(on, top, kind)
    kept = _run(_must_stay_finite(on, kind, accel.device, top))
    # The declared alternative to infinity: a device in saturation mode holds the dtype's largest number.
    ceiling = top if mode == "saturate" else math.inf
    lost = _run(_must_overflow(on, kind, accel.device, top, ceiling))
    tiny = torch.finfo(kind).smallest_normal
    small = (on(*[tiny] * 16)[None, :] @ on(*[2.0**-6] * 16)[:, None]).double().item()
    accel.note("failed", {"must_stay_finite": kept, "must_overflow": lost})
    if mode != "ieee":
        accel.note("overflow_mode", _NOT_IEEE)
    return {
        "overflow_mode": mode,
        "not_finite": len(kept),
        "not_overflowed": len(lost),
        "subnormals": "kept" if small == tiny * 2.0**-2 else "flushed",
    }


Probes = dict[str, tuple[Callable[[], "torch.Tensor"], float, float]]


def _run(probes: Probes) -> dict[str, str]:
    """The probes whose result is not the expected number within its relative tolerance: name to ``got, expected``."""
    failed = {}
    for name, (compute, expected, tolerance) in probes.items():
        values = compute().double().flatten().cpu()
        right = (values == expected) | (
            (values - expected).abs() <= tolerance * abs(expected) if math.isfinite(expected) else values == expected
        )
        if not bool(right.all()):
            failed[name] = f"{float(values[~right][0])}, expected {expected}"
    return failed


def _mode(on: Callable[..., torch.Tensor], top: float, kind: torch.dtype) -> str:
    """``ieee`` where all four probes give inf, inf, nan, inf; ``saturate`` for top, top, 0, top; else ``mixed``."""
    import torch

    log = math.log(top) + 1
    values = [
        float(on(log).exp()[0]),
        float((on(0.9 * top) * 2)[0]),
        float(on(-1.0).sqrt()[0]),
        float((on(math.sqrt(top) * 1.2) ** 2)[0]),
    ]
    values.append(
        float(torch.tensor([top * (1 + 2.0**-7)], dtype=torch.float32).to(on(1.0).device).to(kind)[0])
        if top < 1e5
        else math.inf
    )
    if all(math.isinf(v) for i, v in enumerate(values) if i != 2) and math.isnan(values[2]):
        return "ieee"
    if all(v == top for i, v in enumerate(values[:4]) if i != 2) and values[2] == 0.0:
        return "saturate"
    return "mixed"


def _must_stay_finite(on: Callable[..., torch.Tensor], kind: torch.dtype, device: torch.device, top: float) -> Probes:
    """Results that fit the dtype although a step on the way would overflow it."""
    import torch
    from torch.nn import functional

    # float16's range in bfloat16 too: there the same numbers find an operator that works in float16 inside.
    eps = torch.finfo(kind).eps
    half = torch.finfo(torch.float16).max
    big, root = 32768.0, 256.0  # twice the one and the square of the other are beyond float16
    wave = torch.full((1, 1024), root / 2, dtype=kind, device=device)
    wave[:, 1::2] *= -1

    def cancelling() -> torch.Tensor:
        # The first half sums to 1024 * (root/2)^2, far above the largest number; the second half takes it back.
        left = torch.full((1, 2048), root / 2, dtype=kind, device=device)
        right = torch.full((2048, 1), root / 2, dtype=kind, device=device)
        right[1024:] *= -1
        return left @ right

    return {
        "softmax of two equal large logits": (lambda: on(big, big).softmax(0), 0.5, eps),
        "logsumexp of one large value": (lambda: on(big).logsumexp(0), big, eps),
        "mean of many large values": (
            lambda: torch.full((4096,), big, dtype=kind, device=device).mean()[None],
            big,
            eps,
        ),
        "rms_norm of values whose squares overflow": (
            lambda: functional.rms_norm(torch.full((1, 1024), root, dtype=kind, device=device), (1024,)),
            1.0,
            eps,
        ),
        "layer_norm of values whose squares overflow": (lambda: functional.layer_norm(wave, (1024,)).abs(), 1.0, eps),
        "vector_norm of values whose squares overflow": (
            lambda: torch.linalg.vector_norm(torch.full((64,), root, dtype=kind, device=device))[None],
            8 * root,
            eps,
        ),
        "matmul whose partial sums overflow and cancel": (cancelling, 0.0, 0.0),
        "the largest number plus less than half a step": (lambda: on(top) + on(top * eps / 4.1), top, 0.0),
        "dot product just below overflow": (
            lambda: _dot(on, root, half, below=True),
            _dot_value(root, half, below=True),
            eps,
        ),
    }


def _dot_value(root: float, top: float, *, below: bool) -> float:
    """(root/32)^2 * n with n the largest power of two whose result is finite, or twice that."""
    step = (root / 32) ** 2
    count = 2.0 ** int(math.log2(top / step))
    return step * count * (1 if below else 2)


def _dot(on: Callable[..., torch.Tensor], root: float, top: float, *, below: bool) -> torch.Tensor:
    import torch

    step = (root / 32) ** 2
    count = int(_dot_value(root, top, below=below) / step)
    vector = torch.full((count,), root / 32, dtype=on(1.0).dtype, device=on(1.0).device)
    return (vector[None, :] @ vector[:, None]).flatten()


def _must_overflow(
    on: Callable[..., torch.Tensor], kind: torch.dtype, device: torch.device, top: float, ceiling: float
) -> Probes:
    """Results that the dtype cannot hold: infinity, or the largest number on a device in saturation mode."""
    import torch

    big = 2.0 ** math.floor(math.log2(0.9 * top))
    root = 2.0 ** (math.floor(math.log2(top)) // 2 + 1)
    return {
        "sum of many large values": (
            lambda: torch.full((64,), big, dtype=kind, device=device).sum()[None],
            ceiling,
            0.0,
        ),
        "matmul beyond the largest number": (lambda: _dot(on, root, top, below=False), ceiling, 0.0),
        "the largest number plus half a step": (lambda: on(top) + on(top * torch.finfo(kind).eps / 2), ceiling, 0.0),
        "product of two large numbers": (lambda: on(big) * on(4.0), ceiling, 0.0),
    }


def grad_scaler(
    accel: Accelerator,
    steps: int = 12,
    inject_inf: list[int] | None = None,
    inject_nan: list[int] | None = None,
    init_scale: float = 65536.0,
    growth_interval: int = 3,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Train four parameters with ``torch.amp.GradScaler`` and non-finite gradients at the given steps (default 2 and
    7).

    The expected trajectory is the documented algorithm: the scale is halved and the step skipped where a gradient is
    not finite, doubled after ``growth_interval`` good steps. ``natural_overflow`` then lets float16 activations
    overflow on the device itself: the step must be skipped. Scales by step are in the notes.
    """
    import torch

    positive(steps=steps, growth_interval=growth_interval)
    infs, nans = set([2] if inject_inf is None else inject_inf), set([7] if inject_nan is None else inject_nan)
    accel.seed(seed)
    scaler = torch.amp.GradScaler(accel.device.type, init_scale=init_scale, growth_interval=growth_interval)
    weight = torch.nn.Parameter(torch.ones(4, device=accel.device))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    began = weight.detach().clone()
    scales: list[float] = []
    skipped = moved_on_skip = held_on_step = 0
    for step in range(steps):
        before = weight.detach().clone()
        scale_before = float(scaler.get_scale())
        optimizer.zero_grad()
        scaler.scale((weight * torch.tensor([1.0, 2.0, 3.0, 4.0], device=accel.device)).sum()).backward()
        _spoil(weight, step in infs, step in nans)
        scaler.step(optimizer)
        scaler.update()
        held = bool((weight.detach() == before).all())
        scales.append(float(scaler.get_scale()))
        bad = step in infs or step in nans
        skipped += scales[-1] < scale_before
        moved_on_skip += bad and not held
        held_on_step += held and not bad
    expected = expected_scales(steps, infs | nans, init_scale, growth_interval)
    accel.note("scales", scales)
    accel.note("expected_scales", expected)
    return {
        "scales": ",".join(f"{scale:g}" for scale in scales),
        "mismatches": sum(a != b for a, b in zip(scales, expected, strict=True)),
        "skipped": skipped,
        "skipped_share": skipped / steps,
        "final_scale": scales[-1],
        "moved_on_skip": moved_on_skip,
        "held_on_step": held_on_step,
        "parameters": "held" if bool((weight.detach() == began).all()) else "moved",
        "natural_overflow": _natural(accel),
    }


def expected_scales(steps: int, bad: set[int], scale: float, interval: int) -> list[float]:
    """The scale after each step by GradScaler's documented algorithm, kept in float32 as the scaler does."""
    scales, good = [], 0
    for step in range(steps):
        if step in bad:
            scale, good = scale * BACKOFF, 0
        else:
            good += 1
            if good == interval:
                scale, good = scale * GROWTH, 0
        scales.append(scale)
    return scales


def _spoil(weight: torch.nn.Parameter, with_inf: bool, with_nan: bool) -> None:
    gradient: Any = weight.grad
    if with_inf:
        gradient[1] = math.inf
    if with_nan:
        gradient[2] = math.nan


def _natural(accel: Accelerator) -> str:
    """One step whose float16 activation overflows on the device: ``skipped`` where the parameters kept their bits."""
    import torch

    scaler = torch.amp.GradScaler(accel.device.type, init_scale=65536.0)
    weight = torch.nn.Parameter(torch.full((4,), 2.0, device=accel.device))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    activation = weight.to(torch.float16) * torch.full((4,), 60000.0, dtype=torch.float16, device=accel.device)
    scaler.scale(activation.sum().float()).backward()
    scaler.step(optimizer)
    scaler.update()
    return "skipped" if bool((weight.detach() == 2.0).all()) and float(scaler.get_scale()) == 32768.0 else "missed"
