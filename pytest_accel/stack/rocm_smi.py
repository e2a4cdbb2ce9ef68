"""Reading amd-smi and rocm-smi: keys and shapes move between releases, "N/A" stands anywhere, and failures exit 0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.stack.common import pci_address
from pytest_accel.stack.host import Host
from pytest_accel.stack.rocm_kfd import named_driver, partition_name
from pytest_accel.stack.types import Telemetry

_NOTHING = {"", "N/A", "None", "unknown", "UNKNOWN"}
_BYTES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
# A cap on power is ordinary at full load; these are not.
_VIOLATIONS = {
    "prochot_violation_status": "prochot",
    "socket_thermal_violation_status": "socket-thermal",
    "vr_thermal_violation_status": "vr-thermal",
    "hbm_thermal_violation_status": "hbm-thermal",
}


@dataclass(frozen=True)
class Card:
    """What a tool or the library tells of one GPU beyond the kernel's files; None where it does not."""

    pci: str | None = None
    name: str | None = None
    ids: str | None = None
    gfx: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    partition: str | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    vbios: str | None = None


def entries(text: str) -> list[dict[str, Any]]:
    """The GPUs of an amd-smi JSON output: a list, or ``{"gpu_data": [...]}`` from 26.0 on; text before it is passed over.

    Empty where there is no JSON (the tools exit 0 then as well).
    """
    found = _json(text)
    if isinstance(found, dict):
        found = found.get("gpu_data", [found])
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _json(text: str) -> Any:
    for match in re.finditer(r"^[\[{]", text, re.MULTILINE):
        try:
            return json.JSONDecoder().raw_decode(text, match.start())[0]
        except ValueError:
            continue
    return None


def at(entry: Any, *path: str) -> Any:
    """The value at ``path``, with ``{"value": …, "unit": …}`` opened; None where anything on the way is absent or "N/A"."""
    for name in path:
        entry = entry.get(name) if isinstance(entry, Mapping) else None
    if isinstance(entry, Mapping) and "value" in entry:
        entry = entry["value"]
    return None if entry is None or (isinstance(entry, str) and entry.strip() in _NOTHING) else entry


def words(entry: Any, *path: str) -> str | None:
    """The text at ``path``; None where it is absent, "N/A" or no text."""
    value = at(entry, *path)
    return value if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """The number that a value starts with (``"45.0"``, ``"6.19 W"``, ``(300Mhz)``); None for words and for None."""
    if isinstance(value, bool) or value is None:
        return None
    match = re.match(r"\(?(-?\d+(?:\.\d+)?)", str(value).strip())
    return float(match.group(1)) if match else None


def card(entry: Mapping[str, Any]) -> Card:
    """One GPU of ``amd-smi static --json``."""
    device = words(entry, "asic", "device_id")
    size, unit = number(at(entry, "vram", "size")), _unit(entry, "vram", "size") or "MB"
    limits = (("limit", "socket_power"), ("limit", "ppt0", "socket_power_limit"))
    limit = next((watts for path in limits if (watts := number(at(entry, *path)))), None)
    ecc = at(entry, "ras", "ecc_block_state")
    return Card(
        pci=pci_address(words(entry, "bus", "bdf")),
        name=_name(at(entry, "asic", "market_name") or at(entry, "board", "product_name")),
        ids=_ids(device),
        gfx=words(entry, "asic", "target_graphics_version"),
        memory_bytes=int(size * _BYTES.get(unit, 2**20)) if size else None,
        driver=named_driver(words(entry, "driver", "version")),
        partition=partition_name(
            words(entry, "partition", "compute_partition"), words(entry, "partition", "memory_partition")
        ),
        power_limit_w=limit,
        ecc=_ecc(ecc),
        vbios=words(entry, "vbios", "version"),
    )


def _ids(device: Any) -> str | None:
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,4})", device) if isinstance(device, str) else None
    return f"1002:{int(match.group(1), 16):04x}" if match else None


def _unit(entry: Any, *path: str) -> str | None:
    for name in path:
        entry = entry.get(name) if isinstance(entry, Mapping) else None
    return str(entry["unit"]) if isinstance(entry, Mapping) and "unit" in entry else None


def _ecc(blocks: Any) -> bool | None:
    """On where the memory controller's block (UMC) is counted; the shape moved between releases."""
    if isinstance(blocks, Mapping) and isinstance(blocks.get("UMC"), str):
        return bool(blocks["UMC"] == "ENABLED")
    if isinstance(blocks, Sequence) and not isinstance(blocks, str):
        states = [block.get("status") for block in blocks if isinstance(block, Mapping) and block.get("block") == "UMC"]
        return bool(states[0] == "ENABLED") if states and isinstance(states[0], str) else None
    return None


def _name(text: Any) -> str | None:
    """A product's name; ``0x1002`` stands where the tool has no list of names."""
    return text if isinstance(text, str) and not re.fullmatch(r"0x[0-9a-fA-F]+", text) else None


def state(entry: Mapping[str, Any]) -> Telemetry:
    """One GPU of ``amd-smi metric --json``. The older ``throttle_status`` does not tell a power cap from heat: not counted."""
    gfx = next(
        (mhz for part in range(8) if (mhz := number(at(entry, "clock", f"gfx_{part}", "clk"))) is not None), None
    )
    memory = number(at(entry, "clock", "mem_0", "clk"))
    heat = number(at(entry, "temperature", "hotspot"))
    active = tuple(word for key, word in _VIOLATIONS.items() if at(entry, "throttle", key) in ("ACTIVE", True))
    return Telemetry(
        sm_clock_mhz=int(gfx) if gfx is not None else None,
        memory_clock_mhz=int(memory) if memory is not None else None,
        power_w=number(at(entry, "power", "socket_power")),
        temperature_c=heat if heat is not None else number(at(entry, "temperature", "edge")),
        throttled=active,
    )


def process_ids(entry: Mapping[str, Any]) -> list[int] | None:
    """The processes of one GPU of ``amd-smi process --json`` that hold its memory; None where the tool does not tell."""
    listed = entry.get("process_list")
    if not isinstance(listed, list):
        return None
    found = []
    for process in listed:
        info = process.get("process_info") if isinstance(process, Mapping) else None
        if isinstance(info, Mapping):
            held = number(at(info, "memory_usage", "vram_mem"))
            pid = number(at(info, "pid"))
            if pid is not None and held != 0:
                found.append(int(pid))
    return found


def version_line(text: str) -> dict[str, str]:
    """The fields of ``amd-smi version``, text or JSON, by one name each; a field that is not told is left out.

    Names: ``tool``, ``library``, ``rocm``, ``driver`` (``in-tree`` for the kernel's own), ``kernel`` (with an in-tree driver).
    """
    fields: dict[str, str] = {}
    as_json = entries(text)
    if as_json:
        words = as_json[0]
        raw = {
            "tool": "version",
            "library": "amdsmi_library_version",
            "rocm": "rocm_version",
            "driver": "amdgpu_version",
        }
        fields = {name: str(at(words, key)) for name, key in raw.items() if at(words, key)}
    else:
        match = re.search(r"^AMDSMI Tool: .*$", text, re.MULTILINE)
        raw = {
            "AMDSMI Tool": "tool",
            "AMDSMI Library version": "library",
            "ROCm version": "rocm",
            "amdgpu version": "driver",
        }
        for part in (match.group() if match else "").split(" | "):
            key, _, value = part.partition(": ")
            if key in raw and value.strip() not in _NOTHING:
                fields[raw[key]] = value.strip()
    kernel = re.match(r"Linuxversion(\d[\w.+]*(?:-[\w.+]+?)*?)(?=\(|$)", fields.get("driver", ""))
    if kernel:
        fields["kernel"] = kernel.group(1)
    if "driver" in fields:
        fields["driver"] = named_driver(fields["driver"]) or ""
    return fields


def older_cards(text: str) -> dict[str, tuple[Card, Telemetry]]:
    """By ``card0`` and so on: what ``rocm-smi --json`` tells, any release of it."""
    found = _json(text)
    if not isinstance(found, Mapping):
        return {}
    driver = named_driver(words(found, "system", "Driver version"))
    named = ((name, entry) for name, entry in found.items() if name.startswith("card") and isinstance(entry, Mapping))
    return {name: (_older_card(entry, driver), _older_state(entry)) for name, entry in named}


def _first(entry: Mapping[str, Any], *names: str) -> Any:
    return next((value for name in names if (value := at(entry, name)) is not None), None)


def _older_card(entry: Mapping[str, Any], driver: str | None) -> Card:
    device = _first(entry, "Device ID", "GPU ID")
    memory = number(at(entry, "VRAM Total Memory (B)"))
    return Card(
        pci=pci_address(words(entry, "PCI Bus")),
        name=next((name for name in _names(entry) if name), None),
        ids=_ids(device),
        gfx=words(entry, "GFX Version"),
        memory_bytes=int(memory) if memory else None,
        driver=driver,
        partition=partition_name(words(entry, "Compute Partition"), words(entry, "Memory Partition")),
        power_limit_w=number(at(entry, "Max Graphics Package Power (W)")),
        vbios=words(entry, "VBIOS version"),
    )


def _names(entry: Mapping[str, Any]) -> Iterator[str | None]:
    for key in ("Device Name", "Card Series", "Card series", "Card Model", "Card model"):
        yield _name(at(entry, key))


def _older_state(entry: Mapping[str, Any]) -> Telemetry:
    clock = number(_first(entry, "sclk clock speed:", "sclk clock speed"))
    memory = number(_first(entry, "mclk clock speed:", "mclk clock speed"))
    power = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
    return Telemetry(
        sm_clock_mhz=int(clock) if clock is not None else None,
        memory_clock_mhz=int(memory) if memory is not None else None,
        power_w=number(_first(entry, *power)),
        temperature_c=number(_first(entry, "Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")),
    )


def asked(host: Host, *command: str) -> str:
    """What a tool wrote; empty where it is absent. Its exit code means nothing."""
    result = host.run(command)
    return result.out if result is not None else ""


def cards(host: Host) -> list[Card]:
    """The GPUs as amd-smi tells them, else as rocm-smi does; empty where neither is here or answers."""
    found = [card(entry) for entry in entries(asked(host, "amd-smi", "static", "--json"))]
    if any(one.pci for one in found):
        return found
    flags = ("--showid", "--showproductname", "--showbus", "--showmeminfo", "vram", "--showmaxpower", "--showvbios")
    return [one for one, _ in older_cards(asked(host, "rocm-smi", *flags, "--showdriverversion", "--json")).values()]


def telemetry(host: Host, pci: str) -> tuple[Telemetry, list[int] | None]:
    """State and processes of the GPU at ``pci``, by amd-smi, else by rocm-smi (which tells no processes)."""
    found = entries(asked(host, "amd-smi", "metric", "--gpu", pci, "--json"))
    if len(found) == 1:
        listed = entries(asked(host, "amd-smi", "process", "--gpu", pci, "--json"))
        return state(found[0]), process_ids(listed[0]) if len(listed) == 1 else None
    flags = ("--showbus", "--showclocks", "--showpower", "--showtemp", "--json")
    for one, now in older_cards(asked(host, "rocm-smi", *flags)).values():
        if one.pci == pci:
            return now, None
    return Telemetry(), None
