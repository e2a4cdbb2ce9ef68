"""The host's own processors as a platform: a real one, where runs are checked, and never a quiet stand-in for another."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pytest_accel.stack import cpu_probe, error_texts, torch_settings, variation
from pytest_accel.stack.common import host_versions, switches
from pytest_accel.stack.host import Host
from pytest_accel.stack.platform import DeviceEvent
from pytest_accel.stack.torch_like import COMMON_SETTINGS, seed_host
from pytest_accel.stack.types import Device, Probe, Roof, Telemetry, Value

if TYPE_CHECKING:
    import torch

SETTINGS = (*COMMON_SETTINGS, "mkldnn", "num_threads", "flush_denormal")

#: Variables by which libraries choose other kernels: versions of a kind, so they are judged and not part of a key.
SWITCHES = (
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "ATEN_CPU_CAPABILITY",
    "OPENBLAS_CORETYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
)


class HostEvent:
    """The host's clock. Work on the host is done when its call returns, so the clock is read after it."""

    def __init__(self) -> None:
        self._at = 0.0

    def record(self) -> None:
        """Read the clock."""
        self._at = time.perf_counter()

    def elapsed_ms(self, later: DeviceEvent) -> float:
        """Milliseconds to ``later``."""
        assert isinstance(later, HostEvent)
        return (later._at - self._at) * 1e3


class CpuPlatform:
    """See ``stack.platform.Platform``. No roof is known and no telemetry read."""

    name = "cpu"
    device_type = "cpu"
    visible_env: tuple[str, ...] = ()
    measuring_env: Mapping[str, str] = {}
    default_env: Mapping[str, str] = {}
    collective_backend = "gloo"
    may_vary = variation.HOST
    debug_commands = ("valgrind python reproduce.py", "perf record -g python reproduce.py")
    settings_allowed: Mapping[str, type] = torch_settings.allowed(SETTINGS)

    def probe(self, host: Host) -> Probe:
        """Always present: one device, the processors that this process may use."""
        hardware = cpu_probe.hardware(host)
        memory = hardware["memory_bytes"]
        device = Device(
            index=0,
            name=str(hardware["name"]),
            memory_bytes=memory if isinstance(memory, int) else None,
            architecture=str(hardware["architecture"]),
        )
        versions: dict[str, Value] = {
            "driver": None,
            "toolkit": None,
            "microcode": cpu_probe.microcode(host),
            **host_versions(host),
            **switches(host, SWITCHES),
        }
        return Probe(
            platform=self.name,
            state="present",
            slug=f"cpu-{hardware['architecture']}",
            devices=(device,),
            hardware=hardware,
            versions=versions,
        )

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """Nothing: the host's clocks say nothing of the cores that a process will get."""
        return Telemetry()

    def roof(self, device: Device) -> Roof | None:
        """None: what a processor can do depends on clocks that no table gives."""
        return None

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` of a message of torch's."""
        return error_texts.classify(text)

    # --- in the measuring process --------------------------------------------------------------------------------------
    def torch_device(self, index: int) -> torch.device:
        """The host."""
        import torch

        return torch.device("cpu")

    def check(self, index: int) -> None:
        """Add and read back. Raises RuntimeError where the sum is wrong."""
        import torch

        total = float((torch.ones(64) + torch.ones(64)).sum())
        if total != 128.0:
            raise RuntimeError(f"the CPU says that 64 times 2 is {total}")

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """Nothing that the probe has not seen."""
        return {}

    def versions_loaded(self) -> dict[str, Value]:
        """torch, the MKL and oneDNN that it was built with, the instruction set its kernels use, library switches in force."""
        import torch

        built = torch.__config__.show()
        capability = getattr(torch.backends.cpu, "get_cpu_capability", lambda: None)()
        return {
            "torch": str(torch.__version__),
            "torch_git": getattr(torch.version, "git_version", None),
            "mkl": _found(r"Math Kernel Library Version ([\d.]+)", built),
            "onednn": _found(r"MKL-DNN v(\S+)", built),
            "cpu_capability": str(capability) if capability else None,
            **{name: os.environ.get(name) for name in SWITCHES},
        }

    def settings(self) -> dict[str, Value]:
        """The settings in force now."""
        return torch_settings.read(SETTINGS)

    def pinned(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Put ``settings`` in force inside the block. Raises ConfigError where that cannot be done."""
        return torch_settings.pinned(settings, SETTINGS)

    def synchronize(self, index: int) -> None:
        """Nothing to wait for: calls return when their work is done."""

    def event(self) -> DeviceEvent:
        """A reading of the host's clock."""
        return HostEvent()

    def graph(self, index: int, fn: Callable[[], object]) -> Callable[[], object] | None:
        """None: the host launches its own work."""
        return None

    def memory(self, index: int) -> dict[str, int]:
        """Empty: torch keeps no count of the host's memory."""
        return {}

    def reset_peak_memory(self, index: int) -> None:
        """Nothing to reset."""

    def seed(self, value: int) -> None:
        """Seed the generators."""
        seed_host(value, devices=False)

    def cache_bytes(self, index: int) -> int:
        """0: a warm cache is the ordinary state of work on the host, and flushing it would time the flush's own traffic."""
        return 0


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match.group(1) if match else None
