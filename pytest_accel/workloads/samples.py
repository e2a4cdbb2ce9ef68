"""Sample calls of an operator as trees of tensors: chosen, cast, moved to a device, digested and told in words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances

if TYPE_CHECKING:
    import torch

LARGEST = 50_000
SHOWN = 300  # characters of the arguments in words


def _same(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Sample:
    """One call: ``index`` in the database's order, its variant, and the arguments as made on the CPU.

    ``finish`` takes what the operator returns to what a gradient may be taken of (a database's own rule, such as the
    parts of a decomposition that are unique).
    """

    index: int
    variant: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    finish: Callable[[Any], Any] = _same


def choose(samples: Sequence[Sample], count: int) -> list[Sample]:
    """At most ``count`` samples spread evenly over all that hold elements; the last one is always among them.

    Samples of more than ``LARGEST`` elements are left out where there are smaller ones: they say nothing more, and the
    host takes minutes for some.
    """
    filled = [sample for sample in samples if any(t.numel() for t in tensors(sample.args))] or list(samples)
    filled = [s for s in filled if sum(t.numel() for t in tensors(s.args)) <= LARGEST] or filled
    if len(filled) <= count:
        return filled
    if count == 1:
        return [filled[-1]]
    step = (len(filled) - 1) / (count - 1)
    return [filled[round(i * step)] for i in range(count)]


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    import torch

    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        return [tensor for value in tree.values() for tensor in tensors(value)]
    if isinstance(tree, (tuple, list)):
        return [tensor for value in tree for tensor in tensors(value)]
    return []


def mapped(
    tree: Any,
    of_tensor: Callable[[torch.Tensor], torch.Tensor],
    dtypes: Mapping[torch.dtype, torch.dtype],
    device: torch.device,
) -> Any:
    """A copy of ``tree`` with each tensor, dtype and device argument replaced; named tuples become tuples."""
    import torch

    if isinstance(tree, torch.Tensor):
        return of_tensor(tree)
    if isinstance(tree, torch.dtype):
        return dtypes.get(tree, tree)
    if _is_device(tree):
        return device
    if isinstance(tree, dict):
        return {key: mapped(value, of_tensor, dtypes, device) for key, value in tree.items()}
    if isinstance(tree, list):
        return [mapped(value, of_tensor, dtypes, device) for value in tree]
    if isinstance(tree, tuple) and not isinstance(tree, torch.Size):
        return tuple(mapped(value, of_tensor, dtypes, device) for value in tree)
    return tree


def _is_device(leaf: Any) -> bool:
    """True for a device, or a text that torch reads as one (samples of ``to`` and ``full_like`` name some)."""
    import torch

    if isinstance(leaf, torch.device):
        return True
    if not isinstance(leaf, str):
        return False
    try:
        torch.device(leaf)
    except RuntimeError:
        return False
    return True


def widened(source: torch.dtype, target: torch.dtype) -> dict[torch.dtype, torch.dtype]:
    """``source`` to ``target``, and the real or complex dtype of the same precision to that of the target's."""
    import torch

    pairs = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}
    back = {kind: real for real, kind in pairs.items()}
    found = {source: target}
    for others in (pairs, back):
        if source in others and target in others:
            found[others[source]] = others[target]
    return found


def cast(sample: Sample, source: torch.dtype, target: torch.dtype) -> Sample:
    """The sample on the CPU, every tensor (and dtype argument) of ``source`` cast to ``target``: exact if wider.

    Tensors that require a gradient still do, as leaves of their own.
    """
    import torch

    kinds = widened(source, target)

    def one(tensor: torch.Tensor) -> torch.Tensor:
        own = tensor.detach().cpu()  # samples of ``to`` hold tensors of a device
        kind = kinds.get(own.dtype)
        made = _in_storage(own, kind or own.dtype, own.device)
        if made is None:
            made = own.to(kind) if kind is not None and kind != own.dtype else own.clone()
        return made.requires_grad_() if tensor.requires_grad else made

    return _with(sample, lambda tree: mapped(tree, one, kinds, torch.device("cpu")))


def moved(sample: Sample, device: torch.device) -> Sample:
    """The sample as fresh copies on ``device``, strides kept where no elements overlap; device arguments follow."""
    import torch

    def one(tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        made = _in_storage(source, source.dtype, device)
        if made is None and not _dense(source):
            made = source.clone().to(device)
        if made is None:
            made = torch.empty_strided(source.size(), source.stride(), dtype=source.dtype, device=device).copy_(source)
        return made.requires_grad_() if tensor.requires_grad else made

    return _with(sample, lambda tree: mapped(tree, one, {}, device))


def _in_storage(tensor: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
    """A copy of a tensor that does not begin its storage, with all of that storage (``as_strided`` reaches it); else None."""
    import torch

    if tensor.layout != torch.strided or tensor.storage_offset() == 0 or tensor.is_conj() or tensor.is_neg():
        return None
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = tensor.as_strided((elements,), (1,), 0).to(dtype, copy=True).to(device)
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def nudged(sample: Sample, dtype: torch.dtype, pattern: int) -> Sample:
    """A wide sample with each number moved by ``tolerances.ROUNDOFFS`` roundoffs of ``dtype``, up or down by ``pattern``."""
    import torch

    step = tolerances.ROUNDOFFS * torch.finfo(dtype).eps / 2

    def one(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        places = torch.arange(tensor.numel(), dtype=torch.int64).reshape(tensor.shape)
        up = (places * 2654435761 + pattern * 40503) % 97 < 49  # a fixed mixture of signs, another one for each pattern
        factor = torch.where(up, 1.0 + step, 1.0 - step).to(torch.float64)
        made = tensor.detach() * factor
        return made.requires_grad_() if tensor.requires_grad else made

    return _with(sample, lambda tree: mapped(tree, one, {}, torch.device("cpu")))


def absolute(sample: Sample) -> Sample:
    """The sample with absolute tensors and factors: its result is the condition magnitude of a sum."""
    import torch

    def one(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().abs() if tensor.is_floating_point() or tensor.is_complex() else tensor

    made = _with(sample, lambda tree: mapped(tree, one, {}, torch.device("cpu")))
    factors = {key: abs(made.kwargs[key]) for key in ("alpha", "beta", "value") if _is_number(made.kwargs.get(key))}
    return replace(made, kwargs={**made.kwargs, **factors})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _with(sample: Sample, change: Callable[[Any], Any]) -> Sample:
    return replace(sample, args=change(sample.args), kwargs=change(sample.kwargs))


def _dense(tensor: torch.Tensor) -> bool:
    """True where copying element by element into the same strides is safe (no two elements share memory)."""
    import torch

    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size > 1:
            if stride < expected:
                return False
            expected = stride * size
    return True


def digest(samples: Sequence[Sample]) -> str:
    """sha256[:16] of the inputs' shapes and bytes: says whether two sessions measured the same numbers."""
    import torch

    total = hashlib.sha256()
    for sample in samples:
        for tensor in tensors((sample.args, sample.kwargs)):
            total.update(f"{sample.index}{sample.variant}{tuple(tensor.shape)}{tensor.dtype}".encode())
            dense = dense_of(tensor.detach()).resolve_conj().resolve_neg().contiguous().flatten()
            if dense.numel() < 4096:
                total.update(bytes(dense.view(torch.uint8).tolist()))
            else:  # small floats and half complex numbers have no sum on the host
                summable = dense.view(torch.uint8) if dense.dtype in _without_sum() else dense
                total.update(repr(summable.sum().item()).encode())
    return total.hexdigest()[:16]


def _without_sum() -> frozenset[torch.dtype]:
    import torch

    names = [name for name in dir(torch) if name.startswith("float8")]
    return frozenset((torch.complex32, *(getattr(torch, name) for name in names)))


def dense_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with all its elements where it is sparse; else itself."""
    import torch

    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def shown(sample: Sample) -> str:
    """The arguments in words: shapes and dtypes for tensors, values for the rest."""

    def one(value: Any) -> str:
        if hasattr(value, "shape"):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(one(part) for part in value)}]"
        return repr(value)

    text = ", ".join(
        [one(arg) for arg in sample.args] + [f"{key}={one(value)}" for key, value in sample.kwargs.items()]
    )
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
