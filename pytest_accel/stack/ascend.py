"""Huawei Ascend: what the driver's files and npu-smi tell today. Telemetry is not read yet, so it stays None."""

from __future__ import annotations

import re
from typing import Any

from pytest_accel.stack import error_texts, torch_settings
from pytest_accel.stack.ascend_smi import Chip, chips, failure
from pytest_accel.stack.chips import slug_of
from pytest_accel.stack.common import hashed, host_versions, pci_cards, switches
from pytest_accel.stack.host import Host
from pytest_accel.stack.torch_like import COMMON_SETTINGS, TorchLike
from pytest_accel.stack.types import Device, Finding, Probe, Telemetry, Value
from pytest_accel.stack.visible import hides_on_purpose, pick

VENDOR = "19e5"
CARD_CLASSES = (0x12,)  # Huawei's display adapters on server boards and its network cards are other classes
VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
SWITCHES = ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE", "TASK_QUEUE_ENABLE", "TORCH_TRANSFER_TO_NPU")


class AscendPlatform(TorchLike):
    """See ``stack.platform.Platform``."""

    name = "ascend"
    vendor = "ascend"
    device_type = "npu"
    visible_env = (VARIABLE,)
    collective_backend = "hccl"
    settings_allowed = torch_settings.allowed(COMMON_SETTINGS)

    def probe(self, host: Host) -> Probe:
        """Cards, device nodes and the driver's file; then npu-smi, which alone tells the chips."""
        cards = len(pci_cards(host, VENDOR, CARD_CLASSES))
        nodes = sum(re.fullmatch(r"davinci\d+", name) is not None for name in host.listdir("/dev"))
        driver = driver_version(host)
        if not cards and not nodes and driver is None:
            return Probe(self.name, "absent", "no Ascend card on the PCI bus, no device node, no driver installed")
        seen = f"{cards} Ascend card(s) on the PCI bus, {nodes} device node(s), driver {driver or 'not installed'}"
        found, wrong = self._chips(host, seen)
        if wrong is None and not found:
            wrong = Finding(
                "no-devices", "error", f"{seen}, but npu-smi lists no chip", "see npu-smi info and the kernel's log"
            )
        if wrong is not None:
            if not cards and not nodes:
                return Probe(
                    self.name, "absent", f"no Ascend card and no device node, though a driver ({driver}) is installed"
                )
            return self._broken(host, wrong)
        return self._present(host, found)

    @staticmethod
    def _chips(host: Host, seen: str) -> tuple[list[Chip], Finding | None]:
        listing = host.run(["npu-smi", "info", "-m"])
        if listing is None:
            what = f"{seen}, but npu-smi is not on PATH, so the chips cannot be told"
            return [], Finding("tool-missing", "error", what, "put npu-smi on PATH; in a container, mount it in")
        wrong = failure(listing)
        if wrong is not None:
            return [], Finding(wrong[0], "error", f"{seen}, but npu-smi: {wrong[1]}", wrong[2])
        table = host.run(["npu-smi", "info"])
        return chips(listing.out, table.out if table is not None and table.rc == 0 else ""), None

    def _broken(self, host: Host, wrong: Finding, **hardware: Value) -> Probe:
        return Probe(
            platform=self.name,
            state="broken",
            reason=wrong.message,
            mend=wrong.mend,
            slug=slug_of(self.vendor),
            hardware={"name": "Ascend", **hardware},
            versions=_versions(host),
            findings=(wrong,),
        )

    def _present(self, host: Host, found: list[Chip]) -> Probe:
        text = host.env.get(VARIABLE)
        shown = [found[place] for place in pick(text, [""] * len(found))]
        if not shown:
            what = f"{VARIABLE}={text!r} leaves none of {len(found)} device(s) visible"
            hidden = len(found) if hides_on_purpose(text or "") else 0
            wrong = Finding("devices-hidden", "error", what, f"unset {VARIABLE}, or name a device in it")
            return self._broken(host, wrong, hidden_devices=hidden)
        devices = tuple(
            Device(
                index=index,
                name=chip.name,
                pci=chip.pci,
                memory_bytes=chip.memory_bytes,
                identity=hashed(chip.pci) if chip.pci else "",
            )
            for index, chip in enumerate(shown)
        )
        first = devices[0]
        return Probe(
            platform=self.name,
            state="present",
            reason=f"npu-smi lists {len(found)} chip(s), {len(devices)} visible",
            slug=slug_of(self.vendor, first.name),
            devices=devices,
            hardware={"name": first.name, "memory_bytes": first.memory_bytes, "partition": None},
            versions=_versions(host),
            findings=_torch_findings(host, len(devices)),
        )

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """Nothing yet: reading it takes npu-smi's details."""
        return Telemetry()

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
        """Work on the device and wait. Raises RuntimeError, an absent torch_npu included."""
        try:
            self._module()
        except ImportError as error:
            raise RuntimeError(f"torch_npu cannot be imported: {error}; source CANN's set_env.sh") from error
        super().check(index)

    def versions_loaded(self) -> dict[str, Value]:
        """torch, torch_npu and CANN as loaded."""
        import torch

        self._module()
        return {**super().versions_loaded(), "toolkit": getattr(torch.version, "cann", None)}


def driver_version(host: Host) -> str | None:
    """The driver's version from its ``version.info``: ``package_version`` where it is there, else ``Version``."""
    installed = host.read("/etc/ascend_install.info") or ""
    match = re.search(r"^Driver_Install_Path_Param=(\S+)", installed, re.MULTILINE)
    base = match.group(1) if match else "/usr/local/Ascend"
    return _field(host.read(f"{base.rstrip('/')}/driver/version.info"), "package_version", "Version")


def cann_version(host: Host) -> str | None:
    """CANN's version from ``ascend_toolkit_install.info`` in the first of the places where it is installed."""
    machine = host.machine()
    places = [host.env.get("ASCEND_HOME_PATH"), host.env.get("ASCEND_TOOLKIT_HOME")]
    places += ["/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest"]
    for place in filter(None, places):
        for folder in (f"{machine}-linux", "arm64-linux"):
            version = _field(host.read(f"{place}/{folder}/ascend_toolkit_install.info"), "version")
            if version:
                return version
    return None


def _field(text: str | None, *names: str) -> str | None:
    for name in names:
        match = re.search(rf"^{name}=(\S+)", text or "", re.MULTILINE)
        if match:
            return match.group(1)
    return None


def _versions(host: Host) -> dict[str, Value]:
    firmware = _field(host.read("/usr/local/Ascend/firmware/version.info"), "Version")
    return {
        "driver": driver_version(host),
        "firmware": firmware,
        "toolkit": cann_version(host),
        "torch_npu": host.package_version("torch-npu"),
        **host_versions(host),
        **switches(host, SWITCHES),
    }


def _torch_findings(host: Host, count: int) -> tuple[Finding, ...]:
    if host.package_version("torch") is None or host.package_version("torch-npu") is not None:
        return ()
    what = f"npu-smi lists {count} device(s), but torch_npu is not installed"
    return (
        Finding(
            "torch-npu-missing", "error", what, "install the torch_npu of this torch's version, or say --accel=cpu"
        ),
    )
