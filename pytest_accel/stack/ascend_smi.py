"""Reading npu-smi: there is no JSON, errors come on stdout, and the tables' columns move between releases."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_accel.stack.common import pci_address
from pytest_accel.stack.host import CommandResult

_MODULE_FAILED = re.compile(r"dcmi mod(?:ule|el) initializ\w* failed[^\n]*")


@dataclass(frozen=True)
class Chip:
    """One chip in torch's order (Chip Logic ID); memory in bytes."""

    logic: int
    name: str
    pci: str | None = None
    memory_bytes: int | None = None


def failure(result: CommandResult) -> tuple[str, str, str] | None:
    """Code, words and mend where npu-smi did not answer; None where it did."""
    text = f"{result.out}\n{result.err}"
    match = _MODULE_FAILED.search(text)
    if match:
        if "-8020" in match.group():
            return (
                "device-taken",
                match.group(),
                "another container holds the device: stop it, or pass another device in",
            )
        mend = "load the driver; in a container, pass /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc in"
        return "driver-failed", match.group(), mend
    if "There is no NPU card" in text:
        return "no-devices", "There is no NPU card on this server.", "see the kernel's log"
    if result.rc != 0:
        return (
            "driver-failed",
            f"{' '.join(text.split())} (exit code {result.rc})",
            "see npu-smi info and the kernel's log",
        )
    return None


def chips(listing: str, table: str) -> list[Chip]:
    """The chips of ``npu-smi info -m``, their bus address and memory from ``npu-smi info`` where it tells them."""
    details = _details(table)
    found = []
    lines = [re.split(r"\s{2,}|\t", line.strip()) for line in listing.splitlines() if line.strip()]
    if not lines or "Chip Logic ID" not in lines[0]:
        return []
    head = lines[0]
    for row in lines[1:]:
        fields = dict(zip(head, row, strict=False))
        if len(row) == len(head) and fields["Chip Logic ID"].isdigit():
            pci, memory = details.get((fields["NPU ID"], fields.get("Chip ID", "0")), (None, None))
            found.append(Chip(int(fields["Chip Logic ID"]), fields["Chip Name"], pci, memory))
    return sorted(found, key=lambda chip: chip.logic)


def _details(table: str) -> dict[tuple[str, str], tuple[str | None, int | None]]:
    """By NPU and chip number: bus address and device memory (the last pair of numbers in a chip's row, in MiB)."""
    found = {}
    card = ""
    for line in table.splitlines():
        if "Process id" in line:
            break
        cells = [text.strip() for text in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not re.match(r"\d+\b", cells[0]):
            continue
        pci = pci_address(cells[1])
        if pci is None and not cells[1].startswith("NA"):
            card = cells[0].split()[0]
            continue
        pairs = re.findall(r"(\d+)\s*/\s*(\d+)", cells[2])
        total = int(pairs[-1][1]) if pairs else 0
        found[card, cells[0].split()[0]] = (pci, total * 2**20 or None)
    return found
