"""The facts that doctor's rules judge, read once. Rules themselves only compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pytest_accel.stack import ascend_files, cuda_text, rocm_kfd
from pytest_accel.stack.ascend_files import AscendDriver, Cann
from pytest_accel.stack.common import TorchBuild, torch_build
from pytest_accel.stack.doctor import readings
from pytest_accel.stack.doctor.readings import Build
from pytest_accel.stack.doctor.state import DeviceState, device_states
from pytest_accel.stack.doctor.torch_child import TorchSeen, ask_torch
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Finding, Machine, Probe

Policy = Literal["default", "strict"]
POLICIES: tuple[Policy, ...] = ("default", "strict")
_KERNEL_LOGS = ("/var/log/kern.log", "/var/log/dmesg", "/var/log/messages")


@dataclass(frozen=True)
class Facts:
    """What is installed and what was seen; None where it is not there or was not asked for.

    ``states`` is by the device's index; ``seen`` is what torch said in a process of its own; ``image`` says that the
    user-space half comes from a folder (``--userland``) and nothing was asked of a device.
    """

    policy: Policy = "default"
    kernel: str | None = None
    torch: TorchBuild | None = None
    torch_npu: str | None = None
    cuda: str | None = None
    cuda_compat: bool = False
    rocm: str | None = None
    cann: Cann | None = None
    operator_kernels: str | None = None
    ascend_driver: AscendDriver | None = None
    ascend_firmware: str | None = None
    builds: tuple[Build, ...] = ()
    kernel_log: str = ""
    states: Mapping[int, DeviceState] | None = None
    seen: TorchSeen | None = None
    image: bool = False


Rule = Callable[[Host, Mapping[str, Probe], Facts], Iterable[Finding]]


def gather(host: Host, machine: Machine, policy: Policy, *, ask: bool) -> Facts:
    """Read the facts. With ``ask``, tools are run as well, and torch is asked where a device was found; without, files only."""
    probe = machine.probe
    found = bool(probe.devices) and probe.state == "present"
    accelerator = probe.platform in readings.MODULES
    return replace(
        _userland(host),
        policy=policy,
        kernel=host.kernel(),
        ascend_driver=ascend_files.driver(host),
        ascend_firmware=ascend_files.firmware_version(host),
        builds=readings.dkms_builds(host, ask_tool=ask and accelerator) if accelerator else (),
        kernel_log=_kernel_log(host, ask) if probe.state == "broken" else "",
        states=device_states(host, probe) if ask and found and accelerator else None,
        seen=ask_torch(host, probe.platform) if ask and found and accelerator and _has_back_end(host, probe) else None,
    )


def gather_image(image: Host, host: Host, policy: Policy) -> Facts:
    """The facts of an image's user space (``image``) over the kernel and drivers of ``host``."""
    return replace(
        _userland(image),
        cuda_compat=bool(image.listdir("/usr/local/cuda/compat")),
        policy=policy,
        kernel=host.kernel(),
        ascend_driver=ascend_files.driver(host),
        ascend_firmware=ascend_files.firmware_version(host),
        builds=readings.dkms_builds(host, ask_tool=False),
        image=True,
    )


def _userland(host: Host) -> Facts:
    """What is installed beside Python."""
    installed = ascend_files.cann(host)
    return Facts(
        torch=torch_build(host),
        torch_npu=host.package_version("torch-npu"),
        cuda=cuda_text.toolkit_installed(host),
        cuda_compat=any("compat" in place for place in host.env.get("LD_LIBRARY_PATH", "").split(":")),
        rocm=rocm_kfd.rocm_version(host),
        cann=installed,
        operator_kernels=ascend_files.operator_kernels(host, installed) if installed else None,
    )


def _has_back_end(host: Host, probe: Probe) -> bool:
    """False for a torch that has no back end for the device: another rule tells that, and asking would take seconds."""
    build = torch_build(host)
    if probe.platform == "ascend":
        return host.package_version("torch-npu") is not None
    return build is None or not build.for_host_only


def _kernel_log(host: Host, ask: bool) -> str:
    """The kernel's messages; only a broken device makes them worth reading."""
    result = host.run(["dmesg"]) if ask else None
    return "\n".join([result.out if result else "", *(host.read(path) or "" for path in _KERNEL_LOGS)])
