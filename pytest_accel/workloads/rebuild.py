"""The arguments of a traced call made again from their texts: shapes, strides, dtypes, and values that the operator accepts.

A tensor is ``dtype:4x8`` (``dtype:`` without dimensions), ``dtype:4x8/1x4`` with strides, ``…@host`` where it stays on the host
though the program used a device. ``dtype:float32``-like words of torch's own are ``dtype.float32``… written ``dtype:…``,
``layout:…``, ``memory_format:…``, ``device:accel``, ``device:host``; text is ``text:…``, other reals ``float:inf``,
``complex:…``. torch is imported inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments

if TYPE_CHECKING:
    import torch

_TENSOR = re.compile(
    r"(?P<dtype>[a-z]+[a-z0-9_]*):(?P<size>\d*(?:x\d+)*)(?:/(?P<stride>\d+(?:x\d+)*))?(?P<host>@host)?"
)
_WORDS = ("dtype", "layout", "memory_format")
MOST_ELEMENTS = 2**28  # of one argument: 2 GiB in float64


@dataclass(frozen=True)
class TensorText:
    """What a tensor's text says; ``stride`` None is contiguous."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    host: bool

    @property
    def elements(self) -> int:
        """How many numbers its memory holds."""
        if self.stride is None or 0 in self.size:
            count = 1
            for size in self.size:
                count *= size
            return count
        return 1 + sum((size - 1) * step for size, step in zip(self.size, self.stride, strict=True))


def tensor_text(text: str) -> TensorText | None:
    """The tensor that ``text`` describes, or None where it describes something else."""
    found = _TENSOR.fullmatch(text)
    if found is None or found["dtype"] in (*_WORDS, "device", "text", "float", "complex"):
        return None
    size = tuple(map(int, found["size"].split("x"))) if found["size"] else ()
    stride = tuple(map(int, found["stride"].split("x"))) if found["stride"] else None
    if stride is not None and len(stride) != len(size):
        raise BadArguments(f"call: '{text}' has {len(size)} sizes and {len(stride)} strides")
    return TensorText(found["dtype"], size, stride, bool(found["host"]))


@dataclass(frozen=True)
class Made:
    """A tensor made again on the host: its memory in one row, and the shape and strides over it."""

    memory: torch.Tensor
    text: TensorText

    def on(self, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A fresh copy on ``device`` (the host where the text says so), cast to ``dtype`` where one is given."""
        import torch

        where = torch.device("cpu") if self.text.host else device
        kind = self.memory.dtype if dtype is None else dtype
        memory = self.memory.clone().to(kind).to(where)
        if self.text.stride is None:
            return memory.reshape(self.text.size)
        return memory.as_strided(self.text.size, self.text.stride)


@dataclass(frozen=True)
class Word:
    """A dtype, layout, memory format or device argument."""

    kind: str
    name: str


Values = Callable[[str, TensorText], "torch.Tensor"]


def read(call: Sequence[Any], names: Sequence[str], values: Values) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a call, tensors as ``Made``, torch's words as ``Word``.

    ``names`` are the schema's argument names in order; ``values(name, text)`` gives the memory of each tensor. Raises
    BadArguments for a text that says nothing.
    """
    positional = list(call)
    keywords = positional.pop() if positional and isinstance(positional[-1], Mapping) else {}
    if len(positional) > len(names):
        raise BadArguments(f"call: {len(positional)} arguments, the operator takes {len(names)}")
    args = [_value(value, name, values) for value, name in zip(positional, names, strict=False)]
    return args, {str(name): _value(value, str(name), values) for name, value in keywords.items()}


def _value(value: Any, name: str, values: Values) -> Any:
    if isinstance(value, list):
        return [_value(part, name, values) for part in value]
    if not isinstance(value, str):
        return value
    kind, colon, rest = value.partition(":")
    if not colon:
        raise BadArguments(f"call: '{value}' says nothing; a tensor is float32:4x8, a text text:…")
    if kind in (*_WORDS, "device"):
        return Word(kind, rest)
    if kind == "text":
        return rest
    if kind in ("float", "complex"):
        return complex(rest) if kind == "complex" else float(rest)
    text = tensor_text(value)
    if text is None:
        raise BadArguments(f"call: '{value}' is no tensor; write one as float32:4x8 or float32:4x8/1x4")
    if text.elements > MOST_ELEMENTS:
        raise BadArguments(f"call: '{value}' holds {text.elements} numbers, more than {MOST_ELEMENTS}")
    return Made(values(name, text), text)


def placed(tree: Any, device: torch.device, wide: torch.dtype | None = None) -> Any:
    """``tree`` as an operator takes it on ``device``; with ``wide``, floating tensors and dtypes are of that dtype."""
    import torch

    if isinstance(tree, Made):
        return tree.on(device, _widened(tree.memory.dtype, wide))
    if isinstance(tree, Word):
        if tree.kind == "device":
            return torch.device("cpu") if tree.name == "host" else device
        found = getattr(torch, tree.name, None)
        if found is None:
            raise NotImplementedError(f"this torch has no torch.{tree.name}")
        return _widened(found, wide) or found if tree.kind == "dtype" else found
    if isinstance(tree, list):
        return [placed(part, device, wide) for part in tree]
    if isinstance(tree, dict):
        return {name: placed(part, device, wide) for name, part in tree.items()}
    return tree


def _widened(dtype: torch.dtype, wide: torch.dtype | None) -> torch.dtype | None:
    import torch

    if wide is None:
        return None
    if dtype.is_complex:
        return torch.complex128 if wide == torch.float64 else torch.complex64
    return wide if dtype.is_floating_point else None


def leaves(tree: Any) -> list[Made]:
    """The tensors in a tree of arguments, in order."""
    if isinstance(tree, Made):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [made for part in parts for made in leaves(part)]
