"""What every platform's probe asks of a host: versions without imports, torch's build, the cards on the PCI bus."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Value

_PACKAGES = ("torch", "numpy", "triton")
_BUILD_LINE = re.compile(r"^(cuda|hip|rocm|git_version|__version__)\b[^=\n]*=\s*(.+?)\s*$", re.MULTILINE)


def hashed(text: str) -> str:
    """A short hash by which a device or machine is known without its id being told: 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def host_versions(host: Host, packages: Iterable[str] = ()) -> dict[str, Value]:
    """Versions of Python, the OS kernel and the installed ``packages`` beside torch, numpy and triton; None where absent."""
    return {
        "python": platform.python_version(),
        "kernel": host.kernel(),
        **{name: host.package_version(name) for name in (*_PACKAGES, *packages)},
    }


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
    return TorchBuild(version, said.get("cuda"), said.get("hip"), known=True)


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
