"""What doctor's rules need of a host beyond the probes: kernel modules, the kernels they were built for, DKMS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_accel.stack import versions
from pytest_accel.stack.cuda_text import kernel_module
from pytest_accel.stack.host import Host

#: The kernel module of each platform that is built apart from the kernel.
MODULES = {"cuda": "nvidia", "rocm": "amdgpu", "ascend": "davinci_ascend"}
DKMS = "/var/lib/dkms"
# DKMS' names for them, by distribution and flavour. Others that begin alike (nvidia-fs) are other modules.
_DKMS_NAMES = {
    **dict.fromkeys(("nvidia", "nvidia-open", "nvidia-srv", "nvidia-srv-open"), "nvidia"),
    **dict.fromkeys(("nvidia-current", "nvidia-current-open"), "nvidia"),
    "amdgpu": "amdgpu",
    "davinci_ascend": "davinci_ascend",
}
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_STATUS = re.compile(r"^([\w.-]+)(?:/|, )([^,\s]+), ([^,\s]+), \w+: (\w+)", re.MULTILINE)
_KERNEL_OF_LOG = re.compile(r"for kernel (\S+)")


@dataclass(frozen=True)
class Build:
    """A module that DKMS built for a kernel."""

    module: str
    version: str
    kernel: str


# --- kernel modules --------------------------------------------------------------------------------------------------------
def loaded_module(host: Host, name: str) -> str | None:
    """The version that the loaded module says of itself; None where it is not loaded or has none (in-tree amdgpu)."""
    text = (host.read(f"/sys/module/{name}/version") or "").strip()
    if not text and name == MODULES["cuda"]:
        return kernel_module(host.read("/proc/driver/nvidia/version"))[0]
    return text or None


def nvidia_libraries(host: Host) -> tuple[str, ...]:
    """The versions in the names of the driver's user-space libraries, oldest first."""
    found = set()
    for folder in _LIBRARIES:
        for name in host.listdir(folder):
            match = re.fullmatch(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)", name)
            if match:
                found.add(match.group(1))
    return tuple(sorted(found, key=versions.key))


def kernels(host: Host) -> tuple[str, ...]:
    """The installed kernels, oldest first: by the boot folder, else by the folders that hold a whole set of modules."""
    booted = [name.removeprefix("vmlinuz-") for name in host.listdir("/boot") if re.match(r"vmlinuz-\d", name)]
    modules = [name for name in host.listdir("/lib/modules") if host.exists(f"/lib/modules/{name}/modules.dep")]
    return tuple(sorted(booted or modules, key=versions.key))


def has_module(host: Host, kernel: str, name: str) -> bool | None:
    """Whether ``kernel`` has the vendor's build of the module, by its list of modules; None where there is no list."""
    text = host.read(f"/lib/modules/{kernel}/modules.dep")
    if text is None:
        return None
    # The kernel's own amdgpu lies below kernel/ and does not count; no kernel has an nvidia of its own.
    where = r"^(?:updates|extra|weak-updates)/\S*" if name == MODULES["rocm"] else r"^(?:\S*/)?"
    file = rf"{name}(?:-current)?(?:-open)?\.ko(?:\.\w+)?:"
    return re.search(where + r"\b" + file, text, re.MULTILINE) is not None


def dkms_builds(host: Host, ask_tool: bool) -> tuple[Build, ...]:
    """What DKMS built, by its folders, and by ``dkms status`` where they cannot be read and the tool may be asked."""
    found = [build for name in _DKMS_NAMES for build in _builds(host, name)]
    if not found and ask_tool:
        result = host.run(["dkms", "status"])
        found = [
            Build(_DKMS_NAMES[name], version, kernel)
            for name, version, kernel, state in _STATUS.findall(result.out if result else "")
            if name in _DKMS_NAMES and state in ("installed", "built")
        ]
    return tuple(found)


def _builds(host: Host, name: str) -> Iterator[Build]:
    for version in host.listdir(f"{DKMS}/{name}"):
        if not version[0].isdigit():
            continue  # links to what is active, and the kernel's own module kept aside
        for kernel in host.listdir(f"{DKMS}/{name}/{version}"):
            for machine in host.listdir(f"{DKMS}/{name}/{version}/{kernel}") if kernel[0].isdigit() else ():
                if host.exists(f"{DKMS}/{name}/{version}/{kernel}/{machine}/module"):
                    yield Build(_DKMS_NAMES[name], version, kernel)


def build_logs(host: Host) -> Iterator[tuple[str, str, str]]:
    """(path, kernel, text) of each log that a failed DKMS build left; a build that went well moves its log elsewhere."""
    for name in _DKMS_NAMES:
        for version in host.listdir(f"{DKMS}/{name}"):
            path = f"{DKMS}/{name}/{version}/build/make.log"
            text = host.read(path) if version[0].isdigit() else None
            if text:
                match = _KERNEL_OF_LOG.search(text[:1000])
                yield path, match.group(1) if match else "", text
