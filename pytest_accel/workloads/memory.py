"""The most memory that a step takes, allocated and reserved, on devices and on the host.

A step is a built-in one or ``package.module:function`` of the user's own: a function of the accelerator that prepares
everything and returns the step to be called. MB are 1e6 bytes. torch is imported inside.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import host_memory
from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads.steps import STEPS

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator

Metrics = dict[str, "float | str | Sequence[float]"]
MB = 1e6
LOOKS = 5  # a looking thread that is held up in one call sees the peak in another


def memory_peak(
    accel: Accelerator,
    implementation: str,
    shape: list[int] | None = None,
    dtype: str = "bfloat16",
    cap: str = "",
    seed: int = 0,
    min_time: float = 0.2,
) -> Metrics:
    """Measure a step's peak of allocated and reserved memory, and its time.

    ``implementation``: ``attention`` (shape ``[batch, heads, sequence, head size]``), ``conv3d_autocast`` (``[batch, channels
    in, channels out, depth, height, width]``), ``training_step`` (``[batch, sequence, width, layers]``), each forward and
    backward, or the user's own ``package.module:function``. ``cap`` is a size (``24GiB``) that the step must fit in.
    ``conv3d_autocast`` also runs its chain in float32: ``peak_to_float32`` is the ratio of the two peaks.
    """
    accel.seed(seed)
    step, start = _prepared(accel, implementation, shape, dtype)
    peak, reserved = peak_of(accel, step, start)
    metrics: Metrics = {"peak_allocated": peak / MB}
    if reserved is not None:
        metrics["peak_reserved"] = reserved / MB
        metrics["fragmentation"] = fragmentation(peak, reserved)
    metrics.update(shares(accel, max(peak, reserved or 0.0), cap))
    metrics["time"] = accel.time(step, min_time=min_time)
    del step
    if implementation == "conv3d_autocast" and dtype != "float32":
        plain, start = _prepared(accel, implementation, shape, "float32")
        metrics["peak_to_float32"] = peak / peak_of(accel, plain, start)[0]
    return metrics


def _prepared(
    accel: Accelerator, implementation: str, shape: list[int] | None, dtype: str
) -> tuple[Callable[[], object], int]:
    """The step, called twice so that what it keeps (gradients, plans) is there; bytes in use before it was made.

    A first one is made, called and dropped before: modules that are imported and workspaces that libraries take at first
    use stay for the whole process, so they would be counted in whichever variant comes first.
    """
    step = _made(accel, implementation, shape, dtype)
    step()
    del step
    clear(accel)
    start = in_use(accel)
    step = _made(accel, implementation, shape, dtype)
    step()
    step()
    accel.synchronize()
    return step, start


def _made(accel: Accelerator, implementation: str, shape: list[int] | None, dtype: str) -> Callable[[], object]:
    built_in = STEPS.get(implementation)
    if built_in is not None:
        return built_in(accel, list(shape or ()), dtype)
    step: Any = own_step(implementation)(accel)
    if not callable(step):
        what = f"implementation: {implementation} returned {type(step).__name__}"
        raise BadArguments(f"{what}; it must return the step, a function")
    return step  # type: ignore[no-any-return]


def own_step(implementation: str) -> Callable[..., Any]:
    """The user's function ``package.module:function``. Raises BadArguments for another name; import errors pass through."""
    module, colon, name = implementation.partition(":")
    if not colon or not module or not name.isidentifier():
        raise BadArguments(
            f"implementation: '{implementation}' is neither one of {', '.join(STEPS)} nor package.module:function"
        )
    function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise BadArguments(f"implementation: {implementation} is no function")
    return function  # type: ignore[no-any-return]


def peak_of(accel: Accelerator, step: Callable[[], object], start: int) -> tuple[float, float | None]:
    """Peak bytes of one call beyond ``start``, and reserved bytes at their peak (None on the host, which reserves nothing).

    On the host: the most of ``LOOKS`` calls by malloc's count, which does not depend on what ran before; where nobody keeps
    that, what one call makes resident beyond what was. Raises Unmeasured where the kernel tells neither.
    """
    clear(accel)
    if accel.memory():
        accel.reset_peak_memory()
        step()
        accel.synchronize()
        seen = accel.memory()
        return float(seen["peak_allocated"] - start), float(seen["peak_reserved"])
    if host_memory.live_bytes() is not None:
        with host_memory.LivePeak() as peak:
            for _ in range(LOOKS):
                step()
        return float(peak.bytes - start), None
    if not host_memory.reset_peak():
        raise Unmeasured("this kernel does not let a process reset its peak (/proc/self/clear_refs)")
    before = host_memory.resident_bytes()
    step()
    top = host_memory.peak_resident_bytes()
    if before is None or top is None:
        raise Unmeasured("this system does not tell a process's memory (/proc/self/status)")
    return float(top - before), None


def clear(accel: Accelerator) -> None:
    """Collect what is unreachable, and give cached device memory back, so that no earlier work is counted."""
    import torch

    gc.collect()
    accel.synchronize()
    if accel.memory():
        torch.get_device_module(accel.device.type).empty_cache()


def in_use(accel: Accelerator) -> int:
    """Bytes in use now: the device's, or malloc's on the host (0 where nobody counts them)."""
    seen = accel.memory()
    return seen["allocated"] if seen else host_memory.live_bytes() or 0


def fragmentation(allocated: float, reserved: float) -> float:
    """Per cent of the reserved memory that lay idle at the peak."""
    return max(0.0, 100.0 * (1.0 - allocated / reserved)) if reserved > 0 else 0.0


def shares(accel: Accelerator, peak: float, cap: str) -> dict[str, float]:
    """``peak`` bytes as per cent of the usable total (where it is known) and of the cap (where one is declared)."""
    found: dict[str, float] = {}
    usable = usable_bytes(accel)
    if usable:
        found["peak_share"] = 100.0 * peak / usable
    if cap:
        found["cap_share"] = 100.0 * peak / cap_bytes(cap)
    return found


def usable_bytes(accel: Accelerator) -> int | None:
    """The device's memory, or what the machine or the control group lets this process have; None where not known."""
    found = accel.stack.hardware.get("memory_bytes")
    return found if isinstance(found, int) and found > 0 else None


def cap_bytes(cap: str) -> int:
    """A size such as ``24GiB`` in bytes. Raises BadArguments."""
    from pytest_accel.errors import ConfigError
    from pytest_accel.suite.units import size_in_bytes

    try:
        return size_in_bytes(cap)
    except ConfigError as error:
        raise BadArguments(f"cap: {error}") from None
