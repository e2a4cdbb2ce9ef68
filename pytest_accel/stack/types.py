"""What travels out of ``stack/``: probes, devices, the stack, findings. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["absent", "present", "broken"]
Severity = Literal["error", "warning", "note"]
Value = str | int | float | bool | None


class ErrorKind:
    """What a device error means, whoever the vendor is (words, so that they travel in JSON)."""

    UNSUPPORTED = "unsupported"
    DTYPE_UNSUPPORTED = "dtype-unsupported"
    FALLBACK = "fallback"
    OUT_OF_MEMORY = "oom"
    POISONED = "poisoned"
    OTHER = "other"


@dataclass(frozen=True)
class Device:
    """One physical device, or one partition of it, as the probe sees it.

    ``memory_bytes`` is in bytes; ``capability`` is the compute capability where the vendor has one; a value that could
    not be read is None, never 0. ``identity`` is a hash of the UUID (or PCI address): what baselines store.
    """

    index: int
    name: str
    uuid: str | None = None
    pci: str | None = None
    memory_bytes: int | None = None
    partition: str | None = None
    architecture: str | None = None
    capability: tuple[int, int] | None = None
    identity: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that doctor found: a stable code, how bad it is, a sentence, and the mend."""

    code: str
    severity: Severity
    message: str
    mend: str = ""


@dataclass(frozen=True)
class Probe:
    """What one platform found on this machine without initialising a device.

    ``state`` is "broken" where hardware or a driver is there and does not answer: ``reason`` then carries the vendor's own
    words and ``mend`` what to do. ``slug`` names the baseline folder (hardware only, never a version).
    """

    platform: str
    state: State
    reason: str = ""
    mend: str = ""
    slug: str = ""
    devices: tuple[Device, ...] = ()
    hardware: Mapping[str, Value] = field(default_factory=dict)
    versions: Mapping[str, Value] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Stack:
    """All that can change a result: see the word "stack" in the interface."""

    platform: str
    hardware: Mapping[str, Value] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
    versions: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """What was chosen for this run: the platform, its probe, and why.

    ``unfit`` is None where the machine may judge; else ``(code, sentence)`` of the ENV verdict for every variant.
    ``machine_id`` is a hash of the host's id, ``explicit`` says that a platform was named (not ``auto``).
    """

    platform: str
    probe: Probe
    explicit: bool
    why: str
    machine_id: str
    unfit: tuple[str, str] | None = None


@dataclass(frozen=True)
class Telemetry:
    """The state of one device at one moment; None where the platform cannot say.

    Units: MHz, watts, degrees Celsius. ``throttled`` holds only reasons that make a timing invalid (thermal, hardware
    slow-down, power brake), not the ordinary power cap. ``other_processes`` counts processes on the device that are not
    the given ones.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled: tuple[str, ...] = ()
    other_processes: int | None = None


@dataclass(frozen=True)
class Roof:
    """What a device can do at most, for plausibility and share-of-roof figures, with its source.

    ``tflops`` maps a dtype name (``float16``, ``tf32``, …) to dense TFLOP/s; ``gbps`` is memory bandwidth in GB/s.
    """

    tflops: Mapping[str, float]
    gbps: float
    source: str
