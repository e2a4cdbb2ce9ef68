"""Inside the traced program: each operator that torch dispatches, once a set of arguments, written down as it is seen.

Only names, shapes, strides, dtypes, device types and plain numbers are kept, never what a tensor holds. Standard library
and torch alone, since the program's interpreter need not have pytest-accel. One file a process, one JSON a line:

``{"op": "aten.mm.default", "call": ["float32:4x8", …, {keyword: …}], "why": ""}`` when it is first seen, ``why`` saying why
it cannot be called again; at the end ``{"counts": {line number: calls}, "more": {op: calls}}``.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

PER_OPERATOR = 200  # different calls kept of one operator: a loop over lengths has one for each
IN_ALL = 20_000  # different calls kept of one process: some 4 MB
LONGEST = 4_000  # characters of one call: a list of thousands of tensors is no case for a suite


class CannotSay(Exception):
    """An argument that has no text from which it could be made again."""


def start(folder: str) -> None:
    """Record this process, its threads and the processes it forks into ``folder``. Called when torch has been imported."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    book = Book(folder)

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(_unwraps_itself(kind) for kind in types):
                return (
                    NotImplemented  # a tensor subclass: what it makes of this call is dispatched, and recorded, again
                )
            out = func(*args, **(kwargs or {}))
            book.note(func, args, kwargs or {}, out)
            return out

    plain = (torch.Tensor, torch.nn.Parameter)

    def _unwraps_itself(kind: Any) -> bool:
        return kind not in plain and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__

    def enter() -> None:
        mode = Recorder()
        mode.__enter__()
        _KEPT.append(mode)  # in force for the life of the thread

    def in_thread(frame: Any, event: str, arg: Any) -> None:
        sys.setprofile(None)
        enter()

    enter()
    threading.setprofile(in_thread)  # called by each new thread before its own work
    os.register_at_fork(after_in_child=book.reopen)
    atexit.register(book.close)


_KEPT: list[Any] = []


class Book:
    """The file of one process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.busy = threading.local()
        self.reopen()

    def reopen(self) -> None:
        """Begin a file of this process's own: at start, and in a child that was forked."""
        self.lock = threading.RLock()
        self.lines: dict[tuple[str, str], int] = {}
        self.counts: list[int] = []
        self.kinds: dict[str, int] = {}
        self.more: dict[str, int] = {}
        self.file: TextIO | None = None

    def note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
        """Count one call."""
        if getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            self._note(func, args, kwargs, out)
        finally:
            self.busy.now = False

    def _note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
        name = str(func)
        why = ""
        call: list[Any] | None = None
        try:
            call = described(args, kwargs)
            _check_results(out)
            text = json.dumps(call)
            if len(text) > LONGEST:
                call, why = None, f"its arguments take {len(text)} characters to write"
        except CannotSay as error:
            call, why = None, str(error)
        # A learning rate or a step count differs at every call: calls that differ in real numbers only are one call.
        key = (name, why or json.dumps(_without_reals(call)))
        with self.lock:
            line = self.lines.get(key)
            if line is not None:
                self.counts[line] += 1
                return
            if len(self.lines) >= IN_ALL or self.kinds.get(name, 0) >= PER_OPERATOR:
                self.more[name] = self.more.get(name, 0) + 1
                return
            self.kinds[name] = self.kinds.get(name, 0) + 1
            self.lines[key] = len(self.counts)
            self.counts.append(1)
            self._write({"op": name, "call": call, "why": why, "view": bool(func.is_view)})

    def _write(self, record: Mapping[str, Any]) -> None:
        if self.file is None:
            path = os.path.join(self.folder, f"{os.getpid()}.jsonl")
            self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()  # the program may be killed at any moment

    def close(self) -> None:
        """Write the counts."""
        with self.lock:
            if self.counts:
                self._write({"counts": self.counts, "more": self.more})


def _without_reals(tree: Any) -> Any:
    if isinstance(tree, float):
        return "real"
    if isinstance(tree, dict):
        return {name: _without_reals(value) for name, value in tree.items()}
    return [_without_reals(value) for value in tree] if isinstance(tree, list) else tree


def described(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of one call: texts for tensors and torch's own words, JSON for the rest; keywords in a last map.

    Raises CannotSay.
    """
    call = [_said(value) for value in args]
    if kwargs:
        call.append({name: _said(value) for name, value in kwargs.items()})
    return call


def _check_results(out: Any) -> None:
    import torch

    for part in out if isinstance(out, (list, tuple)) else (out,):
        if isinstance(part, torch.Tensor) and part.layout != torch.strided:
            raise CannotSay(f"a result is {str(part.layout).removeprefix('torch.')}")


def _said(value: Any) -> Any:
    import torch

    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise CannotSay("a size is a symbol, not a number")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        finite = value == value and abs(value) != float("inf")
        return value if finite else f"float:{value}"
    if isinstance(value, complex):
        return f"complex:{value!r}"
    if isinstance(value, str):
        return f"text:{value}"
    if isinstance(value, (list, tuple)):
        return [_said(part) for part in value]
    for kind in ("dtype", "layout", "memory_format"):
        if isinstance(value, getattr(torch, kind)):
            return f"{kind}:{str(value).removeprefix('torch.')}"
    if isinstance(value, torch.device):
        return f"device:{value.type}"
    if isinstance(value, torch.Generator):
        return None  # the default one: what it draws is compared with nothing
    raise CannotSay(f"an argument is a {type(value).__module__}.{type(value).__qualname__}")


def _tensor(tensor: Any) -> str:
    import torch

    if tensor.layout != torch.strided:
        raise CannotSay(f"a tensor is {str(tensor.layout).removeprefix('torch.')}")
    if tensor.is_quantized:
        raise CannotSay("a tensor is quantized")
    if tensor.is_nested:
        raise CannotSay("a tensor is nested")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and type(tensor).__name__ == "FakeTensor":
        raise CannotSay("a tensor is fake: torch was compiling")
    if any(not isinstance(size, int) for size in tensor.shape):
        raise CannotSay("a size is a symbol, not a number")
    text = f"{str(tensor.dtype).removeprefix('torch.')}:{'x'.join(map(str, tensor.shape))}"
    if tensor.numel() and not tensor.is_contiguous():
        text += f"/{'x'.join(map(str, tensor.stride()))}"
    return f"{text}@{tensor.device.type}"
