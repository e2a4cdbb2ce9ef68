"""The half of a platform that uses torch, for devices whose torch module follows ``torch.cuda``'s shape."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pytest_accel.stack import torch_settings
from pytest_accel.stack.chips import slug_of
from pytest_accel.stack.platform import DeviceEvent
from pytest_accel.stack.roofs import ROOFS, cache_bytes
from pytest_accel.stack.types import Device, Roof, Value

if TYPE_CHECKING:
    import torch

COMMON_SETTINGS = (
    "float32_matmul_precision",
    "deterministic_algorithms",
    "sdp_flash",
    "sdp_mem_efficient",
    "sdp_math",
)

WARM_CALLS = 3  # before a capture, as torch's own documentation of graphs asks


class StreamEvent:
    """An event of the device's own stream, which times device work and not the host's calls."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def record(self) -> None:
        """Mark this point in the current stream."""
        self._event.record()

    def elapsed_ms(self, later: DeviceEvent) -> float:
        """Milliseconds of device time to ``later``; raises RuntimeError where one of the two has not completed."""
        assert isinstance(later, StreamEvent)
        return float(self._event.elapsed_time(later._event))


def seed_host(value: int, devices: bool = True) -> None:
    """Seed Python's, numpy's (where it is loaded) and torch's generators; with ``devices`` every device's too (slower)."""
    import torch

    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % 2**32)
    if devices:
        torch.manual_seed(value)
    else:
        torch.default_generator.manual_seed(value)


class TorchLike:
    """What can be done through ``torch.get_device_module(device_type)``. The names are those of ``stack.platform.Platform``."""

    name: str
    vendor: str
    device_type: str
    setting_names: tuple[str, ...] = COMMON_SETTINGS
    measuring_env: Mapping[str, str] = {}
    default_env: Mapping[str, str] = {}
    graph_class = "CUDAGraph"

    def roof(self, device: Device) -> Roof | None:
        """The data sheet's figures of a whole chip; None for a part of one, and for a chip that is in no table."""
        if device.partition or " MIG " in f"{device.name} ":
            return None
        return ROOFS.get(slug_of(self.vendor, device.name))

    def _module(self) -> Any:
        import torch

        return torch.get_device_module(self.device_type)

    def torch_device(self, index: int) -> torch.device:
        """The torch device of the ``index``-th visible device."""
        import torch

        return torch.device(self.device_type, index)

    def check(self, index: int) -> None:
        """Add on the device and read the sum back. Raises RuntimeError where it fails or the sum is wrong."""
        import torch

        ones = torch.ones(64, device=self.torch_device(index))
        total = float((ones + ones).sum().item())
        self.synchronize(index)
        if total != 128.0:
            raise RuntimeError(f"{self.device_type}:{index} says that 64 times 2 is {total}")

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """Name and memory as torch sees them; None for what its properties lack."""
        properties = self._module().get_device_properties(index)
        return {
            "name": str(properties.name).strip() or None,
            "memory_bytes": int(properties.total_memory),
            "multiprocessors": getattr(properties, "multi_processor_count", None),
        }

    def versions_loaded(self) -> dict[str, Value]:
        """torch's and its compiler's versions as loaded."""
        import torch

        return {"torch": str(torch.__version__), "torch_git": getattr(torch.version, "git_version", None)}

    def settings(self) -> dict[str, Value]:
        """The settings in force now."""
        return torch_settings.read(self.setting_names)

    def pinned(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Put ``settings`` in force inside the block. Raises ConfigError where that cannot be done."""
        return torch_settings.pinned(settings, self.setting_names)

    def synchronize(self, index: int) -> None:
        """Wait for all work on the device."""
        self._module().synchronize(index)

    def event(self) -> DeviceEvent:
        """A timing event of the current stream."""
        return StreamEvent(self._module().Event(enable_timing=True))

    def graph(self, index: int, fn: Callable[[], object]) -> Callable[[], object] | None:
        """Capture through the device module's ``graph``; None in a torch or an extension without one."""
        module = self._module()
        make, capture = getattr(module, self.graph_class, None), getattr(module, "graph", None)
        if make is None or capture is None:
            return None
        side = module.Stream(device=index)
        side.wait_stream(module.current_stream(index))
        with module.stream(side):  # lazy set-up of libraries must not happen while capturing
            for _ in range(WARM_CALLS):
                fn()
        module.current_stream(index).wait_stream(side)
        made = make()
        with capture(made):
            fn()
        replay: Callable[[], object] = made.replay
        return replay

    def memory(self, index: int) -> dict[str, int]:
        """Bytes that torch's allocator holds, and their peaks."""
        module = self._module()
        return {
            "allocated": int(module.memory_allocated(index)),
            "peak_allocated": int(module.max_memory_allocated(index)),
            "reserved": int(module.memory_reserved(index)),
            "peak_reserved": int(module.max_memory_reserved(index)),
        }

    def reset_peak_memory(self, index: int) -> None:
        """Start the peak counts anew."""
        self._module().reset_peak_memory_stats(index)

    def seed(self, value: int) -> None:
        """Seed the host's and the device's generators."""
        seed_host(value)

    def cache_bytes(self, index: int) -> int:
        """The last-level cache in bytes: torch's device properties, and a table for what they do not tell; 0 where neither."""
        properties = self._module().get_device_properties(index)
        queried = int(getattr(properties, "L2_cache_size", 0) or 0)
        return cache_bytes(slug_of(self.vendor, str(properties.name)), queried)
