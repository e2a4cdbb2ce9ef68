"""Values for the tensors of a traced call: what was in them is not known, only what the operator accepts.

Rules by operator and by the argument's name in the operator's schema. torch is imported inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel.workloads.rebuild import TensorText, tensor_text

if TYPE_CHECKING:
    import torch

POSITIVE_SELF = frozenset("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma pow xlogy multinomial".split())  # noqa: SIM905
UNIT_SELF = frozenset("bernoulli logit binary_cross_entropy binary_cross_entropy_backward".split())  # noqa: SIM905
INSIDE_ONE = frozenset("acos asin atanh erfinv tanh_backward".split())  # noqa: SIM905
NONZERO_OTHER = frozenset(
    "div true_divide floor_divide remainder fmod divide addcdiv foreach_div foreach_addcdiv".split()  # noqa: SIM905
)
POSITIVE_NAMES = frozenset(
    """running_var save_invstd save_var rstd invstd inv_scale total_weight exp_avg_sqs max_exp_avg_sqs state_steps scale
    scale_a scale_b denom""".split()  # noqa: SIM905
)
ONE_NAMES = frozenset({"state_steps"})  # steps taken so far: bias correction divides by 1 - beta^steps
ZERO_NAMES = frozenset({"found_inf"})
PLACES = frozenset("gather scatter scatter_add scatter_reduce index_select index_add index_copy index_fill".split())  # noqa: SIM905
SMALL = 4  # whole numbers where nothing else is known: below every dimension that matters, and never negative


class Values:
    """Gives each tensor of one call its memory; ``base`` is the operator's name without overload and underscore."""

    def __init__(self, base: str, call: Sequence[Any], names: Sequence[str], seed: int) -> None:
        self.base = base.lstrip("_")
        self.given = _by_name(call, names)
        self.seed = seed
        self._count = 0
        self._next_index = 0

    def __call__(self, name: str, text: TensorText) -> torch.Tensor:
        """The memory of the tensor ``text`` that is (part of) argument ``name``."""
        import torch

        made = torch.Generator().manual_seed(self.seed * 1000 + self._count)
        self._count += 1
        dtype = getattr(torch, text.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise NotImplementedError(f"this torch has no torch.{text.dtype}")
        if dtype == torch.bool:
            return torch.rand(text.elements, generator=made) < 0.5
        if dtype.is_floating_point or dtype.is_complex:
            return self._real(name, text, made).to(dtype)
        return self._whole(name, text, made).to(dtype)

    def _real(self, name: str, text: TensorText, made: torch.Generator) -> torch.Tensor:
        import torch

        if text.dtype.startswith("complex"):
            return torch.complex(*(torch.randn(text.elements, generator=made) for _ in range(2)))
        normal = torch.randn(text.elements, generator=made)
        if name in ZERO_NAMES:
            return torch.zeros_like(normal)
        if name in ONE_NAMES:
            return torch.ones_like(normal)
        first = name in ("self", "input")
        if name in POSITIVE_NAMES or (first and self.base in POSITIVE_SELF):
            return normal.abs() + 0.5
        if name in ("other", "tensor2", "tensors2") and self.base in NONZERO_OTHER:
            return torch.where(normal < 0, normal - 0.5, normal + 0.5)
        if (first and self.base in UNIT_SELF) or (name == "output" and self.base == "sigmoid_backward"):
            return normal.sigmoid()
        if (first and self.base in INSIDE_ONE) or (name == "output" and self.base in INSIDE_ONE) or name == "grid":
            return normal.tanh() * 0.95
        if name == "target" and "binary_cross_entropy" in self.base:
            return normal.sigmoid()
        if name == "output" and self.base in ("softmax_backward_data", "log_softmax_backward_data"):
            return self._shares(normal, text)
        if name == "sorted_sequence" or (name == "boundaries" and self.base == "bucketize"):
            return normal.reshape(text.size).sort(-1).values.flatten() if text.stride is None else normal
        return normal

    def _shares(self, normal: torch.Tensor, text: TensorText) -> torch.Tensor:
        """A softmax (or its logarithm) along the call's ``dim``: what the backward formulas take for granted."""
        if text.stride is not None or not text.size:
            return normal.sigmoid()
        rows = normal.reshape(text.size).log_softmax(int(self.given.get("dim", -1)))
        return (rows if self.base.startswith("log") else rows.exp()).flatten()

    def _whole(self, name: str, text: TensorText, made: torch.Generator) -> torch.Tensor:
        import torch

        if re.search(r"offsets|cum_seq|cu_seqlens|crow|ccol", name):
            return torch.linspace(0, self._bag(), max(1, text.elements)).long()[: text.elements]
        if name in ("other", "tensor2") and self.base in NONZERO_OTHER:
            return torch.randint(1, SMALL, (text.elements,), generator=made)
        high = self._bound(name)
        return torch.randint(0, max(1, high), (text.elements,), generator=made)

    def _bag(self) -> int:
        indices = self._size("indices")
        return indices[0] if indices else 0

    def _bound(self, name: str) -> int:
        """One more than the largest index that argument ``name`` may hold."""
        own = self._size("self") or self._size("input") or ()
        weight = self._size("weight") or ()
        if name in ("index", "indices"):
            if self.base in PLACES:
                dim = int(self.given.get("dim", 0))
                return own[dim] if own else 1
            if self.base in ("index", "index_put", "index_put_", "unsafe_index", "index_put_impl_", "unsafe_index_put"):
                return self._next_indexed(own)
            if self.base in ("take", "put"):
                return _product(own)
            if self.base.startswith("embedding"):
                return int(self.given["num_weights"]) if "num_weights" in self.given else (weight or own or (1,))[0]
            if self.base.startswith("max_pool"):
                dims = 3 if "3d" in self.base else 2
                return _product(own[-dims:])
        if name == "target" and own:
            return own[1] if len(own) > 1 else own[0]
        if name == "repeats":
            return 3
        return SMALL

    def _next_indexed(self, own: Sequence[int]) -> int:
        """The size that the next index tensor of an indexing call counts in: one dimension a tensor, several a mask."""
        dim = 0
        for place, item in enumerate(self.given.get("indices") or []):
            text = tensor_text(item) if isinstance(item, str) else None
            if place >= self._next_index and text is not None and text.dtype != "bool":
                self._next_index = place + 1
                return own[dim] if dim < len(own) else 1
            dim += len(text.size) if text is not None and text.dtype == "bool" else 1
        return 1

    def _size(self, name: str) -> tuple[int, ...] | None:
        found = self.given.get(name)
        text = tensor_text(found) if isinstance(found, str) else None
        return text.size if text is not None else None


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _by_name(call: Sequence[Any], names: Sequence[str]) -> Mapping[str, Any]:
    positional = list(call)
    keywords = positional.pop() if positional and isinstance(positional[-1], Mapping) else {}
    return {**dict(zip(names, positional, strict=False)), **keywords}
