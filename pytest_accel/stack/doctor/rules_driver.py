"""Rules about the kernel's half: modules and the kernels they were built for, now and after the next start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_accel.stack import versions
from pytest_accel.stack.doctor import readings
from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Finding, Probe

Probes = Mapping[str, Probe]
_APT = "/etc/apt/apt.conf.d"
_BUILD_ANEW = "install the kernel's headers and build the module anew (dkms autoinstall), or start the kernel before it"
_VERMAGIC = re.compile(r"(\w+): version magic '(\S+)[^']*' should be '(\S+)[^']*'")
_FORMAT = re.compile(r"[^\n]*\b(?:nvidia|amdgpu|davinci)\w*\b[^\n]*(?:Invalid module format|Exec format error)[^\n]*")
_UNSIGNED = re.compile(r"[^\n]*\b(?:nvidia|amdgpu|davinci)\w*\b[^\n]*Key was rejected by service[^\n]*")
_GPL = re.compile(r"modpost: GPL-incompatible module (\S+) uses GPL-only symbol '?([\w.]+)'?")
_COMPILE = re.compile(r"^[^\n]*(?:\berror: |modpost: )[^\n]*", re.MULTILINE)


def driver_mismatch(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """Kernel module and user-space driver of different versions, told by files where the tool did not already."""
    probe = probes.get("cuda")
    if probe is None or probe.versions.get("driver_user") or facts.image:
        return  # where the tool answered, the probe compared
    module, libraries = readings.loaded_module(host, "nvidia"), readings.nvidia_libraries(host)
    if module and libraries and module not in libraries:
        what = f"the loaded kernel module is {module}, the user-space driver is {', '.join(libraries)}"
        mend = "reboot, or unload and load the nvidia modules; in a container, start it anew"
        yield Finding("driver-mismatch", "error", what, mend)


def module_not_reloaded(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """A newer module built for the running kernel than the one that is loaded: the next start changes the driver."""
    for name in _vendors(probes):
        module = readings.MODULES[name]
        loaded = readings.loaded_module(host, module)
        built = [build.version for build in facts.builds if build.module == module and build.kernel == facts.kernel]
        if loaded and built and versions.split(loaded)[0] not in {versions.split(text)[0] for text in built}:
            what = f"the loaded module {module} is {loaded}, the one installed for this kernel is {', '.join(built)}"
            mend = "reboot, or unload and load the module, and measure then"
            yield Finding("module-not-reloaded", "warning", what, mend)


def module_for_another_kernel(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The kernel was changed under a module built for another: by the kernel's log, and by what is built for which."""
    for name in _vendors(probes):
        if probes[name].state != "broken" or probes[name].hardware.get("hidden_devices"):
            continue
        module = readings.MODULES[name]
        code = "module-for-another-kernel"
        for found, had, wanted in _VERMAGIC.findall(facts.kernel_log):
            if wanted == facts.kernel and (found in module or found.startswith(module)):
                what = f"the module {found} was built for kernel {had}, and {wanted} runs (version magic)"
                yield Finding(code, "error", what, _BUILD_ANEW)
                return
        words = _FORMAT.search(facts.kernel_log)
        if words:
            what = f"the kernel {facts.kernel} refuses the module: {' '.join(words.group().split())}"
            yield Finding(code, "error", what, _BUILD_ANEW)
            return
        words = _UNSIGNED.search(facts.kernel_log)
        if words:
            what = f"the kernel refuses the module's signature: {' '.join(words.group().split())}"
            mend = "enrol the key that signed it (mokutil --import), or build it signed with an enrolled key"
            yield Finding("module-not-signed", "error", what, mend)
            return
        others = sorted({build.kernel for build in facts.builds if build.module == module}, key=versions.key)
        if others and facts.kernel not in others and not readings.has_module(host, facts.kernel or "", module):
            what = f"the module {module} is built for {', '.join(others)}, and not for {facts.kernel}, which runs"
            yield Finding(code, "error", what, _BUILD_ANEW)
            return


def build_failed(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """DKMS' log of a build that failed: a module under another licence that needs a GPL-only symbol, or any error."""
    for path, kernel, text in readings.build_logs(host) if _vendors(probes) else ():
        gpl, other = _GPL.search(text), _COMPILE.search(text)
        if gpl is None and other is None:
            continue
        built = any(build.kernel == kernel and f"/{build.version}/build/" in path for build in facts.builds)
        if built:
            continue
        broken = kernel == facts.kernel and any(probe.state == "broken" for probe in probes.values())
        if gpl:
            what = f"{gpl.group(1)} cannot be built for kernel {kernel}: it uses the GPL-only symbol {gpl.group(2)} ({path})"
            mend = "take a driver release that supports this kernel, or the open kernel modules; until then hold the kernel"
        else:
            what = f"the module could not be built for kernel {kernel}: {' '.join((other or [''])[0].split())} ({path})"
            mend = "take a driver release that supports this kernel; until then hold the kernel"
        yield Finding("module-build-failed", "error" if broken else "warning", what, mend)


def kernel_without_module(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """A newer kernel is installed without a build of the module: at the next start the device will be gone."""
    newer = [name for name in readings.kernels(host) if facts.kernel and versions.compare(name, facts.kernel) > 0]
    if not newer:
        return
    for name in _vendors(probes):
        module = readings.MODULES[name]
        if _has(host, facts, facts.kernel or "", module) and _has(host, facts, newer[-1], module) is False:
            what = f"kernel {newer[-1]} is installed and will run after the next start, without a build of {module}; "
            what += f"{facts.kernel}, which runs, has one"
            yield Finding("kernel-without-module", "warning", what, _BUILD_ANEW)


def kernel_upgrades_by_itself(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """Unattended upgrades are on and neither held nor excluded are the kernel's packages."""
    if not _vendors(probes):
        return
    parts = [
        name for name in host.listdir(_APT) if "." not in name or name.endswith(".conf")
    ]  # as apt itself reads them
    apt = "".join(_uncommented(host, f"{_APT}/{name}") for name in parts)
    if re.findall(r'APT::Periodic::Unattended-Upgrade\s+"(\w+)"', apt)[-1:] not in ([], ["0"]):
        listed = re.findall(r"Package-Blacklist\s*\{([^}]*)\}", apt)
        held = re.search(
            r"^Package: linux-image\S*\nStatus: hold ", host.read("/var/lib/dpkg/status") or "", re.MULTILINE
        )
        if not held and not any('"linux-' in text or '"^linux-' in text for text in listed):
            what = "unattended upgrades are on (/etc/apt/apt.conf.d) and no linux-image package is held"
            mend = "apt-mark hold the linux-image and linux-headers packages, or list them in Package-Blacklist"
            yield Finding("kernel-upgrades-by-itself", "warning", what, mend)
    automatic = _uncommented(host, "/etc/dnf/automatic.conf")
    if re.search(r"^\s*apply_updates\s*=\s*(?:yes|true|1)\b", automatic, re.MULTILINE | re.IGNORECASE):
        excluded = _uncommented(host, "/etc/dnf/dnf.conf") + automatic
        if not re.search(r"^\s*exclude(?:pkgs)?\s*=.*\bkernel", excluded, re.MULTILINE):
            what = "dnf-automatic applies updates (/etc/dnf/automatic.conf) and the kernel is not excluded"
            yield Finding("kernel-upgrades-by-itself", "warning", what, "write exclude=kernel* in /etc/dnf/dnf.conf")


def _vendors(probes: Probes) -> list[str]:
    return [name for name in readings.MODULES if name in probes and probes[name].state != "absent"]


def _has(host: Host, facts: Facts, kernel: str, module: str) -> bool | None:
    """Whether the module is built for ``kernel``; None where nothing on this host tells."""
    if any(build.module == module and build.kernel == kernel for build in facts.builds):
        return True
    listed = readings.has_module(host, kernel, module)
    return False if listed is None and any(build.module == module for build in facts.builds) else listed


def _uncommented(host: Host, path: str) -> str:
    return re.sub(r"^\s*(?://|#).*$", "", host.read(path) or "", flags=re.MULTILINE) + "\n"


RULES = (
    driver_mismatch,
    module_not_reloaded,
    module_for_another_kernel,
    build_failed,
    kernel_without_module,
    kernel_upgrades_by_itself,
)
