"""Ascend from files: driver, firmware, CANN and its kernels' package, device nodes, torch_npu's metadata. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Value

BASE = "/usr/local/Ascend"
INSTALL_INFO = "/etc/ascend_install.info"
NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
#: Both silence torch_npu's warning that an operator runs on the host; the second is the older name (it warns where it is set).
SILENCERS = ("TORCH_NPU_WARNING_DISABLE", "TORCH_NPU_DISABLED_WARNING")
_HOMES = (f"{BASE}/cann", f"{BASE}/ascend-toolkit/latest", f"{BASE}/nnrt/latest")
_HOME_OF_USER = ("Ascend/cann", "Ascend/ascend-toolkit/latest")
_ARCHITECTURES = ("aarch64-linux/", "arm64-linux/", "x86_64-linux/")
_INSTALLED = ("ascend_toolkit_install.info", "ascend_nnrt_install.info")


@dataclass(frozen=True)
class Cann:
    """An installed CANN: its folder, version, inner version (``V100R001C22``) and the inner versions it goes with."""

    home: str
    version: str
    inner: str = ""
    compatible: tuple[str, ...] = ()


@dataclass(frozen=True)
class AscendDriver:
    """The driver's ``version.info``: its version, inner version, and the inner versions and firmware it goes with."""

    version: str
    inner: str = ""
    compatible: tuple[str, ...] = ()
    firmware: tuple[str, str] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


def fields_of(text: str | None) -> dict[str, str]:
    """The fields of a ``name=value`` file, without quotes; those without a value are left out."""
    found = re.findall(r"^([\w.-]+)=[ \t]*(\S.*?)\s*$", text or "", re.MULTILINE)
    return {name: bare for name, value in found if (bare := value.strip("\"'"))}


def _first(text: str | None, *names: str) -> str | None:
    fields = fields_of(text)
    return next((fields[name] for name in names if name in fields), None)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(re.findall(r"\[([^\]]+)\]", text or ""))


def _inner(text: str | None) -> str:
    """``V100R001C22SPC001B231`` → ``V100R001C22``: what the lists of compatible versions name."""
    match = re.match(r"V\d+R\d+C\d+", text or "")
    return match.group() if match else ""


def _driver_base(host: Host) -> str:
    return (_first(host.read(INSTALL_INFO), "Driver_Install_Path_Param") or BASE).rstrip("/")


def driver(host: Host) -> AscendDriver | None:
    """The installed driver. Its version is ``package_version`` where the file has that, else ``Version``."""
    fields = fields_of(host.read(f"{_driver_base(host)}/driver/version.info"))
    version = fields.get("package_version") or fields.get("Version")
    if version is None:
        return None
    window = re.fullmatch(r"\[([^,\]]+),([^,\]]+)\]", fields.get("compatible_version_fw", ""))
    return AscendDriver(
        version=version,
        inner=_inner(fields.get("Innerversion")),
        compatible=_listed(fields.get("compatible_version")),
        firmware=(window.group(1), window.group(2)) if window else None,
        fields=fields,
    )


def driver_version(host: Host) -> str | None:
    """The installed driver's version alone."""
    installed = driver(host)
    return installed.version if installed else None


def firmware_version(host: Host) -> str | None:
    """The firmware's version as the driver's ``compatible_version_fw`` counts it, ``7.7.0.1.231``."""
    return _first(host.read(f"{_driver_base(host)}/firmware/version.info"), "Version")


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


def cann(host: Host) -> Cann | None:
    """The CANN that a process would use, its version as its maker writes it (``8.2.RC1``, ``8.0.T63``); None without one.

    ``ascend_toolkit_install.info`` lies below ``<arch>-linux`` in every release, ``version.cfg`` beside it in older ones.
    The architecture of an image is not always this machine's.
    """
    for home in cann_homes(host):
        for folder in dict.fromkeys((f"{host.machine()}-linux/", *_ARCHITECTURES, "")):
            for name in _INSTALLED:
                fields = fields_of(host.read(f"{home}/{folder}{name}"))
                if "version" in fields:
                    inner, compatible = fields.get("innerversion"), fields.get("compatible_version")
                    return Cann(home, fields["version"], _inner(inner), _listed(compatible))
        running = _running(host, home, "toolkit_running_version", "runtime_running_version")
        if running:
            return Cann(home, running)
    return None


def _running(host: Host, home: str, *names: str) -> str | None:
    """A part's version by ``version.cfg``, whose values are ``[inner:version]``."""
    text = _first(host.read(f"{home}/version.cfg"), *names)
    return (text or "").strip("[]").rpartition(":")[2] or None


def cann_version(host: Host) -> str | None:
    """CANN's version alone."""
    installed = cann(host)
    return installed.version if installed else None


def package_version(text: str | None) -> str | None:
    """A CANN package's release by its ``version.info``: ``version_dir`` (``8.2.RC1``), else ``Version``."""
    return _first(text, "version_dir", "Version")


def operator_kernels(host: Host, installed: Cann) -> str | None:
    """The CANN release that the operators' binaries (the ``opp_kernel`` package) were built for; None where not told."""
    return _first(host.read(f"{installed.home}/opp_kernel/version.info"), "version_dir")


def cann_packages(host: Host) -> dict[str, Value]:
    """``cann_ops``: the operators' compiled kernels, a package of their own that must fit CANN; ``hccl``: the collectives."""
    installed = cann(host)
    if installed is None:
        return {"cann_ops": None, "hccl": None}
    home = installed.home
    kernels = (f"{home}/opp_kernel/version.info", f"{home}/ops/version.info", f"{home}/opp/version.info")
    ops = next((version for path in kernels if (version := package_version(host.read(path)))), None)
    built = _first(host.read(f"{home}/{host.machine()}-linux/ascend_ops_install.info"), "version")
    hccl = package_version(host.read(f"{home}/hccl/version.info"))
    return {"cann_ops": built or ops, "hccl": hccl or _running(host, home, "hccl_running_version")}


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
