"""Huawei Ascend: what is here, in which state, and how it is used through torch and torch_npu."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.stack import ascend_files, ascend_settings, ascend_smi, error_texts, torch_settings, variation
from pytest_accel.stack.ascend_files import SILENCERS, cann_version, driver_version
from pytest_accel.stack.ascend_smi import Chip, Table, failure
from pytest_accel.stack.chips import slug_of
from pytest_accel.stack.common import host_versions, links, matrix, other_processes, pci_cards, switches
from pytest_accel.stack.host import CommandResult, Host
from pytest_accel.stack.identity import device_identity
from pytest_accel.stack.torch_like import COMMON_SETTINGS, TorchLike
from pytest_accel.stack.types import Device, Finding, Probe, Telemetry, Value
from pytest_accel.stack.visible import hides_on_purpose

VENDOR = "19e5"
CARD_CLASSES = (0x12,)  # Huawei's display adapters on server boards and its network cards are other classes
VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
#: Variables that change what is computed, or how fast: they are settings, as in force in every process of this run.
SWITCHES = (
    "INF_NAN_MODE_ENABLE",
    "INF_NAN_MODE_FORCE_DISABLE",
    "TASK_QUEUE_ENABLE",
    "TORCH_TRANSFER_TO_NPU",
    "TORCH_NPU_FALLBACK_CPU_DISABLE",
)
_UNWELL = {"Warning": "warning", "Alarm": "error", "Critical": "error"}


class AscendPlatform(TorchLike):
    """See ``stack.platform.Platform``."""

    name = "ascend"
    vendor = "ascend"
    device_type = "npu"
    visible_env = (VARIABLE,)
    measuring_env: Mapping[str, str] = dict.fromkeys(SILENCERS, "0")
    collective_backend = "hccl"
    may_vary = variation.ASCEND
    debug_commands = (
        "ASCEND_LAUNCH_BLOCKING=1 mssanitizer --tool=memcheck python reproduce.py",
        "msprof --output=./reproduce python reproduce.py",
    )
    graph_class = "NPUGraph"
    setting_names = (*COMMON_SETTINGS, *torch_settings.NPU_SETTINGS)
    settings_allowed = torch_settings.allowed(setting_names)

    def probe(self, host: Host) -> Probe:
        """Cards, device nodes and the driver's file; then npu-smi, which alone tells the chips."""
        cards = pci_cards(host, VENDOR, CARD_CLASSES)
        nodes = ascend_files.device_nodes(host)
        driver = driver_version(host)
        if not cards and not nodes and driver is None:
            return Probe(self.name, "absent", "no Ascend card on the PCI bus, no device node, no driver installed")
        if not cards and not nodes:
            what = f"no Ascend card and no device node, though a driver ({driver}) is installed"
            return Probe(self.name, "absent", what)
        seen = f"{len(cards)} Ascend card(s) on the PCI bus, {len(nodes)} device node(s), driver {driver or 'not installed'}"
        table, found, wrong = _asked(host, seen)
        if wrong is not None:
            return self._broken(host, wrong, table)
        return self._present(host, found, table, {card.address: card.ids for card in cards})

    def _broken(self, host: Host, wrong: Finding, table: Table, **hardware: Value) -> Probe:
        name = hardware.pop("name", None) or (_name(host, table.chips[0], table)[0] if table.chips else None)
        return Probe(
            platform=self.name,
            state="broken",
            reason=wrong.message,
            mend=wrong.mend,
            slug=slug_of(self.vendor, str(name) if name else None),
            hardware={"name": name or "Ascend", **hardware},
            versions=_versions(host, table),
            settings=_settings(host),
            findings=(wrong,),
        )

    def _present(self, host: Host, found: list[Chip], table: Table, ids: Mapping[str, str]) -> Probe:
        text = host.env.get(VARIABLE)
        places, complaint = ascend_files.visible(text, len(found))
        name, partition = _name(host, found[0], table)
        if not places:
            what = f"{VARIABLE}={text!r} leaves none of {len(found)} device(s) visible"
            code = "visibility-wrong" if complaint else "devices-hidden"
            wrong = Finding(code, "error", f"{what}: {complaint}" if complaint else what, _mend(len(found)))
            hidden = len(found) if not complaint and hides_on_purpose(text or "") else 0
            return self._broken(host, wrong, table, name=name, hidden_devices=hidden)
        devices = []
        for index, chip in enumerate(found[place] for place in places):
            own, part = (name, partition) if chip.name == found[0].name else _name(host, chip, table)
            devices.append(
                Device(
                    index=index,
                    name=own,
                    pci=chip.pci,
                    memory_bytes=chip.memory_bytes,
                    partition=part,
                    identity=device_identity(host, None, chip.pci or f"npu {chip.npu} chip {chip.chip}"),
                )
            )
        first = devices[0]
        return Probe(
            platform=self.name,
            state="present",
            reason=f"npu-smi lists {len(found)} chip(s), {len(devices)} visible",
            slug=slug_of(self.vendor, first.name, partition=first.partition),
            devices=tuple(devices),
            hardware={
                "name": first.name,
                "chip": ids.get(first.pci or ""),
                "memory_bytes": first.memory_bytes,
                "partition": first.partition,
                "dies_per_module": 2 if table.two_dies else 1,
                "count": len(devices),
                "links": _links(host, places),
            },
            versions=_versions(host, table, found[places[0]]),
            settings=_settings(host),
            findings=(
                *_state_findings([found[place] for place in places], table),
                *_torch_findings(host, len(devices)),
            ),
        )

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """The state of ``device`` by npu-smi, found by its PCI address (or as the only one there is). It tells no throttling."""
        result = host.run(["npu-smi", "info"])
        table = ascend_smi.parse(result.out if result is not None and failure(result) is None else "")
        found = [chip for chip in table.chips if chip.pci is not None and chip.pci == device.pci]
        if not found and device.pci is None and len(table.chips) == 1:
            found = list(table.chips)
        if len(found) != 1:
            return Telemetry()
        chip = found[0]
        common = ascend_smi.asked(host, "common", chip.npu)
        clock = ascend_smi.number(common.get("Aicore curFreq(MHZ)")) if chip.chip == "0" else None
        npu = getattr(sys.modules.get("torch"), self.device_type, None)
        working = npu is not None and bool(getattr(npu, "is_initialized", lambda: False)())
        ids = None if table.processes is None else table.processes.get((chip.npu, chip.chip), ())
        return Telemetry(
            sm_clock_mhz=int(clock) if clock is not None else None,
            power_w=chip.power_w,
            temperature_c=chip.temperature_c,
            other_processes=None if ids is None or device.partition else other_processes(host, ids, working),
        )

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` of a message of torch's, torch_npu's or CANN's."""
        return error_texts.classify(text, error_texts.ASCEND)

    # --- in the measuring process --------------------------------------------------------------------------------------
    def _module(self) -> Any:
        """``torch.npu``, which exists only once torch_npu is imported; torch >= 2.5 does so by itself unless told not to."""
        import torch

        if not hasattr(torch, self.device_type):
            import importlib

            importlib.import_module("torch_npu")
        return torch.get_device_module(self.device_type)

    def check(self, index: int) -> None:
        """Work on the device and wait. Raises RuntimeError, an absent or broken torch_npu included, with all its words."""
        try:
            self._module()
        except (ImportError, OSError) as error:
            raise RuntimeError(f"torch_npu cannot be imported: {error}; source CANN's set_env.sh") from error
        except RuntimeError as error:  # torch's autoloading hides what was wrong in the cause
            raise RuntimeError(f"{error} ({error.__cause__}); source CANN's set_env.sh") from error
        super().check(index)

    def settings(self) -> dict[str, Value]:
        """torch's switches and torch_npu's, how overflow is handled, launch blocking, the allocator's configuration."""
        return {
            **super().settings(),
            **ascend_settings.in_force(self._module()),
            "launch_blocking": os.environ.get("ASCEND_LAUNCH_BLOCKING", "0") not in ("", "0"),
            "alloc_conf": os.environ.get("PYTORCH_NPU_ALLOC_CONF") or None,
        }

    def versions_loaded(self) -> dict[str, Value]:
        """torch, torch_npu, CANN and its collectives as loaded; None where they do not tell, as CANN before 8.1 does not."""
        import torch

        module = self._module()
        return {
            **super().versions_loaded(),
            "torch_npu": getattr(sys.modules.get("torch_npu"), "__version__", None),
            "toolkit": getattr(torch.version, "cann", None) or ascend_settings.cann_loaded(module, "CANN"),
            "hccl": ascend_settings.cann_loaded(module, "HCCL"),
        }


def _asked(host: Host, seen: str) -> tuple[Table, list[Chip], Finding | None]:
    """npu-smi's table and chips, and what is wrong where it does not answer or lists none."""
    listing = host.run(["npu-smi", "info", "-m"])
    if listing is None:
        what = f"{seen}, but npu-smi is not on PATH, so the chips cannot be told"
        mend = "put npu-smi on PATH; in a container, mount it in"
        return ascend_smi.parse(""), [], Finding("tool-missing", "error", what, mend)
    info = host.run(["npu-smi", "info"]) or CommandResult(0, "", "")
    table = ascend_smi.parse(info.out)
    wrong = failure(info) if failure(listing) is not None and table.chips else failure(listing)
    if wrong is not None:
        missing = ascend_files.nodes_missing(host)
        absent = f"; {', '.join(missing)} not there" if missing else ""
        return table, [], Finding(wrong[0], "error", f"{seen}, but npu-smi: {wrong[1]}{absent}", wrong[2])
    found = ascend_smi.chips(listing.out, info.out if failure(info) is None else "")
    if found:
        return table, found, None
    what = f"{seen}, but npu-smi lists no chip"
    return table, [], Finding("no-devices", "error", what, "see npu-smi info and the kernel's log")


def _links(host: Host, places: list[int]) -> str | None:
    """How the visible chips are joined (``HCCS``, ``PIX``, …), by npu-smi, which counts in the order of its listing."""
    if len(places) < 2:
        return None
    result = host.run(["npu-smi", "info", "-t", "topo"])
    told = matrix(result.out if result is not None and failure(result) is None else "", "NPU")
    seen = {place: index for index, place in enumerate(places)}
    return links({(seen[a], seen[b]): word for (a, b), word in told.items() if a in seen and b in seen}, len(places))


def _name(host: Host, chip: Chip, table: Table) -> tuple[str, str | None]:
    """The chip's whole name and its vNPU template; the board is asked only where the tables leave the model open."""
    name, part = ascend_smi.soc_name(chip.name)
    if name in ("Ascend910", "Ascend950"):
        return ascend_smi.soc_name(chip.name, ascend_smi.asked(host, "board", chip.npu, chip.chip), table.two_dies)
    return name, part


def _mend(count: int) -> str:
    return f"unset {VARIABLE}, or name rising numbers from 0 to {count - 1}: they count what this container sees"


def _settings(host: Host) -> dict[str, Value]:
    return switches(host, SWITCHES)


def _versions(host: Host, table: Table, chip: Chip | None = None) -> dict[str, Value]:
    """The kernel driver, the firmware and CANN apart, with the tool's words where a container does not see the files."""
    firmware = ascend_files.firmware_version(host)
    if firmware is None and chip is not None:
        firmware = ascend_smi.asked(host, "board", chip.npu).get("Firmware Version")
    return {
        "driver": driver_version(host) or table.driver,
        "firmware": firmware,
        "toolkit": cann_version(host),
        **ascend_files.cann_packages(host),
        "torch_npu": host.package_version("torch-npu"),
        **host_versions(host),
    }


def _state_findings(chips: list[Chip], table: Table) -> list[Finding]:
    found = []
    for chip in chips:
        severity = _UNWELL.get(chip.health or "")
        if severity is not None:
            what = f"NPU {chip.npu} chip {chip.chip}: npu-smi says that its health is {chip.health}"
            mend = f"see npu-smi info -t health -i {chip.npu} -c {chip.chip}; reset the card or take it out"
            finding = Finding("device-unhealthy", "warning", what, mend)
            found.append(replace(finding, severity="error") if severity == "error" else finding)
    if table.warning:
        found.append(Finding("driver-incomplete", "warning", table.warning, "install the driver package anew"))
    return found


def _torch_findings(host: Host, count: int) -> list[Finding]:
    """torch without torch_npu, and torch_npu whose import is bound to fail: read from metadata, nothing is imported."""
    if host.package_version("torch") is None:
        return []
    version = host.package_version("torch-npu")
    if version is None:
        what = f"npu-smi lists {count} device(s), but torch_npu is not installed"
        mend = "install the torch_npu of this torch's version, or say --accel=cpu"
        return [Finding("torch-npu-missing", "error", what, mend)]
    if cann_version(host) is None and "ASCEND_HOME_PATH" not in host.env:
        torch_too = ", and import torch with it, since torch loads it by itself" if ascend_files.autoloads(host) else ""
        what = f"torch_npu {version} is installed, but CANN is nowhere to be found: importing it will fail{torch_too}"
        return [Finding("cann-missing", "warning", what, "install CANN, then source its set_env.sh")]
    return []
