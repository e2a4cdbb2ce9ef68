"""Ascend from files: driver, firmware, CANN and its kernels' package, device nodes, torch_npu's metadata. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Value

BASE = "/usr/local/Ascend"
INSTALL_INFO = "/etc/ascend_install.info"
NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_HOMES = (f"{BASE}/cann", f"{BASE}/ascend-toolkit/latest", f"{BASE}/nnrt/latest")
_HOME_OF_USER = ("Ascend/cann", "Ascend/ascend-toolkit/latest")
_INSTALLED = ("ascend_toolkit_install.info", "ascend_nnrt_install.info")


def field(text: str | None, *names: str) -> str | None:
    """The value of the first of ``names`` that a ``name=value`` file has, without quotes."""
    for name in names:
        match = re.search(rf"^{re.escape(name)}=[ \t]*(\S.*?)\s*$", text or "", re.MULTILINE)
        if match:
            return match.group(1).strip("\"'") or None
    return None


def _driver_base(host: Host) -> str:
    path = field(host.read(INSTALL_INFO), "Driver_Install_Path_Param")
    return (path or BASE).rstrip("/")


def driver_version(host: Host) -> str | None:
    """The driver's version from its ``version.info``: ``package_version`` where it is there, else ``Version``."""
    return field(host.read(f"{_driver_base(host)}/driver/version.info"), "package_version", "Version")


def firmware_version(host: Host) -> str | None:
    """The firmware's version as the driver's ``compatible_version_fw`` counts it, ``7.7.0.1.231``."""
    return field(host.read(f"{_driver_base(host)}/firmware/version.info"), "Version")


def cann_homes(host: Host) -> Iterator[str]:
    """Where CANN may be, in the order in which it is looked for: what is sourced comes first."""
    named = [host.env.get("ASCEND_HOME_PATH"), host.env.get("ASCEND_TOOLKIT_HOME")]
    home = host.env.get("HOME", "").rstrip("/")
    own = [f"{home}/{path}" for path in _HOME_OF_USER] if home else []
    seen = set()
    for place in (*named, *_HOMES, *own):
        if place and place.rstrip("/") not in seen:
            seen.add(place.rstrip("/"))
            yield place.rstrip("/")


def cann(host: Host) -> tuple[str | None, str | None]:
    """CANN's version as its maker writes it (``8.2.RC1``, ``8.0.T63``) and the folder that tells it; None, None without CANN.

    ``ascend_toolkit_install.info`` lies below ``<arch>-linux`` in every release, ``version.cfg`` beside it in older ones.
    """
    for place in cann_homes(host):
        for folder in (f"{host.machine()}-linux/", "arm64-linux/", ""):
            for name in _INSTALLED:
                version = field(host.read(f"{place}/{folder}{name}"), "version")
                if version:
                    return version, place
        running = field(host.read(f"{place}/version.cfg"), "toolkit_running_version", "runtime_running_version")
        if running:
            return running.strip("[]").rpartition(":")[2], place
    return None, None


def cann_version(host: Host) -> str | None:
    """CANN's version alone."""
    return cann(host)[0]


def package_version(text: str | None) -> str | None:
    """A CANN package's release by its ``version.info``: ``version_dir`` (``8.2.RC1``), else ``Version``."""
    return field(text, "version_dir", "Version")


def cann_packages(host: Host) -> dict[str, Value]:
    """``cann_ops``: the operators' compiled kernels, a package of their own that must fit CANN; ``hccl``: the collectives."""
    _, home = cann(host)
    if home is None:
        return {"cann_ops": None, "hccl": None}
    kernels = (f"{home}/opp_kernel/version.info", f"{home}/ops/version.info", f"{home}/opp/version.info")
    ops = next((version for path in kernels if (version := package_version(host.read(path)))), None)
    built = field(host.read(f"{home}/{host.machine()}-linux/ascend_ops_install.info"), "version")
    hccl = package_version(host.read(f"{home}/hccl/version.info"))
    running = field(host.read(f"{home}/version.cfg"), "hccl_running_version")
    return {"cann_ops": built or ops, "hccl": hccl or (running or "").strip("[]").rpartition(":")[2] or None}


def device_nodes(host: Host) -> list[int]:
    """The numbers of /dev/davinci0 and so on, in order; davinci_manager is no device."""
    found = (re.fullmatch(r"davinci(\d+)", name) for name in host.listdir("/dev"))
    return sorted(int(match.group(1)) for match in found if match)


def nodes_missing(host: Host) -> list[str]:
    """Those of the nodes beside the devices' own that are absent: a container without them cannot use a device."""
    return [path for path in NODES if not host.exists(path)]


def autoloads(host: Host) -> bool | None:
    """True where ``import torch`` loads torch_npu by itself, by its entry point; None where its metadata is not told."""
    version = host.package_version("torch-npu")
    if version is None:
        return None
    text = host.package_file("torch-npu", f"torch_npu-{version}.dist-info/entry_points.txt")
    if text is None:
        return None
    wanted = host.env.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"
    return wanted and re.search(r"^\[torch\.backends\]\s*\n(?:[^\[]*\n)*?torch_npu\s*=", text, re.MULTILINE) is not None


def visible(text: str | None, count: int) -> tuple[list[int], str]:
    """The devices that ``ASCEND_RT_VISIBLE_DEVICES`` leaves of ``count``, and what is wrong with it ("" where nothing is).

    Ascending numbers without repeats, counted among the devices that this container sees; reading stops at the first thing
    that is no number. A number out of range makes CANN refuse all (error 207004).
    """
    if text is None:
        return list(range(count)), ""
    found: list[int] = []
    for element in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(.*)", element, re.DOTALL)
        if match is None:
            break
        number = int(match.group(1))
        if found and number <= found[-1]:
            return [], "its numbers must rise, none twice"
        if number >= count:
            return [], f"{number} is out of range [0-{count}): CANN refuses it with error 207004"
        found.append(number)
        if match.group(2).strip():
            break
    return found, ""
