"""Machines for the tests: recorded files and tools, and an NVML that says what it is told to."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_accel.stack.host import CommandResult
from pytest_accel.stack.recorded import RecordedHost

FIXTURES = Path(__file__).parent / "fixtures"
SHARED = Path(__file__).parents[2].parent / "shared"


def pci_files(address: str, vendor: str, device: str, class_code: str = "0x030200", driver: str = "") -> dict[str, str]:
    base = f"/sys/bus/pci/devices/{address}"
    return {
        f"{base}/vendor": f"0x{vendor}\n",
        f"{base}/device": f"0x{device}\n",
        f"{base}/class": f"{class_code}\n",
        f"{base}/uevent": f"DRIVER={driver}\n" if driver else "",
    }


H200_ON_BUS = pci_files("0000:18:00.0", "10de", "2335", driver="nvidia")


def smi_from_csv(text: str, version: str = "", listing: str = "") -> Callable[[Sequence[str]], CommandResult | None]:
    """An nvidia-smi that answers from one recorded CSV, and refuses a field that the CSV lacks, as the real one does."""
    table = [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]
    columns = {name.split(" [")[0]: place for place, name in enumerate(table[0])}

    def run(argv: Sequence[str]) -> CommandResult | None:
        if argv[0] != "nvidia-smi":
            return None
        if argv[1] == "--version":
            return CommandResult(0, version, "")
        if argv[1] == "-L":
            return CommandResult(0, listing, "")
        wanted = argv[1].partition("=")[2].split(",")
        for name in wanted:
            if name not in columns:
                return CommandResult(2, f'Field "{name}" is not a valid field to query.\n\n', "")
        which = next((word.partition("=")[2] for word in argv if word.startswith("--id=")), None)
        rows = [row for row in table[1:] if which is None or which in row]
        return CommandResult(0, "".join(", ".join(row[columns[name]] for name in wanted) + "\n" for row in rows), "")

    return run


class SmiHost(RecordedHost):
    """A recorded host with that nvidia-smi."""

    def __init__(
        self, smi: Callable[[Sequence[str]], CommandResult | None], files: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(files, **more)
        self._run = smi


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(WORDS.get(value, f"error {value}"))
        self.value = value


WORDS = {
    3: "Not Supported",
    9: "Driver Not Loaded",
    15: "GPU is lost",
    18: "Driver/library version mismatch",
    999: "Unknown Error",
}


@dataclass
class FakeCard:
    """What NVML says of one card; a number as ``broken`` is the error of asking for its handle."""

    name: Any = "NVIDIA H200"
    uuid: str = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
    bus: Any = "00000000:18:00.0"
    device: int = 0x233510DE
    memory: int = 143771 * 2**20
    capability: tuple[int, int] = (9, 0)
    mig: int | None = 0
    ecc: int | None = 1
    power_limit: int | None = 700000
    compute_mode: int = 0
    broken: int | None = None
    reasons: int = 0
    processes: tuple[int, ...] = ()
    parts: tuple[FakeCard, ...] = ()


@dataclass
class FakeNvml:
    """The few functions of ``pynvml`` that are used; ``wrong`` is the error of nvmlInit."""

    cards: list[FakeCard] = field(default_factory=lambda: [FakeCard()])
    wrong: int | None = None
    driver: Any = "580.105.08"
    started: int = 0
    NVMLError = NVMLError

    def nvmlInit(self) -> None:
        if self.wrong is not None:
            raise NVMLError(self.wrong)
        self.started += 1

    def nvmlShutdown(self) -> None:
        self.started -= 1

    def _need(self, value: Any) -> Any:
        assert self.started > 0, "asked before nvmlInit or after nvmlShutdown"
        if value is None:
            raise NVMLError(3)
        return value

    def nvmlDeviceGetCount(self) -> int:
        return self._need(len(self.cards))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        card = self.cards[index]
        if card.broken is not None:
            raise NVMLError(card.broken)
        return card

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:
        found = [card for card in self.cards if card.uuid == uuid]
        return self._need(found[0] if found else None)

    def nvmlDeviceGetHandleByPciBusId(self, bus: str) -> FakeCard:
        return self._need(next((card for card in self.cards if str(card.bus).endswith(bus)), None))

    def nvmlSystemGetDriverVersion(self) -> Any:
        return self._need(self.driver)

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self._need(13000)

    def nvmlDeviceGetName(self, card: FakeCard) -> Any:
        return self._need(card.name)

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:
        return self._need(card.uuid)

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> SimpleNamespace:
        return SimpleNamespace(busId=card.bus, pciDeviceId=card.device)

    def nvmlDeviceGetCudaComputeCapability(self, card: FakeCard) -> tuple[int, int]:
        return card.capability

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> SimpleNamespace:
        return SimpleNamespace(total=card.memory)

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        return [self._need(card.mig), 0]

    def nvmlDeviceGetEccMode(self, card: FakeCard) -> list[int]:
        return [self._need(card.ecc), 1]

    def nvmlDeviceGetEnforcedPowerLimit(self, card: FakeCard) -> int:
        return self._need(card.power_limit)

    def nvmlDeviceGetComputeMode(self, card: FakeCard) -> int:
        return card.compute_mode

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeCard:
        return self._need(card.parts[index] if index < len(card.parts) else None)

    def nvmlDeviceGetClockInfo(self, card: FakeCard, which: int) -> int:
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetPowerUsage(self, card: FakeCard) -> int:
        return 312500

    def nvmlDeviceGetTemperature(self, card: FakeCard, which: int) -> int:
        return 51

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: FakeCard) -> int:
        return card.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=number) for number in card.processes]


@pytest.fixture
def fixture_text() -> Callable[[str], str]:
    return lambda name: (FIXTURES / name).read_text(encoding="utf-8")


@pytest.fixture
def machines() -> SimpleNamespace:
    """The builders above, since test modules cannot import from a conftest."""
    return SimpleNamespace(
        Card=FakeCard,
        Nvml=FakeNvml,
        SmiHost=SmiHost,
        Recorded=RecordedHost,
        Result=CommandResult,
        pci_files=pci_files,
        smi_from_csv=smi_from_csv,
        h200_on_bus=H200_ON_BUS,
        shared=SHARED,
    )
