"""Tensors of the simulated device: each holds a CPU tensor, on which every operator runs."""

from __future__ import annotations

import weakref

import torch
import torch.utils._mode_utils
from torch.utils._pytree import tree_leaves, tree_map

from torch_npu import faults, switches

#: Operators that are meant to join a tensor of the device and one of the host.
_ACROSS = frozenset(("copy_", "_copy_from", "_to_copy", "set_", "index", "index_put_", "_index_put_impl_"))
#: What a tensor's own storage, which holds nothing, claims to hold: without it no tensor could grow in place.
_ROOM = 2**48
_HOST_RESULT = frozenset(("_local_scalar_dense", "equal", "is_same_size"))


class Memory:
    """What an allocator counts, by storage: bytes now, and the most since the last reset."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self._held: dict[int, list[int]] = {}

    def take(self, tensor: NpuTensor, raw: torch.Tensor) -> None:
        """Count the storage of ``raw`` until the last tensor that shows it is gone."""
        if raw.layout != torch.strided:
            return
        storage = raw.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        held = self._held.get(key)
        if held is None:
            if self.now + size > switches.MEMORY:
                faults.out_of_memory(size)
            self._held[key] = [1, size]
            self.now += size
            self.peak = max(self.peak, self.now)
        else:
            held[0] += 1
        weakref.finalize(tensor, self._drop, key).atexit = False

    def _drop(self, key: int) -> None:
        held = self._held[key]
        held[0] -= 1
        if not held[0]:
            del self._held[key]
            self.now -= held[1]


MEMORY = [Memory() for _ in range(switches.DEVICES)]


class NpuTensor(torch.Tensor):
    """A tensor on ``npu:index`` whose numbers are those of ``raw``, a tensor of the host."""

    @staticmethod
    def __new__(cls, raw: torch.Tensor, index: int = 0):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device("npu", index),
            storage_size=_ROOM,
        )

    def __init__(self, raw: torch.Tensor, index: int = 0) -> None:
        self._raw = raw
        MEMORY[index].take(self, raw)

    def _follow(self) -> None:
        """Show the shape that ``raw`` has got (resize_, squeeze_, t_, out= of an empty tensor)."""
        with torch.utils._mode_utils.no_dispatch():
            self.as_strided_(self._raw.size(), self._raw.stride(), self._raw.storage_offset())

    def __repr__(self, *, tensor_contents=None) -> str:
        return f"{repr(self._raw)[:-1]}, device='{self.device}')"

    def numpy(self, *, force: bool = False):
        """As every device's: only by way of the host."""
        if not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                "memory first."
            )
        return self.detach().cpu().numpy()

    def tolist(self):
        """The numbers, as every device gives them."""
        return self.detach().cpu().tolist()

    def __array__(self, dtype=None):
        return self.numpy()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})


def dispatch(func, args, kwargs):
    """Run one operator on the tensors that are held, with the faults that are switched on."""
    op = func._schema.name.partition("::")[2]
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    mine = [tensor for tensor in tensors if isinstance(tensor, NpuTensor)]
    wanted = kwargs.get("device")
    index = mine[0].device.index if mine else 0
    if isinstance(wanted, torch.device) and wanted.type == "npu" and wanted.index is not None:
        index = wanted.index
    _check_devices(op, tensors, mine)
    kinds = [tensor.dtype for tensor in mine]
    faults.before(op, func.name(), frozenset(str(kind)[6:] for kind in kinds), kinds)
    known = {id(tensor._raw): tensor for tensor in mine}

    def held(leaf):
        if isinstance(leaf, NpuTensor):
            return faults.argument(op, leaf._raw)
        if isinstance(leaf, torch.device) and leaf.type == "npu":
            return torch.device("cpu")
        return leaf

    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    out = func(*tree_map(held, args), **tree_map(held, kwargs))
    to_host = isinstance(wanted, torch.device) and wanted.type == "cpu"
    if to_host or op in _HOST_RESULT or (op in ("copy_", "_copy_from") and not isinstance(args[0], NpuTensor)):
        return args[0] if op == "copy_" else out
    view = func.is_view

    def shown(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        changed = leaf if view else faults.result(op, leaf)
        own = known.get(id(leaf))
        if own is None:
            return NpuTensor(changed, index)
        if changed is not leaf:
            leaf.copy_(changed)
        if own.shape != leaf.shape or own.stride() != leaf.stride():
            own._follow()
        return own

    out = tree_map(shown, out)
    if switches.hit(switches.LEAK, op, frozenset(str(kind)[6:] for kind in kinds)):
        faults.LEAKED.append(out)
    return out


def _check_devices(op: str, tensors: list[torch.Tensor], mine: list[torch.Tensor]) -> None:
    """As a real device does: no operator mixes devices, but for copies, indices and numbers in tensors without dimension."""
    if len(tensors) == len(mine) or not mine or op in _ACROSS:
        return
    stray = next((tensor for tensor in tensors if not isinstance(tensor, NpuTensor) and tensor.dim()), None)
    if stray is not None:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {mine[0].device} and "
            f"{stray.device}! (when checking argument in method wrapper_NPU_{op})"
        )


def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    faults.alive()
    form = {} if memory_format is None else {"memory_format": memory_format}
    return NpuTensor(torch.empty(size, dtype=dtype or torch.get_default_dtype(), **form), _index(device))


def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    faults.alive()
    return NpuTensor(torch.empty_strided(size, stride, dtype=dtype or torch.get_default_dtype()), _index(device))


def _copy_from(source, target, non_blocking=False):
    raw = getattr(source, "_raw", source)
    target._raw.copy_(raw) if isinstance(target, NpuTensor) else target.copy_(raw)
    return target


def _index(device) -> int:
    from torch_npu.module import npu

    index = npu.current_device() if device is None or device.index is None else device.index
    if index >= npu.device_count():
        raise RuntimeError(
            f"exchangeDevice: NPU function error: aclrtSetDevice, error code is 107001: invalid device {index}"
        )
    return index


_library = torch.library.Library("aten", "IMPL")


def register() -> None:
    """The factories and the copy through which every tensor comes to the device."""
    _library.impl("empty.memory_format", _empty, "PrivateUse1")
    _library.impl("_copy_from", _copy_from, "PrivateUse1")
    _library.impl("empty_strided", _empty_strided, "PrivateUse1")
