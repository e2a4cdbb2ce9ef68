"""What a platform must offer. Two halves: a probe that initialises no device, and the use of it in a measuring process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from pytest_accel.stack.types import Device, Probe, Roof, Telemetry, Value

if TYPE_CHECKING:
    import torch

    from pytest_accel.stack.host import Host


class DeviceEvent(Protocol):
    """A point in the device's stream of work."""

    def record(self) -> None:
        """Mark this point in the current stream."""

    def elapsed_ms(self, later: DeviceEvent) -> float:
        """Milliseconds of device time from this event to ``later``; both must have completed."""


class Platform(Protocol):
    """One vendor's stack. Registered by name; everything that differs between vendors is behind this class.

    ``device_type`` is torch's word for the device; ``visible_env`` the variables that narrow which devices a process sees
    (the first is the one to set); ``measuring_env`` the variables that would hide a fault, with the value that every
    measuring process gets where the caller's differs; ``default_env`` those that it gets where the caller set none;
    ``may_vary`` the operators that may differ from call to call (see
    ``stack.variation``); ``debug_commands`` call the vendor's profiler and sanitizer on a file ``reproduce.py``;
    ``collective_backend`` is the default name for ``torch.distributed``; ``settings_allowed`` maps
    each setting a suite may pin on this platform to its Python type.
    """

    name: str
    device_type: str
    visible_env: tuple[str, ...]
    measuring_env: Mapping[str, str]
    default_env: Mapping[str, str]
    may_vary: frozenset[str]
    debug_commands: tuple[str, ...]
    collective_backend: str
    settings_allowed: Mapping[str, type]

    # --- without torch, in any process -------------------------------------------------------------------------------
    def probe(self, host: Host) -> Probe:
        """Say what is here from files, the vendor's library and its tools; initialises no device."""

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """The state of ``device`` now; fields that cannot be read are None."""

    def roof(self, device: Device) -> Roof | None:
        """The most the device can do, or None for a device that is in no table (nothing is guessed)."""

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` that an error message of torch or the driver means on this platform."""

    # --- with torch, in the process that measures --------------------------------------------------------------------
    def torch_device(self, index: int) -> torch.device:
        """The torch device of the ``index``-th visible device."""

    def check(self, index: int) -> None:
        """Do a little work on the device and wait for it. Raises RuntimeError with the vendor's words where it fails."""

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """Hardware facts as torch sees them."""

    def versions_loaded(self) -> dict[str, Value]:
        """Versions of the libraries as loaded in this process (torch, its toolkit, BLAS, DNN, collectives, …)."""

    def settings(self) -> dict[str, Value]:
        """The closed list of settings that can change a result, as in force in this process now."""

    def pinned(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Put ``settings`` in force inside the ``with`` block and restore what was there before."""

    def synchronize(self, index: int) -> None:
        """Wait for all work on the device."""

    def event(self) -> DeviceEvent:
        """A new timing event; on a platform without device events a host clock read after the work is done."""

    def graph(self, index: int, fn: Callable[[], object]) -> Callable[[], object] | None:
        """Capture the device work of ``fn`` and return what replays it in one launch; None where the platform has no graphs.

        ``fn`` is called some times first. Raises RuntimeError where its work cannot be captured.
        """

    def memory(self, index: int) -> dict[str, int]:
        """Bytes: ``allocated``, ``peak_allocated``, ``reserved``, ``peak_reserved``; empty where torch keeps no count."""

    def reset_peak_memory(self, index: int) -> None:
        """Start the peak counts anew."""

    def seed(self, value: int) -> None:
        """Seed the host's and the device's generators."""

    def cache_bytes(self, index: int) -> int:
        """Size of the last-level cache to flush between timed iterations, in bytes; 0 where there is nothing to flush."""
