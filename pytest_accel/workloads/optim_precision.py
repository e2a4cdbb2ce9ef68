"""Optimisers: parameters after a few steps, plain, foreach and fused, against float64. torch is imported inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_accel.measure import accuracy
from pytest_accel.measure.tolerances_precision import OPTIMIZER
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.01, "weight_decay": 0.01},
    "AdamW": {"lr": 0.01, "weight_decay": 0.01},
    "Adagrad": {"lr": 0.1},
    "RMSprop": {"lr": 0.01, "momentum": 0.9},
}
FORMS = ("plain", "foreach", "fused")
SHAPES = ((257, 129), (64,), (1,), (8, 3, 3, 3))


def optimizer_accuracy(
    accel: Accelerator, optimizer: str = "AdamW", form: str = "plain", steps: int = 10, seed: int = 0
) -> dict[str, float | int | str]:
    """Step an optimiser ``steps`` times on given float32 gradients and compare the parameters with float64.

    ``form``: ``plain`` (a loop over tensors), ``foreach`` or ``fused``. Gradients span 2^-20 to 2^10, some are zero. S is
    the parameter and the sum of its updates' sizes. ``status`` may be ``unsupported``, where torch has no such form here.
    """
    import torch

    positive(steps=steps)
    if optimizer not in OPTIMIZERS or form not in FORMS:
        raise BadArguments(
            f"optimizer: one of {', '.join(OPTIMIZERS)}; form: of {', '.join(FORMS)}; got {optimizer}, {form}"
        )
    generator = torch.Generator().manual_seed(seed)
    begin = [torch.randn(shape, generator=generator) for shape in SHAPES]
    gradients = [[_gradient(shape, generator) for shape in SHAPES] for _ in range(steps)]
    golden, moved = _train(optimizer, "plain", begin, gradients, torch.device("cpu"), torch.float64)
    plain, _ = _train(optimizer, "plain", begin, gradients, torch.device("cpu"), torch.float32)
    try:
        found, _ = _train(optimizer, form, begin, gradients, accel.device, torch.float32)
        accel.synchronize()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        known = accel.classify(error) in ("unsupported", "dtype-unsupported")
        if not known and "fused" not in str(error) and "unexpected keyword" not in str(error):
            raise
        accel.note("reason", str(error)[:200])
        return {"status": "unsupported", "nonfinite": 0}
    flat = [torch.cat([tensor.cpu().flatten() for tensor in part]) for part in (found, golden, plain)]
    size = torch.cat([(p.abs().double() + m).flatten() for p, m in zip(begin, moved, strict=True)])
    judged = accuracy.compare(*flat, rule=OPTIMIZER, magnitude=size)
    if judged.reason:
        accel.note("reason", judged.reason)
    return {
        "status": judged.word,
        "nonfinite": judged.nonfinite,
        "max_ulp": judged.max_ulp,
        "rms_ulp": judged.rms_ulp,
        "bias": abs(judged.bias),
    }


def _gradient(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    import torch

    values = torch.randn(shape, generator=generator)
    powers = torch.randint(-20, 11, shape, generator=generator).float()
    kept = torch.rand(shape, generator=generator) < 0.95
    return torch.where(kept, values * powers.exp2(), torch.zeros_like(values))


def _train(
    name: str,
    form: str,
    begin: list[torch.Tensor],
    gradients: list[list[torch.Tensor]],
    device: torch.device,
    kind: torch.dtype,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Parameters after all steps, and the sum of the sizes of all their updates."""
    import torch

    parameters = [torch.nn.Parameter(tensor.to(kind).to(device).clone()) for tensor in begin]
    switches = {"plain": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[form]
    made = getattr(torch.optim, name)(parameters, **OPTIMIZERS[name], **switches)
    moved = [torch.zeros_like(parameter.detach()) for parameter in parameters]
    for step in gradients:
        before = [parameter.detach().clone() for parameter in parameters]
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = gradient.to(kind).to(device).clone()  # fused forms may write into it
        made.step()
        moved = [m + (p.detach() - b).abs() for m, p, b in zip(moved, parameters, before, strict=True)]
    return [parameter.detach() for parameter in parameters], moved
