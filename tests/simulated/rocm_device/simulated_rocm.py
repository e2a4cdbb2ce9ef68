"""A torch that reports HIP while the CPU does the work.

ROCm's device type is ``cuda``, a name that no back end made in Python may take. So every call that names that device is led to
the host, and ``torch.cuda`` answers for a recorded MI210.

Loaded by ``import torch`` through an entry point in ``torch.backends``. ``SIM_ROCM_DEVICES`` says how many devices torch sees.
"""

from __future__ import annotations

import os
import time
import types

import simulated_host  # noqa: F401 - the measuring process reads the recorded machine too
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

HIP = os.environ["SIM_TORCH_HIP"]
DEVICES = int(os.environ.get("SIM_ROCM_DEVICES", "1"))
_CPU = torch.device("cpu")


class Event:
    """A point in time of a device that works at once: the host's clock."""

    def __init__(self, enable_timing: bool = False, **_) -> None:
        self._at = 0

    def record(self, stream=None) -> None:
        self._at = time.perf_counter_ns()

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        return (end._at - self._at) * 1e-6


class OnHost(TorchFunctionMode):
    """Leads what is meant for ``cuda`` to the host."""

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        def led(leaf):
            if isinstance(leaf, torch.device) and leaf.type == "cuda":
                return _CPU
            return _CPU if isinstance(leaf, str) and leaf.partition(":")[0] == "cuda" else leaf

        if func is torch.device:  # the name itself stays what it is
            return func(*args, **(kwargs or {}))
        return func(*tree_map(led, args), **tree_map(led, kwargs or {}))


def _visible() -> int:
    text = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if text is None:
        return DEVICES
    return sum(part.strip().isdigit() and int(part) < DEVICES for part in text.split(","))


def _properties(device=None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name="AMD Instinct MI210",
        gcnArchName="gfx90a:sramecc+:xnack-",
        total_memory=64 * 2**30,
        multi_processor_count=104,
        L2_cache_size=2**16,  # small: the host needs no emptying of a device's cache
        major=9,
        minor=0,
    )


def _register() -> None:
    cuda = torch.cuda
    torch.version.hip, torch.version.cuda = HIP, None
    cuda.is_available = lambda: _visible() > 0
    cuda.is_initialized = lambda: True
    cuda.init = cuda._lazy_init = lambda: None
    cuda.device_count = _visible
    cuda.current_device = lambda: 0
    cuda.synchronize = lambda device=None: None
    cuda.get_device_properties = _properties
    cuda.get_device_name = lambda device=None: _properties().name
    cuda.get_device_capability = lambda device=None: (9, 0)
    cuda.memory_allocated = cuda.max_memory_allocated = lambda device=None: 0
    cuda.memory_reserved = cuda.max_memory_reserved = lambda device=None: 0
    cuda.reset_peak_memory_stats = lambda device=None: None
    cuda.manual_seed_all = lambda seed: None
    cuda.nccl.version = lambda: (2, 22, 3)
    cuda.Event = Event
    torch.backends.cudnn.version = lambda: 3004000
    OnHost().__enter__()


def _autoload() -> None:
    """The entry point of ``torch.backends``."""
    if torch.version.hip is None:
        _register()
