"""Reading npu-smi: there is no JSON, errors come on stdout, and the tables' columns move between releases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_accel.stack.common import pci_address
from pytest_accel.stack.host import CommandResult, Host

_NODES = "pass /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc in"
# The tool's words, the code they mean, the mend; the first that is found decides.
_FAILURES = (
    (r"dcmi mod(?:ule|el) initializ\w* failed[^\n]*-8020[^\n]*", "device-taken",
     "another container holds the device: stop it, or pass another device in"),
    (r"dcmi mod(?:ule|el) initializ\w* failed[^\n]*", "driver-failed", f"load the driver; in a container, {_NODES}"),
    (r"Container ID verify failed[^\n]*", "device-taken", "the device belongs to another container: stop it, or pass another in"),
    (r"There is no NPU card[^\n]*", "no-devices", "see the kernel's log"),
    (r"error while loading shared libraries[^\n]*", "library-missing",
     "add /usr/local/Ascend/driver/lib64, its common and its driver folder to LD_LIBRARY_PATH; in a container, mount them in"),
    (r"DrvMngGetConsoleLogLevel failed[^\n]*", "driver-failed", f"load the driver; in a container, {_NODES}"),
)  # fmt: skip
_NOTHING = {"", "-", "NA", "N/A"}


@dataclass(frozen=True)
class Chip:
    """One chip in torch's order (Chip Logic ID); memory in bytes, power in watts; None for what the tool does not tell."""

    logic: int
    name: str
    pci: str | None = None
    memory_bytes: int | None = None
    npu: str = "0"
    chip: str = "0"
    health: str | None = None
    power_w: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class Table:
    """``npu-smi info``: the driver's version, the chips as they are listed, and by (NPU, chip) the processes on them.

    ``processes`` is None where the table does not list any (it then has no such part); ``two_dies`` says that a module has
    two chips, as A3's have; ``warning`` is the tool's own, ``""`` where there is none.
    """

    driver: str | None
    chips: tuple[Chip, ...]
    processes: dict[tuple[str, str], tuple[int, ...]] | None
    two_dies: bool = False
    warning: str = ""


def failure(result: CommandResult) -> tuple[str, str, str] | None:
    """Code, words and mend where npu-smi did not answer; None where it did."""
    text = f"{result.out}\n{result.err}"
    for pattern, code, mend in _FAILURES:
        match = re.search(pattern, text)
        if match:
            return code, " ".join(match.group().split()), mend
    if result.rc != 0:
        words = f"{' '.join(text.split())} (exit code {result.rc})"
        return "driver-failed", words, "see npu-smi info and the kernel's log"
    return None


def chips(listing: str, table: str) -> list[Chip]:
    """The chips of ``npu-smi info -m``, completed by ``npu-smi info``; by the table alone where there is no listing."""
    listed, told = _listed(listing), parse(table).chips
    if not listed:
        return list(told)
    known = {(chip.npu, chip.chip): chip for chip in told}
    return [
        replace(known[chip.npu, chip.chip], logic=chip.logic, name=chip.name)
        if (chip.npu, chip.chip) in known
        else chip
        for chip in listed
    ]


def _listed(listing: str) -> list[Chip]:
    lines = [re.split(r"\s{2,}|\t", line.strip()) for line in listing.splitlines() if line.strip()]
    start = next((place for place, row in enumerate(lines) if "NPU ID" in row and "Chip Name" in row), None)
    if start is None:
        return []
    head, found = lines[start], []
    for row in lines[start + 1 :]:
        cells = dict(zip(head, row, strict=False))
        # The 950's listing has no logic id: its chips are counted by their physical one.
        order = cells.get("Chip Logic ID", cells.get("Chip Phy-ID", "-") if "Chip Logic ID" not in head else "-")
        if len(row) == len(head) and order.isdigit():
            found.append(Chip(int(order), cells["Chip Name"], npu=cells["NPU ID"], chip=cells.get("Chip ID", "0")))
    return sorted(found, key=lambda chip: chip.logic)


def parse(text: str) -> Table:
    """Read ``npu-smi info`` of any release: two rows a chip, cells cut at "|", never at fixed columns."""
    driver = re.search(r"npu-smi\s+\S+\s+Version:\s*(\S+)", text)
    warning = re.search(r"^\[WARNING\]\s*(.*?)\s*$", text, re.MULTILINE)
    lines = text.splitlines()
    end = next((place for place, line in enumerate(lines) if "Process id" in line), len(lines))
    found = tuple(_rows(lines[:end])) if driver else ()  # without its head line it is another tool's table
    modules = [chip.npu for chip in found]
    return Table(
        driver=driver.group(1) if driver else None,
        chips=found,
        processes=_processes(lines[end:]) if end < len(lines) else None,
        two_dies=any("Phy-ID" in line for line in lines[:end]) and len(set(modules)) < len(modules),
        warning=warning.group(1) if warning else "",
    )


def _cells(line: str) -> list[str]:
    line = line.strip()
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") and line.endswith("|") else []


def _rows(lines: Sequence[str]) -> Iterator[Chip]:
    first: Chip | None = None
    count = 0
    for line in lines:
        cells = _cells(line)
        if len(cells) == 4:  # the 950: NPU and name have a cell each, empty in the second row
            cells = [f"{cells[0]} {cells[1]}".strip(), *cells[2:]]
        if len(cells) != 3 or not re.match(r"\d|$", cells[0]):
            continue
        words = cells[0].split()
        if first is None:
            if len(words) >= 2:
                state = cells[2].split()
                first = Chip(
                    logic=count,
                    name=" ".join(words[1:]),
                    npu=words[0],
                    health=_word(cells[1]),
                    power_w=number(state[0]) if state else None,
                    temperature_c=number(state[1]) if len(state) > 1 else None,
                )
            continue
        pairs = re.findall(r"(\d+)\s*/\s*(\d+)", cells[2])  # the last pair is the device memory, HBM where there is any
        total = int(pairs[-1][1]) if pairs else 0
        yield replace(
            first, pci=pci_address(cells[1]), chip=words[0] if words else "0", memory_bytes=total * 2**20 or None
        )
        first, count = None, count + 1


def _processes(lines: Sequence[str]) -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for line in lines:
        cells = _cells(line)
        place = cells[0].split() if cells else []
        if len(cells) < 4 or not place or not all(word.isdigit() for word in place):
            continue
        # From 26 on a last column tells the id inside the container, which is the one that this process can compare.
        own = [cell for cell in (cells[1], *cells[4:5]) if cell.isdigit()]
        if own:
            key = place[0], place[1] if len(place) > 1 else "0"
            found[key] = (*found.get(key, ()), int(own[-1]))
    return found


def _word(text: str) -> str | None:
    return None if text in _NOTHING else text


def number(text: str | None) -> float | None:
    """A number, or None for the tool's ways of saying that there is none (``NA``, ``-``)."""
    match = re.fullmatch(r"-?\d+(?:\.\d+)?", (text or "").strip())
    return float(match.group()) if match else None


def details(text: str) -> dict[str, str]:
    """The ``key : value`` lines of ``npu-smi info -t …``; of a key that comes twice the first (the chip's, not the MCU's) counts.

    Values that say that there is none are left out.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(" :")
        if colon and _word(value.strip()) is not None:
            found.setdefault(key.strip(), value.strip())
    return found


def asked(host: Host, kind: str, npu: str, chip: str | None = None) -> dict[str, str]:
    """``npu-smi info -t kind`` of one NPU or chip; empty where the tool is absent or fails."""
    which = ["-i", npu] if chip is None else ["-i", npu, "-c", chip]
    result = host.run(["npu-smi", "info", "-t", kind, *which])
    return details(result.out) if result is not None and failure(result) is None else {}


def soc_name(name: str, board: dict[str, str] | None = None, two_dies: bool = False) -> tuple[str, str | None]:
    """torch's name of a chip (``Ascend910B3``, ``Ascend910_9391``) and its vNPU template (``vir05_1c_16g``), or None.

    The tables drop the prefix, and say only ``Ascend910`` on A3: there the board's ``NPU Name`` completes it. Where the
    board does not tell, two dies a module say at least which series it is.
    """
    part = re.search(r"[-_ ]?(vir\d\w*)$", name)
    whole = (name[: part.start()] if part else name).strip()
    model = re.sub(r"^Ascend[\s-]*", "", whole, flags=re.IGNORECASE)
    told = (board or {}).get("NPU Name", "")
    if model in ("910", "950") and told:
        model = f"{model}_{told}"
    elif model == "910" and two_dies:
        model = "910_93"
    return f"Ascend{model}", part.group(1) if part else None
