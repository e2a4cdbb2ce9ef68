"""Asking NVML through the ``pynvml`` module (nvidia-ml-py). It needs no CUDA context; it is started and stopped each time."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_accel.stack.common import other_processes, pci_address
from pytest_accel.stack.cuda_cards import Answer, Card, Part, chip_ids, throttled
from pytest_accel.stack.cuda_text import NO_PERMISSION, failure_of_nvml
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Device, Telemetry

_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
# NVML_TOPOLOGY_*, NVML_P2P_CAPS_INDEX_NVLINK, NVML_NVLINK_MAX_LINKS
_ANCESTORS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P_NVLINK, _LINKS = 2, 18
_GPU, _SM, _MEMORY = 0, 1, 2  # NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM


def cards(nvml: Any) -> Answer:
    """Every card that the driver lets this process see. A failure of the whole library is an answer, not an exception."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Answer("NVML", failure=failure_of_nvml(int(error.value), str(error)))
    try:
        found, handles, lost = [], [], []
        for index in range(int(_ask(nvml, "nvmlDeviceGetCount") or 0)):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                found.append(_card(nvml, handle))
                handles.append(handle)
            except nvml.NVMLError as error:
                if error.value != NO_PERMISSION:  # a card that the control group hides is not this process's
                    lost.append(f"card {index}: {error} ({error.value})")
        packed = _ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        return Answer(
            source="NVML",
            cards=tuple(found),
            driver=_text(_ask(nvml, "nvmlSystemGetDriverVersion")),
            cuda=f"{packed // 1000}.{packed % 1000 // 10}" if packed else None,
            lost=tuple(lost),
            links=_links(nvml, handles),
        )
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, handle: Any) -> Card:
    pci = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
    mig = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    ecc = _ask(nvml, "nvmlDeviceGetEccMode", handle)
    limit = _ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    mode = _ask(nvml, "nvmlDeviceGetComputeMode", handle)
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    uuid = _text(_ask(nvml, "nvmlDeviceGetUUID", handle))
    return Card(
        name=_text(nvml.nvmlDeviceGetName(handle)) or "NVIDIA",
        uuid=uuid,
        pci=pci_address(_text(pci.busId)) if pci is not None else None,
        ids=chip_ids(int(pci.pciDeviceId)) if pci is not None else None,
        memory_bytes=int(memory.total) if memory is not None else None,
        capability=(int(capability[0]), int(capability[1])) if capability is not None else None,
        mig=bool(mig[0]) if mig is not None else None,
        ecc=bool(ecc[0]) if ecc is not None else None,
        power_limit_w=limit / 1000 if limit is not None else None,
        compute_mode=_COMPUTE_MODES.get(mode) if mode is not None else None,
        vbios=_text(_ask(nvml, "nvmlDeviceGetVbiosVersion", handle)),
        firmware=_text(_ask(nvml, "nvmlDeviceGetGspFirmwareVersion", handle)),
        parts=tuple(_parts(nvml, handle, uuid)) if mig is not None and mig[0] else (),
    )


def _links(nvml: Any, handles: Sequence[Any]) -> dict[tuple[int, int], str]:
    """How cards are joined, in nvidia-smi's words: ``NV`` and the number of active links, else their nearest common ancestor."""
    found = {}
    for one, other in itertools.combinations(range(len(handles)), 2):
        pair = handles[one], handles[other]
        ancestor = _ANCESTORS.get(_ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", *pair) or 0)
        if _ask(nvml, "nvmlDeviceGetP2PStatus", *pair, _P2P_NVLINK) == 0:
            active = sum(_ask(nvml, "nvmlDeviceGetNvLinkState", handles[one], link) == 1 for link in range(_LINKS))
            found[one, other] = f"NV{active}"
        elif ancestor is not None:
            found[one, other] = ancestor
    return found


def _parts(nvml: Any, handle: Any, card_uuid: str | None) -> Iterator[Part]:
    for index in range(int(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
        part = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        uuid = _text(_ask(nvml, "nvmlDeviceGetUUID", part)) if part is not None else None
        if uuid is None:  # most of the places are empty
            continue
        profile = re.search(r"\bMIG\s+(\S+)", _text(_ask(nvml, "nvmlDeviceGetName", part)) or "")
        memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", part)
        instance = _ask(nvml, "nvmlDeviceGetGpuInstanceId", part)
        compute = _ask(nvml, "nvmlDeviceGetComputeInstanceId", part)
        yield Part(
            uuid=uuid,
            profile=profile.group(1) if profile else None,
            memory_bytes=int(memory.total) if memory is not None else None,
            legacy=f"MIG-{card_uuid}/{instance}/{compute}",
        )


def telemetry(nvml: Any, host: Host, device: Device) -> Telemetry:
    """The state of ``device`` now, found by UUID or PCI address, never by index. Empty where the driver does not answer."""
    with _started(nvml) as ready:
        handle = _handle(nvml, device) if ready else None
        if handle is None:
            return Telemetry()
        mask = _ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
        if mask is None:
            mask = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        power = _ask(nvml, "nvmlDeviceGetPowerUsage", handle)
        return Telemetry(
            sm_clock_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, _SM),
            memory_clock_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, _MEMORY),
            power_w=power / 1000 if power is not None else None,
            temperature_c=_temperature(nvml, handle),
            throttled=throttled(mask),
            other_processes=None if device.partition else _others(nvml, handle, host),
        )


@contextmanager
def _started(nvml: Any) -> Iterator[bool]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: Any, device: Device) -> Any | None:
    if device.uuid:
        found = _ask(nvml, "nvmlDeviceGetHandleByUUID", device.uuid)
        if found is not None and device.partition:  # clocks and power are the whole card's
            return _ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", found) or found
        if found is not None:
            return found
    return _ask(nvml, "nvmlDeviceGetHandleByPciBusId", device.pci) if device.pci else None


def _temperature(nvml: Any, handle: Any) -> float | None:
    value = _ask(nvml, "nvmlDeviceGetTemperature", handle, _GPU)
    return float(value) if value is not None else None


def _others(nvml: Any, handle: Any, host: Host) -> int | None:
    """Compute processes on the card that are neither this one nor its descendants; None where that cannot be told."""
    processes = _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    if processes is None:
        return None
    torch = sys.modules.get("torch")
    on_device = torch is not None and bool(torch.cuda.is_initialized())
    return other_processes(host, (int(process.pid) for process in processes), on_device)


def _ask(nvml: Any, name: str, *arguments: Any) -> Any | None:
    """The answer of one call; None where this NVML lacks it or the card does not support it."""
    function = getattr(nvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str | None:
    """Text of NVML, which older modules return as bytes; None for its ways of saying that there is none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).strip() or None if value is not None and str(value).strip() not in ("N/A", "[N/A]") else None
