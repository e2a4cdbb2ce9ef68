"""One call of an operator, forward or backward, as a flat list of plain tensors. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.workloads.samples import Sample, dense_of, tensors

if TYPE_CHECKING:
    import torch

    Call = Callable[..., Any]
    Run = Callable[[Call, Sample], list[torch.Tensor]]

#: The weights of a gradient's outputs, in turn: exact in every dtype with two bits of mantissa, none zero, few alike.
WEIGHTS = (1.0, -0.5, 0.75, 1.5, -1.25, 0.625, 1.75)


def forward(call: Call, sample: Sample) -> list[torch.Tensor]:
    """The results of one call as detached, dense tensors; a result that is a plain number becomes a tensor."""
    import torch

    with torch.no_grad():
        out = call(*sample.args, **sample.kwargs)
    if isinstance(out, (bool, int, float, complex)):
        return [torch.tensor(out)]
    return [dense_of(tensor.detach()) for tensor in tensors(out)]


def backward(call: Call, sample: Sample) -> list[torch.Tensor]:
    """The gradients of the weighted sum of the results, by the tensors that require one; empty where none can be taken."""
    import torch

    leaves = [tensor for tensor in tensors((sample.args, sample.kwargs)) if tensor.requires_grad]
    with torch.enable_grad():
        out = sample.finish(call(*sample.args, **sample.kwargs))
        results = [tensor for tensor in tensors(out) if tensor.requires_grad]
    if not leaves or not results:
        return []
    found = torch.autograd.grad(results, leaves, [_weights(result) for result in results], allow_unused=True)
    return [dense_of(gradient.detach()) for gradient in found if gradient is not None]


def _weights(result: torch.Tensor) -> torch.Tensor:
    """The same weights on every device, in the dtype and shape of ``result``."""
    import torch

    pattern = torch.tensor(WEIGHTS)
    made = pattern.repeat(result.numel() // len(WEIGHTS) + 1)[: result.numel()].reshape(result.shape)
    if result.dtype.is_complex:
        made = torch.complex(made, made.flip(-1) if made.dim() else made)
    return made.to(result.dtype).to(result.device)


def random_inside(name: str, sample: Sample, structure_only: frozenset[str]) -> bool:
    """True where the call draws random numbers (attention with dropout does, though the operator is not random)."""
    return name in structure_only or bool(sample.kwargs.get("dropout_p"))
