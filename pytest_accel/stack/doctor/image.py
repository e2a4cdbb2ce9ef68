"""Will this image run on that host? Both are folders; no device is asked, so a pipeline can ask before a deployment."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from pytest_accel.stack.common import host_versions
from pytest_accel.stack.doctor import readings
from pytest_accel.stack.doctor.examine import judge
from pytest_accel.stack.doctor.facts import Facts, Policy, gather_image
from pytest_accel.stack.host import CommandResult, Host
from pytest_accel.stack.registry import HOST_PLATFORM
from pytest_accel.stack.types import Finding, Probe

AUTO = "auto"
# Where images keep Python packages: the distribution's, pip's, virtual and conda environments; or DIR is one itself.
_SITES = (
    "usr/local/lib/python3*/*-packages",
    "usr/lib/python3*/*-packages",
    "usr/local/lib64/python3*/site-packages",
    "opt/*/lib/python3*/site-packages",
    "opt/*/envs/*/lib/python3*/site-packages",
    "usr/local/python3*/lib/python3*/site-packages",
    "*/lib/python3*/site-packages",
    "*/*/lib/python3*/site-packages",
    "*/.venv/lib/python3*/site-packages",
    "lib/python3*/site-packages",
)


class ImageHost(Host):
    """The user space below a folder. Packages are those of the image's Python; no command is run, no variable is set."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root=root, env={}, run=_nothing)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The image's package folders; those with a torch first."""
        found = dict.fromkeys(path for pattern in _SITES for path in sorted(self.root.glob(pattern)) if path.is_dir())
        return tuple(str(path) for path in sorted(found, key=lambda path: not (path / "torch").exists()))

    def _distribution(self, name: str) -> importlib.metadata.Distribution | None:
        return next(iter(importlib.metadata.distributions(name=name, path=list(self.sites))), None)

    def package_version(self, name: str) -> str | None:
        """The version of a distribution of the image."""
        found = self._distribution(name)
        return found.version if found is not None else None

    def package_file(self, name: str, relative: str) -> str | None:
        """The text of a file of a distribution of the image."""
        found = self._distribution(name)
        try:
            return Path(str(found.locate_file(relative))).read_text("utf-8", "replace") if found is not None else None
        except OSError:
            return None


def examine_image(
    userland: Host, host: Host, accel: str = AUTO, policy: Policy = "default"
) -> tuple[Probe, list[Finding]]:
    """What stands for the machine (platform, versions of both halves, no device), and the findings, the worst first."""
    facts = gather_image(userland, host, policy)
    name = accel if accel != AUTO else built_for(facts)
    drivers = {platform: driver for platform in readings.MODULES if (driver := host_driver(host, facts, platform))}
    probe = Probe(
        platform=name,
        state="present",
        reason=f"the image below {userland.root}, on the host below {host.root}",
        versions={
            **{key: value for key, value in host_versions(userland).items() if key not in ("python", "kernel")},
            "python": _python(userland),
            "kernel": facts.kernel,
            "driver": drivers.get(name),
            "toolkit": _toolkit(facts, name),
            "torch_npu": facts.torch_npu,
        },
    )
    own = list(_both_halves(facts, name, drivers))
    return probe, own + judge(host, {name: probe}, facts, {finding.code for finding in own})


def built_for(facts: Facts) -> str:
    """The platform of an image, by its torch, else by the toolkit in it; the host's own where there is neither."""
    torch = facts.torch
    if facts.torch_npu is not None or (torch is None and facts.cann is not None):
        return "ascend"
    if torch is not None and (torch.cuda or torch.hip):
        return "cuda" if torch.cuda else "rocm"
    if torch is None and (facts.cuda or facts.rocm):
        return "cuda" if facts.cuda else "rocm"
    return HOST_PLATFORM


def host_driver(host: Host, facts: Facts, platform: str) -> str | None:
    """The driver that a host has for ``platform``: as loaded, else as built or installed (a host that is not running)."""
    if platform == "ascend":
        return facts.ascend_driver.version if facts.ascend_driver else None
    module = readings.MODULES[platform]
    built = [build.version for build in facts.builds if build.module == module]
    loaded = readings.loaded_module(host, module)
    if platform == "rocm" and loaded is None and host.exists("/sys/module/amdgpu"):
        return "in-tree"
    libraries = list(readings.nvidia_libraries(host)) if platform == "cuda" else []
    return loaded or next(iter(built[-1:] + libraries[-1:]), None)


def _both_halves(facts: Facts, name: str, drivers: dict[str, str]) -> Iterator[Finding]:
    if name in readings.MODULES and name not in drivers:
        what = f"the image is built for {name}, and no {name} driver is found on the host"
        yield Finding(
            "driver-not-found", "error", what, "install the driver, or mount the host's whole root for --rootfs"
        )
    elif name == HOST_PLATFORM and facts.torch is not None and facts.torch.known and drivers:
        has = ", ".join(f"{platform} {driver}" for platform, driver in drivers.items())
        what = f"torch {facts.torch.version} of the image is built for the CPU only, the host has a driver for {has}"
        yield Finding(
            "torch-for-cpu-only", "error", what, "build the image with a torch for that accelerator, or say --accel=cpu"
        )
    elif name == HOST_PLATFORM and facts.torch is None:
        what = "neither torch nor a CUDA, ROCm or CANN toolkit is found in the image"
        yield Finding("image-without-toolkit", "error", what, "name the folder that holds the image's root")


def _toolkit(facts: Facts, name: str) -> str | None:
    torch = facts.torch
    return {
        "cuda": (torch.cuda if torch else None) or facts.cuda,
        "rocm": (torch.hip if torch else None) or facts.rocm,
        "ascend": facts.cann.version if facts.cann else None,
    }.get(name)


def _python(userland: Host) -> str | None:
    sites = userland.sites if isinstance(userland, ImageHost) else ()
    match = re.search(r"python(3\.\d+)", sites[0]) if sites else None
    return match.group(1) if match else None


def _nothing(argv: object) -> CommandResult | None:
    return None
