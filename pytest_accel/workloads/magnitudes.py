"""The condition magnitude S of an operator's results, where it comes from the inputs. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_accel.workloads.samples import absolute, dense_of, tensors

if TYPE_CHECKING:
    import torch

    from pytest_accel.workloads.samples import Sample

    Magnitudes = list[torch.Tensor | None]


_NORMS = frozenset(
    ("nn.functional.rms_norm", "nn.functional.layer_norm", "native_layer_norm", "nn.functional.group_norm")
)
_DIFFERENCES = frozenset(("sub", "rsub"))


def of_inputs(
    name: str, condition: str, sample: Sample, call: Callable[[Sample], list[torch.Tensor] | None]
) -> Magnitudes | None:
    """S for the conditions that come from a float64 sample (all but ``peak`` and ``row``), one tensor (or None) a result.

    ``call`` runs the operator, giving None where it cannot.
    """
    if condition == "abs":
        made = absolute(sample)
        if name in _DIFFERENCES:  # |a| - (-|alpha|) |b|: the terms of a difference add up
            made = replace(made, kwargs={**made.kwargs, "alpha": -abs(made.kwargs.get("alpha", 1))})
        found = call(made)
        return None if found is None else list(found)
    if condition == "input":
        return [sample.args[0].abs()]
    if condition in ("largest", "exponent"):
        found = call(sample)
        return None if found is None else of_golden(condition, found, inputs_of(sample), plain_of(sample))
    return _norm(name, sample) if condition == "norm" else None


def inputs_of(sample: Sample) -> list[torch.Tensor]:
    """All tensors of a sample, as dense ones."""
    return [dense_of(tensor.detach()) for tensor in tensors((sample.args, sample.kwargs))]


def plain_of(sample: Sample) -> dict[str, object]:
    """The arguments of a sample by name, or by place where they have none."""
    return {**{str(place): value for place, value in enumerate(sample.args)}, **sample.kwargs}


def of_golden(
    condition: str, golden: Sequence[torch.Tensor], inputs: Iterable[torch.Tensor], plain: Mapping[str, object]
) -> Magnitudes:
    """S for ``largest`` and ``exponent``: of each golden result, from the largest finite |x| of all inputs.

    ``plain`` holds the other arguments by name: for ``largest`` numbers among them are inputs like tensors, for ``exponent``
    ``beta`` multiplies.
    """
    sizes = [
        float(x.detach().abs().double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).amax())
        for x in inputs
        if x.numel() and (x.is_floating_point() or x.is_complex())
    ]
    numbers = {
        name: abs(n) for name, n in plain.items() if isinstance(n, (int, float, complex)) and abs(n) < float("inf")
    }
    if condition == "exponent":
        size = max(sizes, default=0.0) * numbers.get("beta", 1.0)
        return [g.abs().double() * size for g in golden]
    return [g.abs().double().fill_(max([*sizes, *numbers.values()], default=0.0)) for g in golden]


def _norm(name: str, sample: Sample) -> Magnitudes | None:
    """``|x| * rstd * |weight| + |bias|``: what layer and group norms subtract, where a row's spread is small.

    A kernel may compute ``x * scale + shift`` with ``scale = rstd * weight``: right to a roundoff of these terms only.
    """
    import torch

    x = sample.args[0]
    if x.numel() == 0:
        return None
    grouped = name == "nn.functional.group_norm"
    rows, rstd = _rows(name, sample)
    lead = rows.shape[:-1]
    size = (rows.abs() * rstd).reshape(x.shape)
    channels = (1, -1, *[1] * (x.dim() - 2))
    for key, place, join in (("weight", 2, torch.mul), ("bias", 3, torch.add)):
        factor = _argument(sample, key, place, None)
        if isinstance(factor, torch.Tensor):
            size = join(size, factor.abs().reshape(channels) if grouped else factor.abs())
    if name != "native_layer_norm":
        return [size]
    return [size, rows.abs().mean(-1).reshape(*lead, *[1] * len(sample.args[1])), None]


def _rows(name: str, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows ``[..., n]`` over which a layer, group or RMS norm works, and ``1 / sqrt(spread + eps)`` of each, ``[..., 1]``."""
    import torch

    x = sample.args[0]
    rms, grouped = name == "nn.functional.rms_norm", name == "nn.functional.group_norm"
    eps = _argument(sample, "eps", 3 if rms else 4, None) or (torch.finfo(torch.float32).eps if rms else 1e-5)
    lead = (x.shape[0], sample.args[1]) if grouped else x.shape[: x.dim() - len(sample.args[1])]
    rows = x.reshape(*lead, -1)
    spread = rows.square().mean(-1, keepdim=True) if rms else rows.var(-1, unbiased=False, keepdim=True)
    return rows, (spread + eps).rsqrt()


def steepness(name: str, sample: Sample) -> float:
    """By how much a norm's gradient multiplies the roundoffs of its inputs: the largest ``rstd``, at least 1; 1 elsewhere.

    The gradient of the weight is a sum of ``(x - mean) * rstd``: 0 for a row of one element, and off by ``rstd`` roundoffs of x.
    """
    if name not in _NORMS or sample.args[0].numel() == 0:
        return 1.0
    largest = float(_rows(name, sample)[1].nan_to_num(nan=1.0, posinf=1.0).amax())
    return max(1.0, largest)


def _argument(sample: Sample, name: str, position: int, default: Any) -> Any:
    if name in sample.kwargs:
        return sample.kwargs[name]
    return sample.args[position] if len(sample.args) > position else default
