"""What every platform's probe asks of a host: versions without imports, torch's build, the cards on the PCI bus."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Value

#: The environment variable that all measuring processes of one pytest run carry, with the run's id.
RUN_MARK = "PYTEST_ACCEL_RUN"
#: Packages whose version is part of the stack, by the word they are stored under: the distributions that carry them, in
#: the order in which they are asked for. Vendors ship some under a name of their own.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "numpy": ("numpy",),
    "triton": ("triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton", "triton-ascend"),
    "vllm": ("vllm",),
    "vllm-ascend": ("vllm-ascend",),
    "sglang": ("sglang",),
    "mindie": ("mindie", "mindie-llm"),
    "transformers": ("transformers",),
    "peft": ("peft",),
    "accelerate": ("accelerate",),
    "deepspeed": ("deepspeed",),
    "flash-attn": ("flash-attn",),
    "aiter": ("amd-aiter", "aiter"),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-cann"),
    "jax": ("jax",),
    "mindspore": ("mindspore",),
}
#: Settings of the collective libraries that change what is sent how; nothing that may hold a host's name or a secret.
COMMUNICATION = (
    *(
        f"{library}_{name}"
        for library in ("NCCL", "RCCL")
        for name in (
            "ALGO",
            "PROTO",
            "P2P_DISABLE",
            "P2P_LEVEL",
            "SHM_DISABLE",
            "IB_DISABLE",
            "NET_GDR_LEVEL",
            "CUMEM_ENABLE",
            "NVLS_ENABLE",
            "BUFFSIZE",
            "MIN_NCHANNELS",
            "MAX_NCHANNELS",
            "CROSS_NIC",
            "IB_HCA",
            "SOCKET_IFNAME",
        )
    ),
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "RCCL_MSCCL_ENABLE",
    "RCCL_MSCCLPP_ENABLE",
    "HCCL_ALGO",
    "HCCL_BUFFSIZE",
    "HCCL_DETERMINISTIC",
    "HCCL_INTRA_PCIE_ENABLE",
    "HCCL_INTRA_ROCE_ENABLE",
    "HCCL_OP_EXPANSION_MODE",
    "HCCL_RDMA_TC",
    "HCCL_RDMA_SL",
    "HCCL_SOCKET_IFNAME",
)
_NICS = "/sys/class/infiniband"
_BUILD_LINE = re.compile(r"^(cuda|hip|rocm|git_version|__version__)\b[^=\n]*=\s*(.+?)\s*$", re.MULTILINE)


def hashed(text: str) -> str:
    """A short hash by which a device or machine is known without its id being told: 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def host_versions(host: Host, packages: Iterable[str] = ()) -> dict[str, Value]:
    """Versions of Python, the OS kernel and ``PACKAGES`` (and ``packages``), from metadata, nothing is imported.

    A package that is not installed is None. Settings of the collective libraries and network cards follow, where there are
    any: a machine without them says nothing of them.
    """
    build = torch_build(host)
    return {
        "python": platform.python_version(),
        "kernel": host.kernel(),
        **{name: _first_version(host, names) for name, names in PACKAGES.items()},
        "torch": build.version if build is not None else None,
        **{name: host.package_version(name) for name in packages},
        **communication(host),
    }


def _first_version(host: Host, names: Iterable[str]) -> str | None:
    return next((version for name in names if (version := host.package_version(name)) is not None), None)


def communication(host: Host) -> dict[str, Value]:
    """The variables of ``COMMUNICATION`` that are set, and ``nic``: rate and state of every InfiniBand or RoCE port."""
    found: dict[str, Value] = {name: host.env[name] for name in COMMUNICATION if name in host.env}
    ports = []
    for card in host.listdir(_NICS):
        for port in host.listdir(f"{_NICS}/{card}/ports"):
            told = [(host.read(f"{_NICS}/{card}/ports/{port}/{name}") or "").strip() for name in ("rate", "state")]
            ports.append(
                f"{card}/{port} {told[0] or 'rate unknown'}, {told[1].partition(': ')[2] or told[1] or 'state unknown'}"
            )
    return {**found, **({"nic": "; ".join(ports)} if ports else {})}


def links(words: Mapping[tuple[int, int], str], count: int) -> str | None:
    """How ``count`` devices are joined, in the vendor's words: one word where all pairs are joined alike, else pair by pair.

    ``words`` is by the positions of two devices, the lower first; None with fewer than two devices, and where nothing is told.
    """
    told = {pair: word for pair, word in sorted(words.items()) if pair[0] < pair[1] < count}
    if count < 2 or not told:
        return None
    if len(set(told.values())) == 1 and len(told) == count * (count - 1) // 2:
        return next(iter(told.values()))
    return ", ".join(f"{one}-{other} {word}" for (one, other), word in told.items())


def matrix(text: str, word: str) -> dict[tuple[int, int], str]:
    """The pairs of a topology table as vendors' tools print it: a head with ``GPU0 GPU1 …`` (``word`` is GPU), a row a device."""
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", line).split() for line in text.splitlines()]
    head = next((row for row in rows if row[:1] == [f"{word}0"] and (len(row) < 2 or row[1] != "X")), [])
    columns = [name for name in head if re.fullmatch(rf"{word}\d+", name)]
    found = {}
    for row in rows:
        match = re.fullmatch(rf"{word}(\d+)", row[0]) if row else None
        if match is None or row is head or "X" not in row:
            continue
        for place, (name, told) in enumerate(zip(columns, row[1:], strict=False)):
            if told != "X" and int(match.group(1)) < int(name.removeprefix(word)):
                found[int(match.group(1)), place] = told
    return found


def switches(host: Host, names: Iterable[str]) -> dict[str, Value]:
    """The values of environment variables that change what libraries do; None where unset."""
    return {name: host.env.get(name) for name in names}


@dataclass(frozen=True)
class TorchBuild:
    """What the installed torch was built for, read from its ``version.py`` without importing it."""

    version: str
    cuda: str | None
    hip: str | None
    known: bool

    @property
    def for_host_only(self) -> bool:
        """True where torch was built for no accelerator at all, as far as its own file says."""
        return self.known and self.cuda is None and self.hip is None


def torch_build(host: Host) -> TorchBuild | None:
    """The installed torch's build, or None where torch is not installed."""
    version = host.package_version("torch")
    if version is None:
        return None
    text = host.package_file("torch", "torch/version.py")
    if text is None:
        match = re.search(r"\+(cu|rocm)(\d[\d.]*)", version)
        found = match.group(2) if match else None
        if match and match.group(1) == "cu" and found and "." not in found:
            found = f"{found[:-1]}.{found[-1]}"
        kind = match.group(1) if match else ""
        return TorchBuild(version, found if kind == "cu" else None, found if kind == "rocm" else None, known=False)
    said = {name: _literal(value) for name, value in _BUILD_LINE.findall(text)}
    # Its own word comes first: the index of wheels may leave out what is behind the plus (2.11.0 for 2.11.0+cu130).
    return TorchBuild(said.get("__version__") or version, said.get("cuda"), said.get("hip"), known=True)


def _literal(text: str) -> str | None:
    match = re.fullmatch(r"""(['"])(.*)\1""", text)
    return match.group(2) if match else None


@dataclass(frozen=True)
class PciCard:
    """A card on the PCI bus: its address, its ids as ``10de:2335``, its class (24 bits) and the kernel driver it is bound to."""

    address: str
    ids: str
    class_code: int
    driver: str | None


def pci_cards(host: Host, vendor: str, classes: Iterable[int]) -> list[PciCard]:
    """The cards of ``vendor`` (``10de``) whose base class (0x03 display, 0x12 accelerator) is among ``classes``, in bus order."""
    wanted, found = set(classes), []
    base = "/sys/bus/pci/devices"
    for address in host.listdir(base):
        if (host.read(f"{base}/{address}/vendor") or "").strip().lower() != f"0x{vendor}":
            continue
        class_code = _number(host.read(f"{base}/{address}/class"))
        if class_code is None or class_code >> 16 not in wanted:
            continue
        device = (host.read(f"{base}/{address}/device") or "").strip().lower().removeprefix("0x")
        driver = re.search(r"^DRIVER=(\S+)", host.read(f"{base}/{address}/uevent") or "", re.MULTILINE)
        found.append(PciCard(address, f"{vendor}:{device}", class_code, driver.group(1) if driver else None))
    return found


def _number(text: str | None) -> int | None:
    try:
        return int((text or "").strip(), 0)
    except ValueError:
        return None


def pci_address(text: str | None) -> str | None:
    """A PCI address in the kernel's form, ``0000:83:00.0``; vendors write the domain with 8 digits, or leave it out."""
    match = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", (text or "").strip().lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}"


def other_processes(host: Host, ids: Iterable[int], own_is_among: bool) -> int | None:
    """How many of ``ids`` (processes on a device) are none of this run's; None where it cannot be told.

    This run's are this process, its descendants, and all that carry the same ``RUN_MARK`` in their environment: another
    worker's measuring process waits for the lock on the device, and computes nothing while this one is timed.
    Drivers tell process ids of the outermost namespace. In a container they are not ours: where this process is known to
    have work on the device (``own_is_among``) and is not in the list, the ids are foreign and nothing is said.
    """
    listed, own = set(ids), os.getpid()
    if own_is_among and listed and own not in listed:
        return None
    return sum(not _descends(host, number, own) and not _of_this_run(host, number) for number in listed)


def _of_this_run(host: Host, number: int) -> bool:
    mark = host.env.get(RUN_MARK)
    return bool(mark) and f"{RUN_MARK}={mark}" in (host.read(f"/proc/{number}/environ") or "").split("\0")


def _descends(host: Host, number: int, ancestor: int) -> bool:
    for _ in range(32):
        if number == ancestor:
            return True
        match = re.search(r"^PPid:\s+(\d+)", host.read(f"/proc/{number}/status") or "", re.MULTILINE)
        if match is None:
            return False
        number = int(match.group(1))
    return False
