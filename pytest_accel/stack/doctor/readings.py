"""What doctor's rules need of a host beyond the probes: modules and kernels, DKMS, CANN's and the driver's own lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Cann:
    """An installed CANN: its folder, version, inner version (``V100R001C22``) and the inner versions it goes with."""

    home: str
    version: str
    inner: str = ""
    compatible: tuple[str, ...] = ()


@dataclass(frozen=True)
class AscendDriver:
    """The Ascend driver's ``version.info``: its version, inner version, and the inner versions and firmware it goes with."""

    version: str
    inner: str = ""
    compatible: tuple[str, ...] = ()
    firmware: tuple[str, str] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


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


# --- toolkits --------------------------------------------------------------------------------------------------------------
def rocm_installed(host: Host) -> str | None:
    """The version of the ROCm below /opt/rocm, as its file writes it."""
    for name in ("version", "version-dev", "version-rocm"):
        text = (host.read(f"/opt/rocm/.info/{name}") or "").strip()
        if text:
            return text
    return None


def cuda_installed(host: Host) -> str | None:
    """The version of the toolkit below /usr/local/cuda (``12.8.1``: the last number is the update)."""
    text = host.read("/usr/local/cuda/version.json") or ""
    match = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', text)
    return match.group(1) if match else None


def cann(host: Host) -> Cann | None:
    """The CANN that a process would use: the sourced one, else the one in the usual places."""
    places = [host.env.get("ASCEND_HOME_PATH"), host.env.get("ASCEND_TOOLKIT_HOME")]
    places += ["/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest"]
    for home in filter(None, places):
        for folder in (f"{host.machine()}-linux", "aarch64-linux", "arm64-linux", "x86_64-linux"):
            fields = _fields(host.read(f"{home}/{folder}/ascend_toolkit_install.info"))
            if fields.get("version"):
                return Cann(
                    home,
                    fields["version"],
                    _base(fields.get("innerversion", "")),
                    _listed(fields, "compatible_version"),
                )
        running = _fields(host.read(f"{home}/version.cfg")).get("toolkit_running_version", "")
        match = re.search(r":([^\]:]+)\]", running)
        if match:
            return Cann(home, match.group(1))
    return None


def ascend_base(host: Host) -> str:
    """The folder that holds the Ascend driver and firmware."""
    match = re.search(r"^Driver_Install_Path_Param=(\S+)", host.read("/etc/ascend_install.info") or "", re.MULTILINE)
    return match.group(1).rstrip("/") if match else "/usr/local/Ascend"


def ascend_driver(host: Host) -> AscendDriver | None:
    """The installed Ascend driver, by its ``version.info``."""
    fields = _fields(host.read(f"{ascend_base(host)}/driver/version.info"))
    version = fields.get("package_version") or fields.get("Version")
    if not version:
        return None
    window = re.fullmatch(r"\[([^,\]]+),([^,\]]+)\]", fields.get("compatible_version_fw", ""))
    return AscendDriver(
        version=version,
        inner=_base(fields.get("Innerversion", "")),
        compatible=_listed(fields, "compatible_version"),
        firmware=(window.group(1), window.group(2)) if window else None,
        fields=fields,
    )


def ascend_firmware(host: Host) -> str | None:
    """The installed firmware's version."""
    return _fields(host.read(f"{ascend_base(host)}/firmware/version.info")).get("Version")


def operator_kernels(host: Host, installed: Cann) -> str | None:
    """The CANN version that the operators' binaries (the ``opp_kernel`` package) were built for; None where not told."""
    fields = _fields(host.read(f"{installed.home}/opp_kernel/version.info"))
    return fields.get("version_dir")


def _fields(text: str | None) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(\S.*?)\s*$", text or "", re.MULTILINE))


def _listed(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\[([^\]]+)\]", fields.get(name, "")))


def _base(inner: str) -> str:
    """``V100R001C22SPC001B231`` → ``V100R001C22``: what the lists of compatible versions name."""
    match = re.match(r"V\d+R\d+C\d+", inner)
    return match.group() if match else ""
