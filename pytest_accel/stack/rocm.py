"""AMD: what can be told from files today. Telemetry and driver settings (amdsmi) are not read yet, so they stay None."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from pytest_accel.stack import error_texts
from pytest_accel.stack.chips import name_of, slug_of
from pytest_accel.stack.common import PciCard, hashed, host_versions, pci_cards, switches, torch_build
from pytest_accel.stack.host import Host
from pytest_accel.stack.torch_cuda_like import CudaLike
from pytest_accel.stack.types import Device, Finding, Probe, Telemetry, Value
from pytest_accel.stack.visible import hides_on_purpose, pick

VENDOR = "1002"
CARD_CLASSES = (0x03, 0x12)
NODES = "/sys/class/kfd/kfd/topology/nodes"
KFD = "/dev/kfd"
SWITCHES = (
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK",
    "PYTORCH_ROCM_ARCH",
    "TORCH_BLAS_PREFER_HIPBLASLT",
    "PYTORCH_TUNABLEOP_ENABLED",
    "MIOPEN_FIND_MODE",
)


@dataclass(frozen=True)
class Node:
    """A GPU of the kernel's topology: its gfx name, PCI address and ids, unique id, memory in bytes."""

    gfx: str
    pci: str
    ids: str
    unique: str | None
    memory_bytes: int | None


class RocmPlatform(CudaLike):
    """See ``stack.platform.Platform``."""

    name = "rocm"
    vendor = "amd"
    # ROCR_VISIBLE_DEVICES is not among them: it narrows first, and these count in what it leaves.
    visible_env = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
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
            findings=(wrong,),
        )

    def _present(self, host: Host, nodes: list[Node]) -> Probe:
        shown, hidden = _visible(host, nodes)
        if not shown:
            what = f"{' and '.join(hidden)} leave(s) none of {len(nodes)} device(s) visible"
            probe = self._broken(
                host, [], nodes, Finding("devices-hidden", "error", what, "unset it, or name a device in it")
            )
            on_purpose = all(hides_on_purpose(text.partition("=")[2]) for text in hidden)
            count = len(nodes) if on_purpose else 0
            return Probe(**{**vars(probe), "hardware": {**probe.hardware, "hidden_devices": count}})
        partition = _partition(host, shown[0])
        devices = tuple(
            Device(
                index=index,
                name=name_of(node.ids) or f"AMD {node.gfx}",
                uuid=node.unique,
                pci=node.pci,
                memory_bytes=node.memory_bytes,
                partition=_partition(host, node),
                architecture=node.gfx,
                identity=hashed(node.unique or node.pci),
            )
            for index, node in enumerate(shown)
        )
        first = devices[0]
        return Probe(
            platform=self.name,
            state="present",
            reason=f"the kernel's topology has {len(nodes)} GPU(s), {len(devices)} visible",
            slug=slug_of(self.vendor, first.name, shown[0].ids, partition),
            devices=devices,
            hardware={
                "name": first.name,
                "chip": shown[0].ids,
                "architecture": first.architecture,
                "memory_bytes": first.memory_bytes,
                "partition": partition,
            },
            versions=_versions(host),
            findings=_torch_findings(host, len(devices)),
        )

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """Nothing yet: reading it takes amdsmi."""
        return Telemetry()

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` of a message of torch's, HIP's or the driver's."""
        return error_texts.classify(text, error_texts.ROCM, error_texts.CUDA_LIKE)

    def versions_loaded(self) -> dict[str, Value]:
        """The libraries as loaded: torch's names for MIOpen and RCCL are cuDNN's and NCCL's."""
        import torch

        versions = super().versions_loaded()
        miopen = torch.backends.cudnn.version()
        return {
            **{name: value for name, value in versions.items() if name != "nccl"},
            "toolkit": torch.version.hip,
            "rccl": versions["nccl"],
            "miopen": str(miopen) if miopen else None,
        }

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """The properties, with the whole gfx name: its flags (``sramecc+:xnack-``) change how memory behaves."""
        import torch

        properties = torch.cuda.get_device_properties(index)
        return {**super().hardware_loaded(index), "gfx": getattr(properties, "gcnArchName", None)}


def gpu_nodes(host: Host) -> list[Node]:
    """The GPUs of the kernel's topology that this process may see; a control group hides the others' properties."""
    found = []
    names = sorted(host.listdir(NODES), key=lambda name: (len(name), name))
    for name in names:
        text = host.read(f"{NODES}/{name}/properties") or ""
        values = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        if not values.get("simd_count"):
            continue
        gfx, place = values.get("gfx_target_version", 0), values.get("location_id", 0)
        unique = values.get("unique_id")
        found.append(
            Node(
                gfx=f"gfx{gfx // 10000}{gfx // 100 % 100:x}{gfx % 100:x}",
                pci=f"{values.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}",
                ids=f"{values.get('vendor_id', 0):04x}:{values.get('device_id', 0):04x}",
                unique=f"GPU-{unique:016x}" if unique else None,
                memory_bytes=_memory(host, f"{NODES}/{name}", values),
            )
        )
    return found


def _memory(host: Host, node: str, values: dict[str, int]) -> int | None:
    total = values.get("local_mem_size") or 0
    for bank in host.listdir(f"{node}/mem_banks") if not total else ():
        match = re.search(
            r"^size_in_bytes (\d+)$", host.read(f"{node}/mem_banks/{bank}/properties") or "", re.MULTILINE
        )
        total += int(match.group(1)) if match else 0
    return total or None


def _for_computing(host: Host, cards: list[PciCard]) -> bool:
    """True where a card is an accelerator, or somebody installed ROCm for a display adapter (an integrated one, say)."""
    if any(card.class_code >> 8 not in (0x0300, 0x0301, 0x0302) for card in cards):
        return True
    build = torch_build(host)
    return host.exists("/opt/rocm") or (build is not None and build.hip is not None)


def _wrong(host: Host, cards: list[PciCard], nodes: list[Node]) -> Finding | None:
    count = max(len(cards), len(nodes))
    if not host.exists("/sys/module/amdgpu"):
        what = f"{count} AMD card(s), but the kernel module amdgpu is not loaded"
        return Finding(
            "driver-not-loaded", "error", what, "modprobe amdgpu; after a kernel update, build its module anew"
        )
    if not host.exists(KFD):
        what = f"{count} AMD card(s), but {KFD} is not there"
        return Finding("no-kfd", "error", what, f"in a container, start it with --device={KFD} --device=/dev/dri")
    if not host.access(KFD, os.R_OK | os.W_OK):
        what = f"{count} AMD card(s), but this user may not read and write {KFD}"
        mend = f"join the group that owns it; in a container, --group-add $(stat -c %g {KFD}) on the host"
        return Finding("no-permission", "error", what, mend)
    if not nodes:
        what = f"{count} AMD card(s), but the kernel's topology shows no GPU to this process"
        return Finding("no-devices", "error", what, "see the kernel's log; in a container, pass /dev/dri/renderD* in")
    hip, cuda = host.env.get("HIP_VISIBLE_DEVICES"), host.env.get("CUDA_VISIBLE_DEVICES")
    if hip is not None and cuda is not None and hip != cuda:
        what = f"HIP_VISIBLE_DEVICES={hip!r} and CUDA_VISIBLE_DEVICES={cuda!r} mean the same on AMD, and differ"
        return Finding("visibility-differs", "error", what, "set one of them only")
    return None


def _visible(host: Host, nodes: list[Node]) -> tuple[list[Node], list[str]]:
    """The nodes left by ROCr's variable, then by HIP's, which counts in what remains; and the variables that narrowed."""
    hip = next((name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in host.env), None)
    narrowed = []
    for name in ("ROCR_VISIBLE_DEVICES", hip):
        text = host.env.get(name) if name else None
        if text is not None:
            before = len(nodes)
            nodes = [nodes[place] for place in pick(text, [node.unique or "" for node in nodes])]
            if before and not nodes:
                narrowed.append(f"{name}={text}")
    return nodes, narrowed


def _partition(host: Host, node: Node) -> str | None:
    """``cpx-nps4``; None for the whole card (SPX, NPS1) and where the kernel does not say."""
    base = f"/sys/bus/pci/devices/{node.pci}"
    compute = (host.read(f"{base}/current_compute_partition") or "").strip().lower()
    memory = (host.read(f"{base}/current_memory_partition") or "").strip().lower()
    if compute in ("", "spx") and memory in ("", "nps1"):
        return None
    return "-".join(part for part in (compute, memory) if part)


def _versions(host: Host) -> dict[str, Value]:
    """The module's own version, or ``in-tree``: that driver has none but the kernel's."""
    module = (host.read("/sys/module/amdgpu/version") or "").strip()
    loaded = "in-tree" if host.exists("/sys/module/amdgpu") else None
    build = torch_build(host)
    installed = (host.read("/opt/rocm/.info/version") or host.read("/opt/rocm/.info/version-dev") or "").strip() or None
    return {
        "driver": module or loaded,
        "toolkit": (build.hip if build else None) or installed,
        "rocm_home": installed,
        **host_versions(host),
        **switches(host, SWITCHES),
    }


def _torch_findings(host: Host, count: int) -> tuple[Finding, ...]:
    build = torch_build(host)
    if build is None or not (build.for_host_only or build.cuda):
        return ()
    what = f"the kernel shows {count} device(s), but torch {build.version} was built without ROCm"
    return (Finding("torch-without-rocm", "error", what, "install a ROCm build of torch, or say --accel=cpu"),)
