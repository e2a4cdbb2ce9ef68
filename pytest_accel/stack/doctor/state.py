"""The state of the devices beyond what a probe reads: memory faults, persistence, fabric, throttling, other processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_accel.stack import cuda_smi
from pytest_accel.stack.cuda_text import cell
from pytest_accel.stack.host import Host
from pytest_accel.stack.registry import platform
from pytest_accel.stack.types import Device, Probe


@dataclass(frozen=True)
class DeviceState:
    """One device now; None where it cannot be told. ``uncorrected`` counts memory errors since the driver started.

    ``retired`` counts memory rows or pages taken out of use for such errors; ``repair_pending``: one waits for a reset to
    be taken out; ``repair_failed``: one could not be.
    """

    throttled: tuple[str, ...] = ()
    other_processes: int | None = None
    uncorrected: int | None = None
    retired: int | None = None
    repair_pending: bool | None = None
    repair_failed: bool | None = None
    persistence: bool | None = None
    fabric: str | None = None
    health: str | None = None


# Groups: one field that a driver does not know makes a whole query fail.
_GROUPS = (
    ("persistence_mode",),
    ("ecc.errors.uncorrected.volatile.total",),
    ("remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure"),
    ("retired_pages.pending",),
    ("fabric.state",),
)
_ON = {"enabled": True, "disabled": False, "yes": True, "no": False, "1": True, "0": False}


def device_states(host: Host, probe: Probe) -> Mapping[int, DeviceState]:
    """The state of each device of ``probe``, by its index. Runs the vendor's tool."""
    return {device.index: _state(host, probe.platform, device) for device in probe.devices}


def _state(host: Host, name: str, device: Device) -> DeviceState:
    seen = platform(name).telemetry(host, device)
    state = DeviceState(throttled=seen.throttled, other_processes=seen.other_processes)
    if name == "cuda":
        return _cuda(host, device, state)
    return _ascend(host, device, state) if name == "ascend" else _rocm(host, device, state)


def _cuda(host: Host, device: Device, state: DeviceState) -> DeviceState:
    which = device.pci or device.uuid  # a partition's UUID is no card's
    if which is None:
        return state
    (persistence,), (errors,), (retired, pending, failed), (pages,), (fabric,) = (
        _asked(host, group, which) for group in _GROUPS
    )
    waits = [_ON.get((text or "").lower()) for text in (pending, pages)]
    return replace(
        state,
        persistence=_ON.get((persistence or "").lower()),
        uncorrected=_count(errors),
        retired=_count(retired),
        repair_pending=any(waits) if waits != [None, None] else None,
        repair_failed=_ON.get((failed or "").lower()),
        fabric=fabric,
    )


def _asked(host: Host, fields: tuple[str, ...], which: str) -> list[str | None]:
    result = host.run(cuda_smi.query_command(fields, which))
    found = cuda_smi.rows(result.out, len(fields)) if result is not None and result.rc == 0 else []
    return [cell(text) for text in found[0]] if len(found) == 1 else [None] * len(fields)


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _rocm(host: Host, device: Device, state: DeviceState) -> DeviceState:
    result = host.run(["amd-smi", "metric", "--gpu", device.pci or str(device.index), "--ecc", "--throttle", "--json"])
    text = result.out if result else ""
    errors = re.search(r'"total_uncorrectable_count":\s*(?:\{\s*"value":\s*)?(\d+)', text)
    throttle = re.search(r'"throttle_status":\s*"(\w+)"', text)
    slow = state.throttled or (("throttled",) if throttle and throttle.group(1) == "THROTTLED" else ())
    return replace(state, uncorrected=int(errors.group(1)) if errors else None, throttled=slow)


def _ascend(host: Host, device: Device, state: DeviceState) -> DeviceState:
    card = _npu_id(host, device.index)
    if card is None:
        return state
    errors = host.run(["npu-smi", "info", "-t", "ecc", "-i", card])
    health = host.run(["npu-smi", "info", "-t", "health", "-i", card])
    text = errors.out if errors else ""
    counts = re.findall(r"^\s*\w+ Double Bit Error Count\s*:\s*(\d+)", text, re.MULTILINE)
    isolated = re.findall(r"Double Bit Isolated Pages Count\s*:\s*(\d+)", text)
    words = re.search(r"^\s*Health(?: Status)?\s*:\s*(\S.*?)\s*$", health.out if health else "", re.MULTILINE)
    return replace(
        state,
        uncorrected=sum(map(int, counts)) if counts else None,
        retired=sum(map(int, isolated)) if isolated else None,
        health=words.group(1) if words and words.group(1) != "NA" else None,
    )


def _npu_id(host: Host, logic: int) -> str | None:
    """The card's number (NPU ID), which the tool's details ask for, of a chip's logic id, by which torch counts."""
    listing = host.run(["npu-smi", "info", "-m"])
    lines = [
        re.split(r"\s{2,}|\t", line.strip()) for line in (listing.out if listing else "").splitlines() if line.strip()
    ]
    for row in lines[1:]:
        fields = dict(zip(lines[0], row, strict=False))
        if fields.get("Chip Logic ID") == str(logic):
            return fields.get("NPU ID")
    return None
