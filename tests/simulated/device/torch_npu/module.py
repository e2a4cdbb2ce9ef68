"""``torch.npu``: the calls of the real module that the host can answer."""

from __future__ import annotations

import os
import time
import types

import torch

from torch_npu import faults, switches
from torch_npu.tensor import MEMORY

_NAME = "Ascend910B3"


class Event:
    """A point in time of a device that works at once: the host's clock."""

    def __init__(self, enable_timing: bool = False, **_) -> None:
        self._at: int | None = None
        self._timing = enable_timing

    def record(self, stream=None) -> None:
        self._at = time.perf_counter_ns()

    def synchronize(self) -> None:
        faults.alive()

    def query(self) -> bool:
        return True

    def wait(self, stream=None) -> None:
        faults.alive()

    def elapsed_time(self, end: Event) -> float:
        if self._at is None or end._at is None or not self._timing:
            raise RuntimeError("Both events must be recorded, with timing enabled, before calculating elapsed time.")
        return (end._at - self._at) * 1e-6


class Stream:
    """A queue that is always empty."""

    def __init__(self, device=None, priority: int = 0, **_) -> None:
        self.device = torch.device("npu", 0)

    def synchronize(self) -> None:
        faults.alive()

    def wait_stream(self, stream) -> None: ...

    def wait_event(self, event) -> None: ...

    def record_event(self, event=None):
        event = event or Event()
        event.record()
        return event

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None: ...


def _visible() -> int:
    text = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if text is None:
        return switches.DEVICES
    count = 0
    for part in text.split(","):
        if not part.strip().isdigit() or int(part) >= switches.DEVICES:
            break
        count += 1
    return count


def _place(device=None) -> int:
    if device is None:
        return npu._current
    return device if isinstance(device, int) else torch.device(device).index or 0


def _set_device(device) -> None:
    index = _place(device)
    if not 0 <= index < _visible():
        raise RuntimeError(
            f"SetDevice: NPU function error: aclrtSetDevice, error code is 107001\nEE1001: Invalid device ID {index}"
        )
    faults.alive()
    npu._current = index


def _synchronize(device=None) -> None:
    faults.alive()


def _properties(device=None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=_NAME,
        total_memory=switches.MEMORY,
        cube_core_num=20,
        vector_core_num=40,
        L2_cache_size=2**16,  # small: the host needs no emptying of a device's cache
        multi_processor_count=20,
        major=None,
        minor=None,
    )


def _reset_peak(device=None) -> None:
    MEMORY[_place(device)].peak = MEMORY[_place(device)].now


npu = types.ModuleType("torch.npu")
npu._current = 0
npu.Event = Event
npu.Stream = Stream
npu.is_initialized = lambda: True
npu.is_available = lambda: _visible() > 0
npu.init = npu._lazy_init = lambda: None
npu._is_in_bad_fork = lambda: False
npu.device_count = _visible
npu.current_device = lambda: npu._current
npu.set_device = _set_device
npu.synchronize = _synchronize
npu.current_stream = npu.default_stream = lambda device=None: Stream()
npu.stream = lambda stream: stream
npu.get_device_name = lambda device=None: _NAME
npu.get_device_properties = _properties
npu.get_device_capability = lambda device=None: None
npu.get_soc_version = lambda: 223
npu.is_bf16_supported = lambda: True
npu.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
npu.manual_seed = npu.manual_seed_all = lambda seed: None
npu.get_rng_state = lambda device=None: torch.get_rng_state()
npu.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
npu.empty_cache = lambda: None
npu.mem_get_info = lambda device=None: (switches.MEMORY - MEMORY[_place(device)].now, switches.MEMORY)
npu.memory_allocated = npu.memory_reserved = lambda device=None: MEMORY[_place(device)].now
npu.max_memory_allocated = npu.max_memory_reserved = lambda device=None: MEMORY[_place(device)].peak
npu.reset_peak_memory_stats = _reset_peak
npu.utils = types.SimpleNamespace(is_support_inf_nan=lambda: not switches.SATURATE)
npu.config = types.SimpleNamespace(allow_internal_format=False)
