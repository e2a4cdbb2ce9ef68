"""What Triton can do on this device, feature by feature: an upgrade of its compiler may lose one and keep the rest.

torch and triton are imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads.inputs import torch_dtype
from pytest_accel.workloads.judging import Case, judge, note_fault

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

BLOCK = 128
COUNT = 1000  # not a multiple of the block: the last program's tail is masked
SLOTS = 7
EXACT = Tolerance(0.0, 0.0, "none", 0.0, "whole numbers that every dtype here holds exactly")
LIBRARY = replace(
    tolerances.of_operator("exp"), source="vendors' math libraries state 1 to 4 ulp in float32 (CUDA C guide, table 7)"
)
CAST = tolerances.of_operator("to")
#: What a compiler says of a feature that its target lacks; anything else it says is a fault.
NOT_HERE = (
    "not supported",
    "unsupported",
    "not implemented",
    "only support",
    "no conversion",
    "has no attribute",
)


def triton_feature(accel: Accelerator, feature: str, dtype: str = "float32", seed: int = 0) -> dict[str, Any]:
    """Compile one small kernel for the device, run it twice, and judge what it gives.

    ``feature`` is atomic_add, atomic_max, atomic_cas, masked_load, dot, dot_tf32, reduce, scan, cast (from float32), or
    a function of the device's math library as ``libdevice_exp`` (also log, sin, tanh, erf, rsqrt, pow). A feature that
    the compiler refuses for the target is ``unsupported``.
    """
    try:
        from pytest_accel.workloads import triton_feature_kernels as kernels
    except ImportError as error:
        if error.name and error.name.partition(".")[0] == "triton":
            raise Unmeasured(f"triton cannot be imported: {error}") from error
        raise
    name, _, function = feature.partition("_") if feature.startswith("libdevice_") else (feature, "", "")
    if name not in FEATURES or (name == "libdevice" and function not in LIBRARY_FUNCTIONS):
        known = ", ".join([*(f for f in FEATURES if f != "libdevice"), *(f"libdevice_{f}" for f in LIBRARY_FUNCTIONS)])
        raise BadArguments(f"feature: must be one of {known}, not '{feature}'")
    case = FEATURES[name](kernels, accel.device, dtype, seed, function)
    found = judge(accel, replace(case, run=_told_plainly(case.run)))
    note_fault(accel, found, feature=feature, dtype=dtype, seed=seed)
    return found.metrics()


def _told_plainly(run: Callable[[], list[torch.Tensor]]) -> Callable[[], list[torch.Tensor]]:
    """``run`` with the compiler's "the target cannot do this" as NotImplementedError; its other errors as they are."""

    def told() -> list[torch.Tensor]:
        try:
            return run()
        except Exception as error:
            words = str(error).lower()
            compiling = type(error).__module__.startswith("triton")
            if compiling and any(phrase in words for phrase in NOT_HERE):
                raise NotImplementedError(" ".join(str(error).split())[-300:]) from error
            if compiling:
                raise RuntimeError(f"triton: {type(error).__name__}: {' '.join(str(error).split())[-300:]}") from error
            raise

    return told


def _whole(count: int, dtype: str, seed: int, low: int = -4, high: int = 5) -> torch.Tensor:
    import torch

    made = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, (count,), generator=made).to(torch_dtype(dtype))


def _programs(count: int = COUNT) -> tuple[int]:
    return (-(-count // BLOCK),)


def _atomic(kind: str) -> Callable[..., Case]:
    def make(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
        import torch

        unsigned = dtype.startswith("uint")
        x = _whole(COUNT, dtype, seed, 0 if unsigned else -4)
        low = 0 if kind == "add" or unsigned else -100

        def run() -> list[torch.Tensor]:
            out = torch.full((SLOTS,), low, dtype=x.dtype).to(device)
            kernel = kernels.atomic_add if kind == "add" else kernels.atomic_max
            kernel[_programs()](x.to(device), out, COUNT, SLOTS, BLOCK=BLOCK)
            return [out]

        def compute(to: torch.dtype) -> list[torch.Tensor]:
            slots = [x[slot::SLOTS].to(to) for slot in range(SLOTS)]
            return [torch.stack([slot.sum() if kind == "add" else slot.max() for slot in slots])]

        return Case(run, compute, EXACT)

    return make


def _compare_and_swap(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
    import torch

    programs = 64
    kind = torch_dtype(dtype)

    def run() -> list[torch.Tensor]:
        lock = torch.zeros(1, dtype=kind).to(device)
        seen = torch.full((programs,), -1, dtype=kind).to(device)
        winners = torch.zeros(1, dtype=torch.int32).to(device)
        kernels.atomic_cas[(programs,)](lock, seen, winners)
        value, found = int(lock.cpu()[0]), seen.cpu()
        # Which program wins is chance: what must hold is that one did, and that all others saw it.
        others = torch.cat((found[: value - 1], found[value:]))
        agree = bool(1 <= value <= programs and int(found[value - 1]) == 0 and bool((others == value).all()))
        return [winners.cpu(), torch.tensor([agree])]

    return Case(run, lambda to: [torch.tensor([1], dtype=torch.int32), torch.tensor([True])], EXACT)


def _masked(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
    import torch

    x = _whole(COUNT, dtype, seed)
    size = _programs()[0] * BLOCK

    def run() -> list[torch.Tensor]:
        out = torch.zeros(size, dtype=x.dtype).to(device)
        kernels.masked_load[_programs()](x.to(device), out, COUNT, 9, BLOCK=BLOCK)
        return [out]

    def compute(to: torch.dtype) -> list[torch.Tensor]:
        place = torch.arange(size)
        padded = torch.cat((x, x.new_zeros(size - COUNT))).to(to)
        return [torch.where((place < COUNT) & (place % 3 != 1), padded, torch.full_like(padded, 9))]

    return Case(run, compute, EXACT)


def _dot(precision: str) -> Callable[..., Case]:
    def make(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
        import torch

        m, n, k = 32, 32, 64
        a, b = (_whole(k * 32, dtype, seed + i).reshape(shape) for i, shape in enumerate(((m, k), (k, n))))
        total = torch.int32 if dtype == "int8" else torch.float32

        def run() -> list[torch.Tensor]:
            out = torch.zeros(m, n, dtype=total).to(device)
            kernels.dot[(1,)](a.to(device), b.to(device), out, M=m, N=n, K=k, PRECISION=precision)
            return [out]

        # Whole numbers from -4 to 4 and sums below 2^11 are exact in every format, TF32 among them.
        return Case(run, lambda to: [(a.double() @ b.double()).to(to)], EXACT)

    return make


def _rows(kind: str) -> Callable[..., Case]:
    def make(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
        import torch

        x = _whole(8 * BLOCK, dtype, seed).reshape(8, BLOCK)
        total = torch.int32 if dtype.startswith(("int", "uint")) else torch.float32

        def run() -> list[torch.Tensor]:
            out = torch.zeros((8, BLOCK) if kind == "scan" else (8,), dtype=total).to(device)
            kernel = kernels.scan_sum if kind == "scan" else kernels.reduce_sum
            kernel[(8,)](x.to(device), out, COLUMNS=BLOCK)
            return [out]

        def compute(to: torch.dtype) -> list[torch.Tensor]:
            wide = x.to(to)
            return [wide.cumsum(-1) if kind == "scan" else wide.sum(-1)]

        return Case(run, compute, EXACT)

    return make


def _cast(kernels: Any, device: torch.device, dtype: str, seed: int, _: str) -> Case:
    import torch

    x = torch.randn(COUNT, generator=torch.Generator().manual_seed(seed))
    target = torch_dtype(dtype)

    def run() -> list[torch.Tensor]:
        out = torch.zeros(COUNT, dtype=target).to(device)
        kernels.cast[_programs()](x.to(device), out, COUNT, BLOCK=BLOCK)
        return [out]

    return Case(run, lambda to: [x.to(to)], CAST)


def _library(kernels: Any, device: torch.device, dtype: str, seed: int, function: str) -> Case:
    import torch

    x = torch.rand(4 * BLOCK, generator=torch.Generator().manual_seed(seed)).to(torch_dtype(dtype)) * 4 + 0.125

    def run() -> list[torch.Tensor]:
        out = torch.zeros_like(x).to(device)
        getattr(kernels, f"library_{function}")[(4,)](x.to(device), out, BLOCK=BLOCK)
        return [out]

    return Case(run, lambda to: [LIBRARY_FUNCTIONS[function](x.to(to))], LIBRARY)


LIBRARY_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "erf": lambda x: x.erf(),
    "rsqrt": lambda x: x.rsqrt(),
    "pow": lambda x: x**x,
}
FEATURES: Mapping[str, Callable[..., Case]] = {
    "atomic_add": _atomic("add"),
    "atomic_max": _atomic("max"),
    "atomic_cas": _compare_and_swap,
    "masked_load": _masked,
    "dot": _dot("ieee"),
    "dot_tf32": _dot("tf32"),
    "reduce": _rows("reduce"),
    "scan": _rows("scan"),
    "cast": _cast,
    "libdevice": _library,
}
