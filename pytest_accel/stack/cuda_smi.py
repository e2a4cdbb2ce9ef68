"""Asking nvidia-smi, where NVML's Python module is not installed.

One unknown field makes a whole query fail, so fields are asked for in groups: an older or newer driver loses one group.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from pytest_accel.stack.common import matrix, pci_address
from pytest_accel.stack.cuda_cards import Answer, Card, Part, chip_ids, throttled
from pytest_accel.stack.cuda_text import cell, failure, failure_of_smi, number, switch
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Device, Telemetry

TOOL = "nvidia-smi"
IDENTITY = ("index", "name", "uuid", "pci.bus_id", "driver_version")
GROUPS = (
    ("memory.total", "pci.device_id"),
    ("compute_cap",),
    ("enforced.power.limit", "ecc.mode.current", "compute_mode"),
    ("mig.mode.current",),
    ("vbios_version",),
)
STATE = ("clocks.current.sm", "clocks.current.memory", "power.draw", "temperature.gpu")
REASONS = (("clocks_event_reasons.active",), ("clocks_throttle_reasons.active",))  # the second is the name before 535

_PART = re.compile(r"^\s+MIG\s+(\S+)\s+Device\s+\d+:\s+\(UUID:\s+(MIG-[^)]+)\)")
_CARD = re.compile(r"^GPU\s+\d+:.*\(UUID:\s+(GPU-[^)]+)\)")


def query_command(fields: Sequence[str], device: str | None = None) -> list[str]:
    """The command line for one group of fields, of all devices or of one."""
    chosen = [f"--id={device}"] if device else []
    return [TOOL, f"--query-gpu={','.join(fields)}", "--format=csv,noheader", *chosen]


def rows(text: str, width: int) -> list[list[str]]:
    """The rows of CSV that have ``width`` cells; warnings, blank lines and the like are none."""
    parsed = csv.reader(text.splitlines(), skipinitialspace=True)
    return [[item.strip() for item in row] for row in parsed if len(row) == width]


def cards(host: Host) -> Answer | None:
    """Every card that nvidia-smi lists; None where the tool is absent."""
    result = host.run(query_command(IDENTITY))
    if result is None:
        return None
    listed = rows(result.out, len(IDENTITY))
    wrong = failure_of_smi(result)
    if not listed:
        return Answer(TOOL, failure=wrong or failure("no-devices", f"{TOOL}: lists no device"))
    groups = [_group(host, fields, len(listed)) for fields in GROUPS]
    parts = _parts(host) if any(switch(row[0]) for row in groups[3]) else {}
    found = []
    for place, (_, name, uuid, bus, _) in enumerate(listed):
        (memory, ids), (capability,), (limit, ecc, mode), (mig,), (vbios,) = (group[place] for group in groups)
        mebibytes = number(memory)
        known = cell(uuid)
        found.append(
            Card(
                name=cell(name) or "NVIDIA",
                uuid=known,
                pci=pci_address(bus),
                ids=chip_ids(cell(ids)),
                memory_bytes=int(mebibytes) * 2**20 if mebibytes is not None else None,
                capability=_capability(capability),
                mig=switch(mig),
                ecc=switch(ecc),
                power_limit_w=number(limit),
                compute_mode=(cell(mode) or "").lower() or None,
                vbios=cell(vbios),
                parts=tuple(parts.get(known or "", ())),
            )
        )
    return Answer(
        source=TOOL,
        cards=tuple(found),
        driver=cell(listed[0][4]),
        cuda=_cuda(host),
        lost=(wrong.words,) if wrong else (),
        links=_links(host) if len(found) > 1 else {},
    )


def _links(host: Host) -> dict[tuple[int, int], str]:
    result = host.run([TOOL, "topo", "-m"])
    return matrix(result.out if result is not None and result.rc == 0 else "", "GPU")


def _group(host: Host, fields: Sequence[str], count: int) -> list[list[str]]:
    result = host.run(query_command(fields))
    found = rows(result.out, len(fields)) if result is not None and result.rc == 0 else []
    return found if len(found) == count else [["[N/A]"] * len(fields)] * count


def _capability(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d+)\.(\d+)", cell(text) or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


def _cuda(host: Host) -> str | None:
    """The highest CUDA that the driver serves: ``CUDA Version`` until driver 595, ``CUDA UMD version`` from 610 on."""
    result = host.run([TOOL, "--version"])
    match = re.search(
        r"^CUDA(?: UMD)? version\s*:\s*(\d+\.\d+)", result.out if result else "", re.IGNORECASE | re.MULTILINE
    )
    return match.group(1) if match else None


def _parts(host: Host) -> dict[str, list[Part]]:
    result = host.run([TOOL, "-L"])
    found: dict[str, list[Part]] = {}
    current = ""
    for line in (result.out if result else "").splitlines():
        card, part = _CARD.match(line), _PART.match(line)
        if card:
            current = card.group(1)
        elif part:
            found.setdefault(current, []).append(Part(uuid=part.group(2), profile=part.group(1)))
    return found


def telemetry(host: Host, device: Device) -> Telemetry:
    """The state of ``device`` now, asked for by its UUID or PCI address; None for what the tool does not tell."""
    which = None if device.partition else device.uuid or device.pci
    if which is None:
        return Telemetry()
    (clock, memory, power, heat) = _one(host, STATE, which)
    mask = next((word for fields in REASONS if (word := cell(_one(host, fields, which)[0]))), None)
    clock_mhz, memory_mhz = number(clock), number(memory)
    return Telemetry(
        sm_clock_mhz=int(clock_mhz) if clock_mhz is not None else None,
        memory_clock_mhz=int(memory_mhz) if memory_mhz is not None else None,
        power_w=number(power),
        temperature_c=number(heat),
        throttled=throttled(int(mask, 16) if mask and re.fullmatch(r"0x[0-9a-fA-F]+", mask) else None),
    )


def _one(host: Host, fields: Sequence[str], which: str) -> list[str]:
    result = host.run(query_command(fields, which))
    found = rows(result.out, len(fields)) if result is not None and result.rc == 0 else []
    return found[0] if len(found) == 1 else ["[N/A]"] * len(fields)
