"""AMD's own words: what rocminfo lists, and what rocminfo, amd-smi and rocm-smi say where something is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_accel.stack.host import CommandResult, Host

_DRIVER = "modprobe amdgpu; after a kernel update, build its module anew (dkms autoinstall) and reboot"
_GROUP = "join the group that owns /dev/kfd (usermod -aG render USER), then log in anew"
_DEVICE = "in a container, start it with --device=/dev/kfd --device=/dev/dri"

# The vendor's words, the code they mean, the mend. The first that is found decides; the more telling ones come first.
_FAILURES = (
    (r"USER is not member of .*|User is missing the following required groups: .*", "no-permission", _GROUP),
    (r"Unable to open /dev/kfd read-write: Permission denied", "no-permission", _GROUP),
    (r"Unable to open /dev/kfd read-write: Invalid argument", "kfd-refused", f"{_DEVICE}; the host's driver must know the card"),
    (r"Unable to open /dev/kfd read-write: Cannot allocate memory", "kfd-refused", "see the kernel's log, then reboot"),
    (r"ROCk module is NOT loaded, possibly no GPU devices", "driver-not-loaded", _DRIVER),
    (r"Driver not initialized \(amdgpu not found in modules\)", "driver-not-loaded", _DRIVER),
    (r"Unable to open /dev/kfd read-write: No such file or directory", "no-kfd", _DEVICE),
    (r"Unable to open /dev/kfd read-write: .*", "kfd-refused", _DEVICE),
    (r"HSA_STATUS_ERROR_OUT_OF_RESOURCES\b.*", "runtime-failed", f"see the kernel's log; {_GROUP}"),
    (r"AMDSMI_STATUS_\w*(?:DRIVER_NOT_LOADED|DRM_ERROR|INIT_ERROR)\w*.*", "driver-not-loaded", _DRIVER),
    (r"hipErrorNoDevice|No HIP GPUs are available", "no-devices", "see rocminfo and the kernel's log"),
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A stable code, the vendor's words as written, and the mend."""

    code: str
    words: str
    mend: str


def failure(text: str) -> Failure | None:
    """What a tool's output says is wrong; None where it says nothing of the kind. Exit codes are not asked: they are 0."""
    for pattern, code, mend in _FAILURES:
        match = re.search(pattern, text)
        if match:
            return Failure(code, " ".join(match.group().split()), mend)
    return None


def said(host: Host) -> Failure | None:
    """What rocminfo, else amd-smi, else rocm-smi say of a machine on which something is wrong."""
    for command in (("rocminfo",), ("amd-smi", "version"), ("rocm-smi",)):
        result: CommandResult | None = host.run(command)
        found = failure(f"{result.out}\n{result.err}") if result is not None else None
        if found is not None:
            return found
    return None


@dataclass(frozen=True)
class Agent:
    """A GPU of rocminfo's: gfx name, marketing name, id, PCI address and ids, compute units, memory in bytes."""

    gfx: str
    name: str | None
    uuid: str | None
    pci: str | None
    ids: str | None
    compute_units: int | None
    memory_bytes: int | None


def module_version(text: str) -> str | None:
    """The kernel module's version in rocminfo's first line, which tells it since ROCm 6.2."""
    match = re.search(r"^ROCk module version (\S+) is loaded", text, re.MULTILINE)
    return match.group(1) if match else None


def agents(text: str) -> list[Agent]:
    """The GPU agents of rocminfo in the order in which HIP counts them."""
    found = []
    for part in re.split(r"^\*+\s*\nAgent \d+\s*\n\*+\s*\n", text, flags=re.MULTILINE)[1:]:
        fields: dict[str, str] = {}
        for key, value in re.findall(r"^  (\w[^:\n]*?):+ *(.*?) *$", part, re.MULTILINE):
            fields.setdefault(key, value)
        if fields.get("Device Type") == "GPU":
            found.append(_agent(fields, part))
    return found


def _agent(fields: dict[str, str], part: str) -> Agent:
    place, chip = _whole(fields.get("BDFID")), _whole(fields.get("Chip ID"))
    sizes = [int(size) for size in re.findall(r"FLAGS: COARSE GRAINED\s*\n\s*Size:\s+(\d+)", part)]
    domain = _whole(fields.get("Domain")) or 0
    pci = None if place is None else f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
    uuid = fields.get("Uuid", "")
    return Agent(
        gfx=fields.get("Name", ""),
        name=fields.get("Marketing Name") or None,
        uuid=uuid if re.fullmatch(r"GPU-[0-9a-f]{16}", uuid) else None,
        pci=pci,
        ids=f"1002:{chip:04x}" if chip else None,
        compute_units=_whole(fields.get("Compute Unit")),
        memory_bytes=max(sizes) * 1024 if sizes else None,
    )


def _whole(text: str | None) -> int | None:
    match = re.match(r"\d+", text or "")
    return int(match.group()) if match else None
