"""The one place that touches torch's private operator database. What it gives is plain: trees of tensors."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments, Unmeasured

if TYPE_CHECKING:
    import torch

SEED_BASE = 20000  # far from 0, which models' own code likes to use
ENOUGH = 60  # samples drawn at most before choosing: some entries have hundreds, and drawing is the costly part


@dataclass(frozen=True)
class Sample:
    """One call: ``index`` in the database's order, its variant, and the arguments as made on the CPU."""

    index: int
    variant: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Operator:
    """One entry of the database: ``call`` takes a sample's arguments; ``dtypes`` those that it declares for the CPU."""

    name: str
    variant: str
    call: Callable[..., Any]
    dtypes: frozenset[torch.dtype]
    _entry: Any

    def samples(self, dtype: torch.dtype, seed: int) -> Iterator[Sample]:
        """Sample inputs made on the CPU, each after its own seed, so that inserting one moves no other."""
        made = self._entry.sample_inputs("cpu", dtype, requires_grad=False)
        for index in range(ENOUGH):
            _seed(SEED_BASE + seed * ENOUGH + index)
            sample = next(made, None)
            if sample is None:
                return
            yield Sample(index, self.variant, (sample.input, *sample.args), dict(sample.kwargs))


def _seed(value: int) -> None:
    import torch

    random.seed(value)
    torch.manual_seed(value)


def find(name: str, variant: str) -> list[Operator]:
    """The entries of operator ``name``: the one of this variant; where none is named, the plain one, else all variants.

    Raises Unmeasured where torch's testing package cannot be imported, BadArguments for a name that it does not hold.
    """
    entries = [entry for entry in _database() if entry.name == name]
    if not entries:
        raise BadArguments(
            f"op: torch's operator database holds no '{name}'; names are as in op_db ('nn.functional.silu')"
        )
    chosen = [entry for entry in entries if entry.variant_test_name == variant]
    if not chosen and variant:
        known = ", ".join(sorted(repr(entry.variant_test_name) for entry in entries))
        raise BadArguments(f"variant: '{name}' has no variant '{variant}'; it has {known}")
    return [
        Operator(entry.name, entry.variant_test_name, entry.op, frozenset(entry.dtypes), entry)
        for entry in chosen or entries
    ]


def _database() -> Sequence[Any]:
    import torch

    # Importing torch's test helpers freezes the flags of torch.backends for the whole process, and the variants that
    # are measured after this one could no longer pin their settings.
    freeze = torch.backends.disable_global_flags
    torch.backends.disable_global_flags = lambda: None
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        missing = error.name or "a module"
        raise Unmeasured(
            f"torch's operator database cannot be imported, {missing} is missing: pip install 'pytest-accel[operators]'"
        ) from error
    finally:
        torch.backends.disable_global_flags = freeze
    return op_db  # type: ignore[no-any-return]


def choose(samples: Sequence[Sample], count: int) -> list[Sample]:
    """At most ``count`` samples spread evenly over all that hold elements; the last one is always among them."""
    filled = [sample for sample in samples if any(t.numel() for t in tensors(sample.args))] or list(samples)
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


def cast(sample: Sample, source: torch.dtype, target: torch.dtype) -> Sample:
    """The sample on the CPU, every tensor (and dtype argument) of ``source`` cast to ``target``: exact if wider."""
    import torch

    def one(tensor: torch.Tensor) -> torch.Tensor:
        own = tensor.detach().cpu()  # samples of ``to`` hold tensors of a device
        return own.to(target) if own.dtype == source else own.clone()

    return _with(sample, lambda tree: mapped(tree, one, {source: target}, torch.device("cpu")))


def moved(sample: Sample, device: torch.device) -> Sample:
    """The sample as fresh copies on ``device``, strides kept where no elements overlap; device arguments follow."""
    import torch

    def one(tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        if not _dense(source):
            return source.clone().to(device)
        return torch.empty_strided(source.size(), source.stride(), dtype=source.dtype, device=device).copy_(source)

    return _with(sample, lambda tree: mapped(tree, one, {}, device))


def absolute(sample: Sample) -> Sample:
    """The sample with absolute tensors and factors: its result is the condition magnitude of a sum."""
    import torch

    def one(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.abs() if tensor.is_floating_point() else tensor

    made = _with(sample, lambda tree: mapped(tree, one, {}, torch.device("cpu")))
    factors = {key: abs(made.kwargs[key]) for key in ("alpha", "beta", "value") if _is_number(made.kwargs.get(key))}
    return Sample(made.index, made.variant, made.args, {**made.kwargs, **factors})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _with(sample: Sample, change: Callable[[Any], Any]) -> Sample:
    return Sample(sample.index, sample.variant, change(sample.args), change(sample.kwargs))


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
            dense = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten()
            total.update(
                bytes(dense.view(torch.uint8).tolist()) if dense.numel() < 4096 else repr(dense.sum().item()).encode()
            )
    return total.hexdigest()[:16]


def shown(sample: Sample) -> str:
    """The arguments in words: shapes and dtypes for tensors, values for the rest."""

    def one(value: Any) -> str:
        if hasattr(value, "shape"):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(one(part) for part in value)}]"
        return repr(value)

    return ", ".join(
        [one(arg) for arg in sample.args] + [f"{key}={one(value)}" for key, value in sample.kwargs.items()]
    )
