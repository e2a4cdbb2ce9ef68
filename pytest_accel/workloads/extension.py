"""Code of one's own through torch: a small extension built, loaded and run, and a user's extensions. torch is imported inside."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.types import Unmeasured
from pytest_accel.workloads.domains import Values
from pytest_accel.workloads.fused_kernels import find
from pytest_accel.workloads.inputs import normal
from pytest_accel.workloads.judging import Case, Judged, judge, note_fault
from pytest_accel.workloads.rebuild import placed, read

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

SOURCES = Path(__file__).parent / "csrc"
#: By torch's own word for the device: the source that its compiler builds (for HIP torch translates it first).
DEVICE_SOURCE = {"cuda": "extension_device.cu"}
COUNT, BLOCK = 100_003, 1000  # the last block is short, and a block is no multiple of any warp


def extension(accel: Accelerator, device_code: bool = True, required: bool = False, seed: int = 0) -> dict[str, Any]:
    """Build a small C++ extension with ``torch.utils.cpp_extension``, load it, and run its two operators on the device.

    ``device_code`` builds a kernel for the device too, where torch knows how and a toolkit is there. Metrics beside the
    judgement: ``device_code`` (built, no-toolkit, or none: this kind of device has no source here) and ``build`` in
    seconds. Without a compiler it is UNMEASURED, or, where it is ``required``, an error. The build is always fresh, in a
    folder of its own that is removed.
    """
    import torch

    missing = _missing()
    if missing:
        if required:
            raise RuntimeError(f"{missing}, and the case says `required: true`")
        raise Unmeasured(missing)
    sources = ["extension.cpp"]
    word = "none"
    if device_code and accel.device.type in DEVICE_SOURCE:
        word = "built" if _toolkit() else "no-toolkit"
        sources += [DEVICE_SOURCE[accel.device.type]] if word == "built" else []
    folder = tempfile.mkdtemp(prefix="pytest-accel-extension-")
    began = time.perf_counter()
    try:
        name = _build(folder, sources)
        seconds = time.perf_counter() - began
        operators = getattr(torch.ops, name)
        found = _judged(accel, operators, on_device=word == "built" or accel.device.type == "cpu", seed=seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # the library stays loaded: its pages are mapped
    note_fault(accel, found, sources=sources)
    return {**found.metrics(), "device_code": word, "build": seconds}


def _missing() -> str:
    """What of a build is not on this machine, in words; empty where all is there."""
    from torch.utils import cpp_extension

    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler.split()[0]) is None:
        return f"there is no C++ compiler ({compiler}) to build an extension with: install g++, or set CXX"
    try:
        cpp_extension.verify_ninja_availability()
    except RuntimeError:
        return "ninja, with which torch builds extensions, is not installed: pip install ninja"
    return ""


def _toolkit() -> bool:
    """True where torch was built for a device whose compiler it finds."""
    from torch.utils import cpp_extension

    homes = [getattr(cpp_extension, name, None) for name in ("CUDA_HOME", "ROCM_HOME")]
    return any(home and (Path(home) / "bin").is_dir() for home in homes)


def _build(folder: str, sources: Sequence[str]) -> str:
    from torch.utils import cpp_extension

    name = f"accel_extension_{os.getpid()}_{time.monotonic_ns()}"  # a library's operators can be registered only once
    copies = []
    for source in sources:  # the translation to HIP writes beside its source
        copies.append(shutil.copy(SOURCES / source, folder))
    flags = ["-O1", f"-DACCEL_EXTENSION={name}"]
    device = any(source.endswith(".cu") for source in sources)
    cpp_extension.load(
        name=name,
        sources=copies,
        build_directory=folder,
        extra_cflags=flags,
        extra_cuda_cflags=flags if device else None,
        with_cuda=device,
        is_python_module=False,
        verbose=False,
    )
    return name


def _judged(accel: Accelerator, operators: Any, on_device: bool, seed: int) -> Judged:
    """Both operators; the sums only where the extension has a kernel for the device."""
    import torch

    cpu = torch.device("cpu")
    x, y = (normal((COUNT,), "float32", cpu, seed + i) for i in range(2))

    def run() -> list[torch.Tensor]:
        there = x.to(accel.device)
        out = [operators.axpy(there, y.to(accel.device), 0.5)]
        return [*out, operators.block_sum(there, BLOCK)] if on_device else out

    def sums(values: torch.Tensor) -> torch.Tensor:
        padded = torch.cat((values, values.new_zeros(-COUNT % BLOCK)))
        return padded.reshape(-1, BLOCK).sum(1)

    def compute(kind: torch.dtype) -> list[torch.Tensor]:
        out = [y.to(kind) + 0.5 * x.to(kind)]
        return [*out, sums(x.to(kind))] if on_device else out

    def size() -> list[torch.Tensor]:
        out = [y.double().abs() + 0.5 * x.double().abs()]
        return [*out, sums(x.double().abs())] if on_device else out

    return judge(accel, Case(run, compute, tolerances.of_operator("sum"), size))


def extension_call(
    accel: Accelerator,
    implementation: str,
    call: list[Any] | None = None,
    reference: str = "",
    seed: int = 0,
) -> dict[str, Any]:
    """Import an extension of the user's own and call it on tensors made from ``call``.

    ``implementation`` is ``package.module:function``, or ``torch.ops:namespace.operator`` for a registered operator
    whose package is imported by the suite's ``setup``. ``call`` are arguments as a trace writes them: ``float32:4x8`` a
    tensor of normal numbers, ``int64:4`` small whole ones, numbers as they are, texts as ``text:…``, keywords in a last
    map. ``reference`` is a plain Python function of the same arguments, which is called on the host in float64; without
    it a call that runs, with the same bits twice, is ``unverified``. A package that is not installed is UNMEASURED; one
    that can no longer be loaded raises ImportError.
    """
    import torch

    try:
        function = find(implementation)
    except NotImplementedError as error:
        lost = Judged("unsupported", str(error))
        note_fault(accel, lost, implementation=implementation)
        return lost.metrics()
    plain = find(reference) if reference else None
    names = [f"argument {place}" for place in range(len(call or []))]
    args, keywords = read(call or [], names, Values("", call or [], names, seed))

    def on(what: Any, device: torch.device, wide: torch.dtype | None = None) -> list[torch.Tensor]:
        with torch.no_grad():
            out = what(*placed(args, device, wide), **placed(keywords, device, wide))
        return [part for part in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(part, torch.Tensor)]

    case = Case(
        lambda: on(function, accel.device),
        None if plain is None else lambda kind: on(plain, torch.device("cpu"), kind),
        tolerances.of_operator("logsumexp"),
    )
    found = judge(accel, case)
    note_fault(accel, found, implementation=implementation, call=list(call or []))
    return found.metrics()
