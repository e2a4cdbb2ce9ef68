"""AMD: what is here, in which state, and how it is used through torch, which calls it ``cuda``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.stack import error_texts, rocm_kfd, rocm_lib, rocm_smi, rocm_text, rocm_visible
from pytest_accel.stack.chips import name_of, slug_of
from pytest_accel.stack.common import (
    PciCard,
    host_versions,
    links,
    other_processes,
    pci_cards,
    switches,
    torch_build,
)
from pytest_accel.stack.host import Host
from pytest_accel.stack.identity import device_identity
from pytest_accel.stack.rocm_kfd import Node, gpu_nodes
from pytest_accel.stack.rocm_libraries import loaded_libraries, miopen_version
from pytest_accel.stack.rocm_smi import Card
from pytest_accel.stack.torch_cuda_like import CudaLike
from pytest_accel.stack.types import Device, Finding, Probe, Telemetry, Value
from pytest_accel.stack.visible import hides_on_purpose

VENDOR = "1002"
CARD_CLASSES = (0x03, 0x12)
KFD = "/dev/kfd"
#: Variables that change what is computed, or how fast: they are settings, as in force in every process of this run.
SWITCHES = (
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK",
    "PYTORCH_ROCM_ARCH",
    "TORCH_BLAS_PREFER_HIPBLASLT",
    "PYTORCH_TUNABLEOP_ENABLED",
    "MIOPEN_FIND_MODE",
)


class RocmPlatform(CudaLike):
    """See ``stack.platform.Platform``."""

    name = "rocm"
    vendor = "amd"
    visible_env = rocm_visible.VARIABLES
    debug_commands = (
        "AMD_SERIALIZE_KERNEL=3 rocgdb --args python reproduce.py",
        "rocprofv3 --hip-trace --kernel-trace --stats -- python reproduce.py",
    )
    alloc_variables = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    blocking_variable = "AMD_SERIALIZE_KERNEL"

    def probe(self, host: Host) -> Probe:
        """PCI bus, amdgpu module, /dev/kfd and the kernel's topology. A display adapter without ROCm is no accelerator."""
        cards = pci_cards(host, VENDOR, CARD_CLASSES)
        nodes = gpu_nodes(host)
        if not cards and not nodes:
            return Probe(self.name, "absent", "no AMD card on the PCI bus, no GPU in the kernel's topology")
        if not _for_computing(host, cards):
            return Probe(
                self.name, "absent", f"{len(cards)} AMD display adapter(s), and no ROCm here to compute with them"
            )
        wrong = _wrong(host, cards, nodes)
        if wrong is not None:
            return self._broken(host, cards, nodes, wrong)
        return self._present(host, nodes)

    def _broken(self, host: Host, cards: list[PciCard], nodes: list[Node], wrong: Finding) -> Probe:
        ids = nodes[0].ids if nodes else cards[0].ids
        name = name_of(ids) or f"AMD {ids}"
        return Probe(
            platform=self.name,
            state="broken",
            reason=wrong.message,
            mend=wrong.mend,
            slug=slug_of(self.vendor, name, ids),
            hardware={"name": name, "chip": ids},
            versions=_versions(host),
            settings=switches(host, SWITCHES),
            findings=(wrong,),
        )

    def _present(self, host: Host, nodes: list[Node]) -> Probe:
        shown, hidden = rocm_visible.left(host, nodes)
        if not shown:
            return self._hidden(host, nodes, hidden)
        told = _told(host, shown)
        devices = tuple(_device(host, index, node, told.get(node.pci, Card())) for index, node in enumerate(shown))
        first, card = devices[0], told.get(shown[0].pci, Card())
        limit = rocm_kfd.power_cap_w(host, shown[0].pci)
        return Probe(
            platform=self.name,
            state="present",
            reason=f"the kernel's topology has {len(nodes)} GPU(s), {len(devices)} visible",
            slug=slug_of(self.vendor, first.name, shown[0].ids, first.partition),
            devices=devices,
            hardware={
                "name": first.name,
                "chip": shown[0].ids,
                "architecture": first.architecture,
                "memory_bytes": first.memory_bytes,
                "partition": first.partition,
                "count": len(devices),
                "links": links(rocm_kfd.joined(host, shown), len(shown)),
            },
            versions={
                **_versions(host),
                "vbios": rocm_kfd.vbios(host, shown[0].pci) or card.vbios,
                "firmware": rocm_kfd.firmware(host, shown[0].pci),
            },
            settings={
                "power_limit_w": card.power_limit_w if limit is None else limit,
                "ecc": rocm_kfd.ecc(host, shown[0].pci) or card.ecc,
                **switches(host, SWITCHES),
            },
            findings=(*_torch_findings(host, len(devices)), *rocm_visible.notes(host, nodes, shown)),
        )

    def _hidden(self, host: Host, nodes: list[Node], hidden: list[str]) -> Probe:
        what = f"{' and '.join(hidden)} leave(s) none of {len(nodes)} device(s) visible"
        wrong = Finding("devices-hidden", "error", what, "unset it, or name a device in it")
        probe = self._broken(host, [], nodes, wrong)
        on_purpose = all(hides_on_purpose(text.partition("=")[2]) for text in hidden)
        return replace(probe, hardware={**probe.hardware, "hidden_devices": len(nodes) if on_purpose else 0})

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """The state of ``device``, found by its PCI address: by amdsmi, else the kernel's files, else the vendor's tools.

        The kernel's files don't tell why a clock is low; the tools cost a second each, so they come last.
        """
        if device.pci is None:
            return Telemetry()
        smi = rocm_lib.loaded(host)
        now, ids = rocm_lib.telemetry(smi, device.pci) if smi is not None else (Telemetry(), None)
        if _says_nothing(now):
            now = rocm_kfd.sensors(host, device.pci)
        if _says_nothing(now):
            now, ids = rocm_smi.telemetry(host, device.pci)
        if device.partition:  # its processes cannot be told from those of the card's other parts
            return now
        torch = sys.modules.get("torch")
        working = torch is not None and bool(torch.cuda.is_initialized())
        node = next((node for node in gpu_nodes(host) if node.pci == device.pci), None)
        others = rocm_kfd.other_users(host, node, working)
        if others is None and ids is not None:
            others = other_processes(host, ids, working)
        return replace(now, other_processes=others)

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` of a message of torch's, HIP's or the driver's."""
        return error_texts.classify(text, error_texts.ROCM, error_texts.CUDA_LIKE)

    def versions_loaded(self) -> dict[str, Value]:
        """The libraries as loaded: torch's names for MIOpen and RCCL are cuDNN's and NCCL's."""
        import torch

        versions = super().versions_loaded()
        return {
            **{name: value for name, value in versions.items() if name != "nccl"},
            "toolkit": torch.version.hip,
            "rccl": versions["nccl"],
            "miopen": miopen_version(torch.backends.cudnn.version()),
            **loaded_libraries(),
        }

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """The properties, with the whole gfx name: its flags (``sramecc+:xnack-``) change how memory behaves."""
        import torch

        properties = torch.cuda.get_device_properties(index)
        return {**super().hardware_loaded(index), "gfx": getattr(properties, "gcnArchName", None)}


def _says_nothing(now: Telemetry) -> bool:
    return now.sm_clock_mhz is None and now.power_w is None and now.temperature_c is None


def _told(host: Host, nodes: Sequence[Node]) -> dict[str, Card]:
    """By PCI address what library or tools tell. They are asked only where the kernel's files and the table leave a gap."""
    if all(name_of(node.ids) and node.memory_bytes for node in nodes):
        return {}
    smi = rocm_lib.loaded(host)
    cards = rocm_lib.cards(smi) if smi is not None else []
    cards = cards or rocm_smi.cards(host)
    if not any(card.name for card in cards):
        listed = rocm_text.agents(rocm_smi.asked(host, "rocminfo"))
        cards = [Card(one.pci, one.name, one.ids, one.gfx, one.memory_bytes) for one in listed]
    return {card.pci: card for card in reversed(cards) if card.pci}


def _device(host: Host, index: int, node: Node, card: Card) -> Device:
    return Device(
        index=index,
        name=name_of(node.ids) or card.name or f"AMD {node.gfx} {node.ids.partition(':')[2]}",
        uuid=node.unique,
        pci=node.pci,
        memory_bytes=node.memory_bytes or card.memory_bytes,
        partition=rocm_kfd.partition(host, node.pci) or card.partition,
        architecture=node.gfx,
        identity=device_identity(host, node.unique, node.pci),
    )


def _for_computing(host: Host, cards: list[PciCard]) -> bool:
    """True where a card is an accelerator, or somebody installed ROCm for a display adapter (an integrated one, say)."""
    if any(card.class_code >> 8 not in (0x0300, 0x0301, 0x0302) for card in cards):
        return True
    build = torch_build(host)
    return host.exists("/opt/rocm") or (build is not None and build.hip is not None)


def _wrong(host: Host, cards: list[PciCard], nodes: list[Node]) -> Finding | None:
    """What keeps all cards from computing: the files' finding, with the vendor's own words where a tool has some."""
    found = _wrong_by_files(host, max(len(cards), len(nodes)), bool(nodes))
    if found is None:
        return rocm_visible.contradiction(host)
    said = rocm_text.said(host)
    return found if said is None else replace(found, message=f"{found.message} ({said.words})")


def _wrong_by_files(host: Host, count: int, listed: bool) -> Finding | None:
    seen = f"{count} AMD card(s), but"
    if not host.exists(rocm_kfd.MODULE):
        what = f"{seen} the kernel module amdgpu is not loaded"
        mend = "modprobe amdgpu; after a kernel update, build its module anew"
        return Finding("driver-not-loaded", "error", what, mend)
    live = (host.read(f"{rocm_kfd.MODULE}/initstate") or "live").strip()
    if live != "live":
        what = f"{seen} the kernel module amdgpu is in state {live!r}"
        return Finding("driver-not-loaded", "error", what, "see the kernel's log; reboot if it stays so")
    if not host.exists(KFD):
        mend = f"in a container, start it with --device={KFD} --device=/dev/dri"
        return Finding("no-kfd", "error", f"{seen} {KFD} is not there", mend)
    if not host.access(KFD, os.R_OK | os.W_OK):
        group = host.group(KFD)
        owner = f" (its group is number {group})" if group is not None else ""
        # In a container the group's name means nothing: only its number does.
        number = group if group is not None else f"$(stat -c %g {KFD})"
        mend = f"join the group that owns it; in a container, --group-add {number}, as the host's node has it"
        return Finding("no-permission", "error", f"{seen} this user may not read and write {KFD}{owner}", mend)
    if not listed:
        what = f"{seen} the kernel's topology shows no GPU to this process"
        return Finding("no-devices", "error", what, "see the kernel's log; in a container, pass /dev/dri/renderD* in")
    return None


def _versions(host: Host) -> dict[str, Value]:
    """Kernel and user space apart: the module's own version, or ``in-tree``, since that driver has none but the kernel's."""
    build = torch_build(host)
    installed = rocm_kfd.rocm_version(host)
    return {
        "driver": rocm_kfd.driver_version(host),
        "driver_source": (host.read(f"{rocm_kfd.MODULE}/srcversion") or "").strip() or None,
        "toolkit": (build.hip if build else None) or installed,
        "rocm_home": installed,
        **host_versions(host),
    }


def _torch_findings(host: Host, count: int) -> tuple[Finding, ...]:
    build = torch_build(host)
    if build is None or not (build.for_host_only or build.cuda):
        return ()
    what = f"the kernel shows {count} device(s), but torch {build.version} was built without ROCm"
    return (Finding("torch-without-rocm", "error", what, "install a ROCm build of torch, or say --accel=cpu"),)
