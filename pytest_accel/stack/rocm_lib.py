"""Asking amdsmi, the vendor's library. Optional: it is imported only where the kernel's compute driver is, and may fail oddly."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_accel.stack.common import pci_address
from pytest_accel.stack.host import Host
from pytest_accel.stack.rocm_kfd import KFD_CLASS, named_driver, partition_name
from pytest_accel.stack.rocm_smi import Card, at, number, words
from pytest_accel.stack.types import Telemetry

_ACTIVE = {
    "active_prochot_thrm": "prochot",
    "active_socket_thrm": "socket-thermal",
    "active_vr_thrm": "vr-thermal",
    "active_hbm_thrm": "hbm-thermal",
}
_HOT_BITS = 0xFFFF << 32  # of the ASIC-independent throttle mask: power 0-15, current 16-31, temperature 32-47 (amdgpu)


def loaded(host: Host) -> Any | None:
    """The module, or None: absent, or failing (the wheel has no C library and raises KeyError or OSError then, and prints)."""
    if not host.exists(KFD_CLASS):
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        return host.library("amdsmi")


@contextmanager
def _started(smi: Any) -> Iterator[bool]:
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(smi.AmdSmiException):
            smi.amdsmi_shut_down()


def _ask(smi: Any, name: str, *arguments: Any) -> Any | None:
    """The answer of one call; None where this release lacks it, or the card does not support it."""
    function = getattr(smi, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except smi.AmdSmiException:
        return None


def _handles(smi: Any) -> Iterator[tuple[str | None, Any]]:
    for handle in _ask(smi, "amdsmi_get_processor_handles") or ():
        yield pci_address(_ask(smi, "amdsmi_get_gpu_device_bdf", handle)), handle


def cards(smi: Any) -> list[Card]:
    """The GPUs as the library tells them; empty where it does not start."""
    with _started(smi) as ready:
        return [_card(smi, pci, handle) for pci, handle in _handles(smi)] if ready else []


def _card(smi: Any, pci: str | None, handle: Any) -> Card:
    asic = _ask(smi, "amdsmi_get_gpu_asic_info", handle)
    device = at(asic, "device_id")
    if isinstance(device, str) and device.startswith("0x"):
        device = int(device, 16)
    megabytes = number(at(_ask(smi, "amdsmi_get_gpu_vram_info", handle), "vram_size"))
    cap = number(at(_ask(smi, "amdsmi_get_power_cap_info", handle), "power_cap"))
    name = at(asic, "market_name")
    return Card(
        pci=pci,
        name=str(name) if name and not str(name).startswith("0x") else None,
        ids=f"1002:{device:04x}" if isinstance(device, int) else None,
        gfx=_gfx(at(asic, "target_graphics_version")),
        memory_bytes=int(megabytes) * 2**20 if megabytes else None,
        driver=named_driver(words(_ask(smi, "amdsmi_get_gpu_driver_info", handle), "driver_version")),
        partition=partition_name(
            _ask(smi, "amdsmi_get_gpu_compute_partition", handle), _ask(smi, "amdsmi_get_gpu_memory_partition", handle)
        ),
        power_limit_w=cap / 1e6 if cap else None,  # told in µW
        vbios=words(_ask(smi, "amdsmi_get_gpu_vbios_info", handle), "version"),
    )


def _gfx(value: Any) -> str | None:
    text = str(value or "")
    return text if text.startswith("gfx") else None


def telemetry(smi: Any, pci: str) -> tuple[Telemetry, list[int] | None]:
    """State and processes of the GPU at ``pci``; all None where the library does not tell."""
    with _started(smi) as ready:
        handle = next((handle for place, handle in _handles(smi) if place == pci), None) if ready else None
        if handle is None:
            return Telemetry(), None
        power = _ask(smi, "amdsmi_get_power_info", handle)
        keys = ("current_socket_power", "socket_power", "average_socket_power")
        listed = _ask(smi, "amdsmi_get_gpu_process_list", handle)
        now = Telemetry(
            sm_clock_mhz=_clock(smi, handle, "GFX"),
            memory_clock_mhz=_clock(smi, handle, "MEM"),
            power_w=next((watts for key in keys if (watts := number(at(power, key)))), None),
            temperature_c=_temperature(smi, handle),
            throttled=_throttled(smi, handle),
        )
        return now, None if listed is None else [int(one["pid"]) for one in listed if _holds(one)]


def _holds(process: Any) -> bool:
    return bool(at(process, "pid")) and at(process, "memory_usage", "vram_mem") != 0


def _clock(smi: Any, handle: Any, which: str) -> int | None:
    kind = getattr(getattr(smi, "AmdSmiClkType", None), which, None)
    told = _ask(smi, "amdsmi_get_clock_info", handle, kind) if kind is not None else None
    value = number(at(told, "clk"))
    if value is None:
        value = number(at(told, "cur_clk"))  # before ROCm 6.2
    return int(value) if value is not None else None


def _temperature(smi: Any, handle: Any) -> float | None:
    """The hottest spot; MI300 has no edge sensor."""
    kinds, now = getattr(smi, "AmdSmiTemperatureType", None), getattr(smi, "AmdSmiTemperatureMetric", None)
    for name in ("HOTSPOT", "JUNCTION", "EDGE"):
        kind = getattr(kinds, name, None)
        if kind is not None and now is not None:
            value = number(_ask(smi, "amdsmi_get_temp_metric", handle, kind, now.CURRENT))
            if value:
                return value
    return None


def _throttled(smi: Any, handle: Any) -> tuple[str, ...]:
    """Heat and PROCHOT, not the ordinary cap on power: by the violations of MI300 and later, else by the mask of bits."""
    told = _ask(smi, "amdsmi_get_violation_status", handle)
    if told is not None:
        return tuple(word for key, word in _ACTIVE.items() if at(told, key) is True)
    mask = at(_ask(smi, "amdsmi_get_gpu_metrics_info", handle), "indep_throttle_status")
    return ("thermal",) if isinstance(mask, int) and mask != 2**64 - 1 and mask & _HOT_BITS else ()
