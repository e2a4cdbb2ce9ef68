"""AMD from the kernel's files: topology, partitions, processes, sensors. No tool, no library, no device is opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.stack.common import other_processes
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Telemetry

KFD_CLASS = "/sys/class/kfd"
NODES = f"{KFD_CLASS}/kfd/topology/nodes"
PROCESSES = f"{KFD_CLASS}/kfd/proc"
PCI = "/sys/bus/pci/devices"
MODULE = "/sys/module/amdgpu"
# CRAT_IOLINK_TYPE_* of the kernel's kfd_crat.h; links to processors are of type PCIe (2) too and lead to no GPU.
_LINK_TYPES = {"2": "PCIE", "11": "XGMI"}
_ENGINES = ("mec", "mec2", "rlc", "sdma", "smc", "vcn", "ta_ras", "ta_xgmi")
_ROCM_FILES = ("/opt/rocm/.info/version", "/opt/rocm/.info/version-dev", "/opt/rocm/.info/version-rocm")


@dataclass(frozen=True)
class Node:
    """A GPU of the kernel's topology: its gfx name, PCI address and ids, unique id, memory in bytes, the kernel's own id."""

    gfx: str
    pci: str
    ids: str
    unique: str | None
    memory_bytes: int | None
    gpu_id: str | None = None
    number: str = ""


def gfx_name(version: int) -> str:
    """``90402`` → ``gfx942``, ``90010`` → ``gfx90a``: two decimal digits each for major, minor and stepping."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def node_of(text: str, gpu_id: str | None = None) -> Node | None:
    """The GPU that a node's ``properties`` describe; None for a processor, and for properties that may not be read."""
    values = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
    if not values.get("simd_count"):
        return None
    place, unique = values.get("location_id", 0), values.get("unique_id")
    return Node(
        gfx=gfx_name(values.get("gfx_target_version", 0)),
        pci=f"{values.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}",
        ids=f"{values.get('vendor_id', 0):04x}:{values.get('device_id', 0):04x}",
        unique=f"GPU-{unique:016x}" if unique else None,
        memory_bytes=values.get("local_mem_size") or None,
        gpu_id=gpu_id,
    )


def gpu_nodes(host: Host) -> list[Node]:
    """The GPUs of the kernel's topology that this process may see; a control group hides the others' properties."""
    found = []
    for name in sorted(host.listdir(NODES), key=lambda name: (len(name), name)):
        base = f"{NODES}/{name}"
        node = node_of(host.read(f"{base}/properties") or "", (host.read(f"{base}/gpu_id") or "").strip() or None)
        if node is not None:
            memory = node.memory_bytes or _banks(host, base)
            found.append(Node(**{**vars(node), "memory_bytes": memory, "number": name}))
    return found


def joined(host: Host, nodes: Sequence[Node]) -> dict[tuple[int, int], str]:
    """How GPUs are joined, by their positions in ``nodes``: ``XGMI``, or ``PCIE`` where the kernel tells a way over the bus."""
    places = {node.number: place for place, node in enumerate(nodes)}
    found = {}
    for node, kind in (
        (node, kind) for node in nodes for kind in ("p2p_links", "io_links")
    ):  # a direct link counts last
        base = f"{NODES}/{node.number}/{kind}"
        for name in host.listdir(base):
            told = dict(re.findall(r"^(\w+) (\d+)$", host.read(f"{base}/{name}/properties") or "", re.MULTILINE))
            other, word = places.get(told.get("node_to", "")), _LINK_TYPES.get(told.get("type", ""))
            if other is not None and word is not None and other > places[node.number]:
                found[places[node.number], other] = word
    return found


def firmware(host: Host, pci: str) -> str | None:
    """The versions of the firmware that runs the card's engines, as the kernel writes them: ``mec 0x…, sdma 0x…, smc 0x…``."""
    base = f"{PCI}/{pci}/fw_version"
    told = {
        name.removesuffix("_fw_version"): (host.read(f"{base}/{name}") or "").strip()
        for name in host.listdir(base)
        if name.removesuffix("_fw_version") in _ENGINES
    }
    return ", ".join(f"{name} {version}" for name, version in sorted(told.items()) if version) or None


def _banks(host: Host, node: str) -> int | None:
    total = 0
    for bank in host.listdir(f"{node}/mem_banks"):
        text = host.read(f"{node}/mem_banks/{bank}/properties") or ""
        match = re.search(r"^size_in_bytes (\d+)$", text, re.MULTILINE)
        total += int(match.group(1)) if match else 0
    return total or None


def partition_name(compute: str | None, memory: str | None) -> str | None:
    """``cpx-nps4``; None for the whole card (SPX, NPS1) and where nothing is told."""
    parts = [(part or "").strip().lower() for part in (compute, memory)]
    if parts[0] in ("", "n/a", "spx") and parts[1] in ("", "n/a", "nps1"):
        return None
    return "-".join(part for part in parts if part not in ("", "n/a"))


def partition(host: Host, pci: str) -> str | None:
    """The partition mode of the card at ``pci``, from the kernel's files."""
    base = f"{PCI}/{pci}"
    return partition_name(host.read(f"{base}/current_compute_partition"), host.read(f"{base}/current_memory_partition"))


def driver_version(host: Host) -> str | None:
    """The kernel module's own version; ``in-tree`` for the kernel's driver, which has none; None where none is loaded."""
    return (host.read(f"{MODULE}/version") or "").strip() or ("in-tree" if host.exists(MODULE) else None)


def named_driver(text: str | None) -> str | None:
    """A tool's word for the driver: ``6.16.6`` as it is; a kernel release, or ``Linuxversion6.8.0…``, is ``in-tree``."""
    if not text or text == "N/A":
        return None
    own = re.fullmatch(r"\d+\.\d+\.\d+(?:\.\d+)?", text)
    return text if own else "in-tree"


def rocm_version(host: Host) -> str | None:
    """The version of ROCm in /opt/rocm. torch's wheels carry their own and don't use it."""
    texts = (host.read(path) for path in _ROCM_FILES)
    return next((text.strip() for text in texts if text and text.strip()), None)


def other_users(host: Host, node: Node | None, own_is_among: bool) -> int | None:
    """Processes that hold memory on the GPU and are not this one's; None where the kernel does not tell."""
    if node is None or node.gpu_id is None or not host.exists(PROCESSES):
        return None
    using = []
    for name in host.listdir(PROCESSES):
        held = (host.read(f"{PROCESSES}/{name}/vram_{node.gpu_id}") or "").strip()
        if name.isdigit() and held.isdigit() and int(held) > 0:
            using.append(int(name))
    return other_processes(host, using, own_is_among)


def sensors(host: Host, pci: str) -> Telemetry:
    """Clocks, power and the hottest spot's temperature by the driver's hwmon files (Hz, µW, 1/1000 °C); None where absent.

    The files don't say why a clock is low, so nothing is throttled as far as they know.
    """
    base = f"{PCI}/{pci}/hwmon"
    for name in host.listdir(base):
        clocks = _labelled(host, f"{base}/{name}", "freq")
        heat = _labelled(host, f"{base}/{name}", "temp")
        power = _whole(host.read(f"{base}/{name}/power1_average"))
        if power is None:
            power = _whole(host.read(f"{base}/{name}/power1_input"))
        hottest = heat.get("junction", heat.get("edge"))
        return Telemetry(
            sm_clock_mhz=_scaled(clocks.get("sclk")),
            memory_clock_mhz=_scaled(clocks.get("mclk")),
            power_w=power / 1e6 if power is not None else None,
            temperature_c=hottest / 1000 if hottest is not None else None,
        )
    return Telemetry()


def power_cap_w(host: Host, pci: str) -> float | None:
    """The power limit in force, in watts."""
    base = f"{PCI}/{pci}/hwmon"
    caps = (_whole(host.read(f"{base}/{name}/power1_cap")) for name in host.listdir(base))
    return next((cap / 1e6 for cap in caps if cap), None)


def ecc(host: Host, pci: str) -> bool | None:
    """True where the driver counts the memory controller's errors; None where it does not say (it counts none without ECC)."""
    return True if host.exists(f"{PCI}/{pci}/ras/umc_err_count") else None


def vbios(host: Host, pci: str) -> str | None:
    """The card's firmware as its part number, ``113-M3000100-102``."""
    return (host.read(f"{PCI}/{pci}/vbios_version") or "").strip() or None


def _labelled(host: Host, base: str, kind: str) -> dict[str, int]:
    found = {}
    for number in range(1, 6):
        label = (host.read(f"{base}/{kind}{number}_label") or "").strip()
        value = _whole(host.read(f"{base}/{kind}{number}_input"))
        if label and value is not None:
            found[label] = value
    return found


def _whole(text: str | None) -> int | None:
    match = re.fullmatch(r"-?\d+", (text or "").strip())
    return int(match.group()) if match else None


def _scaled(hertz: int | None) -> int | None:
    return round(hertz / 1e6) if hertz is not None else None
