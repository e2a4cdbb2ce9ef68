"""Rules about versions that must go together: toolkit and driver, firmware, torch and its extension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_accel.stack import versions
from pytest_accel.stack.doctor import tables
from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Finding, Probe, Severity

Probes = Mapping[str, Probe]
NEWER = "toolkit-newer-than-driver"
_UPGRADE = "upgrade the host's driver, or take a torch or an image built for an older toolkit"


def cuda_toolkit(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """CUDA's toolkit against the driver: the major's minimum, then the driver that the toolkit came with."""
    probe = probes.get("cuda")
    toolkit = (facts.torch.cuda if facts.torch else None) or facts.cuda
    driver = _text(probe, "driver") or _text(probe, "driver_user")
    if probe is None or not toolkit or not driver:
        return
    numbers = versions.split(toolkit)[0]
    minimum = tables.CUDA_MAJOR_MINIMUM.get(numbers[0]) if numbers else None
    if minimum and not versions.at_least(driver, minimum):
        what = f"CUDA {toolkit} needs driver {minimum} or newer, the driver is {driver}"
        if facts.cuda_compat:
            what += "; the cuda-compat package is here and may serve it on a data-centre card"
            yield Finding(NEWER, "warning" if facts.image else _severity(facts), what, _UPGRADE)
        else:
            yield Finding(NEWER, "error" if facts.image else _severity(facts), what, _UPGRADE)
        return
    shipped = tables.CUDA_SHIPPED_WITH.get((*numbers[:3], 0, 0)[:3])  # type: ignore[arg-type]  # three numbers by then
    if shipped is None and len(numbers) > 1:
        shipped = tables.CUDA_SHIPPED_WITH.get((numbers[0], numbers[1], 0))
    serves = _text(probe, "cuda_driver")
    if shipped and not versions.at_least(driver, shipped):
        what = f"CUDA {toolkit} came with driver {shipped}, the driver is {driver}: PTX and new features may fail"
        yield Finding(NEWER, _severity(facts), what, _UPGRADE)
    elif shipped is None and serves and versions.split(serves)[0][:2] < numbers[:2]:
        what = (
            f"CUDA {toolkit} is newer than CUDA {serves}, which driver {driver} serves: PTX and new features may fail"
        )
        yield Finding(NEWER, _severity(facts), what, _UPGRADE)


def rocm_window(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """ROCm's user space against the window of releases that the amdgpu module serves; in-tree drivers are not judged."""
    driver = _text(probes.get("rocm"), "driver")
    toolkit = (facts.torch.hip if facts.torch else None) or facts.rocm
    package = tables.AMDGPU_PACKAGES.get((driver or "").split("-")[0])
    if not toolkit or package is None:
        return
    oldest, newest = tables.ROCM_WINDOWS[package]
    release = versions.split(toolkit)[0][:2]
    window = f"amdgpu {driver} (driver {package}) serves ROCm {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    if release > newest:
        yield Finding(NEWER, _severity(facts), f"ROCm {toolkit} is newer: {window}", _UPGRADE)
    elif release < oldest:
        mend = "take a torch or an image built for a newer ROCm, or an older driver"
        yield Finding("toolkit-older-than-driver", "warning", f"ROCm {toolkit} is older: {window}", mend)


def hip_unlike_rocm(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The HIP that torch was built for is of another release than the ROCm that is installed."""
    hip = facts.torch.hip if facts.torch else None
    if "rocm" not in probes or not hip or not facts.rocm:
        return
    if versions.split(hip)[0][:2] != versions.split(facts.rocm)[0][:2]:
        what = f"torch {facts.torch.version if facts.torch else ''} was built for HIP {hip}, /opt/rocm is {facts.rocm}"
        mend = (
            "libraries of both may be mixed in one process: install the torch of this ROCm, or the ROCm of this torch"
        )
        yield Finding("hip-unlike-rocm", "warning", what, mend)


def cann_and_driver(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """CANN against the driver, by the lists of inner versions in both packages' own files: one must name the other."""
    toolkit, driver = facts.cann, facts.ascend_driver
    if "ascend" not in probes or toolkit is None or driver is None or not (toolkit.inner and driver.inner):
        return
    if driver.inner in (toolkit.inner, *toolkit.compatible) or toolkit.inner in driver.compatible:
        return
    what = (
        f"CANN {toolkit.version} ({toolkit.inner}) and driver {driver.version} ({driver.inner}) do not list each other"
    )
    if toolkit.inner > driver.inner:
        yield Finding(NEWER, "error" if facts.image else _severity(facts), f"{what}: CANN is newer", _UPGRADE)
    else:
        mend = "take a newer CANN or image, or the driver of its release"
        yield Finding("toolkit-older-than-driver", "warning", f"{what}: CANN is older", mend)


def ascend_firmware(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The firmware against the range that the driver's file gives."""
    driver, firmware = facts.ascend_driver, facts.ascend_firmware
    if "ascend" not in probes or driver is None or driver.firmware is None or not firmware:
        return
    oldest, newest = driver.firmware
    if not oldest_to_newest(firmware, oldest, newest):
        what = f"firmware {firmware} is outside of {oldest} to {newest}, which driver {driver.version} works with"
        yield Finding("firmware-out-of-range", _severity(facts), what, "install the firmware of the driver's release")


def oldest_to_newest(text: str, oldest: str, newest: str) -> bool:
    """True within the range; the newest bound covers all builds below it (``7.2.99`` also ``7.2.99.1``)."""
    numbers, last = versions.split(text)[0], versions.split(newest)[0]
    return versions.at_least(text, oldest) and numbers[: len(last)] <= last


def torch_npu_and_torch(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """torch_npu X.Y.Z works with torch X.Y.Z alone."""
    if "ascend" not in probes or facts.torch is None or facts.torch_npu is None:
        return
    if versions.split(facts.torch.version)[0] != versions.split(facts.torch_npu)[0]:
        what = f"torch_npu {facts.torch_npu} is made for the torch of its own number, torch is {facts.torch.version}"
        yield Finding("torch-npu-unlike-torch", "error", what, "install the torch and torch_npu of one release")


def torch_npu_and_cann(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """torch_npu against CANN, by the vendor's table; a version that is in no row is not judged."""
    if "ascend" not in probes or facts.torch_npu is None or facts.cann is None:
        return
    rows = [cann for cann, made in tables.TORCH_NPU_OF_CANN.items() if facts.torch_npu.split("+")[0] in made]
    mine = facts.cann.version
    if not rows or mine in rows:
        return
    alike = [row for row in rows if versions.split(row)[0][:2] == versions.split(mine)[0][:2]]
    if mine not in tables.TORCH_NPU_OF_CANN and alike and versions.at_least(mine, alike[-1]):
        return  # a later build of the same release
    what = f"torch_npu {facts.torch_npu} is made for CANN {', '.join(rows)}, CANN is {mine}"
    made = tables.TORCH_NPU_OF_CANN.get(mine)
    mend = f"install CANN {rows[0]}" + (f", or one of torch_npu {', '.join(made)}" if made else "")
    yield Finding("torch-npu-unlike-cann", _severity(facts), what, mend)


def operator_kernels(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The binaries of CANN's operators must be of the toolkit's version."""
    if "ascend" not in probes or facts.cann is None or facts.operator_kernels is None:
        return
    if facts.operator_kernels != facts.cann.version:
        what = f"the operators' package is {facts.operator_kernels}, CANN is {facts.cann.version}"
        yield Finding(
            "operator-kernels-differ", _severity(facts), what, "install the opp_kernel (ops) package of this CANN"
        )


def _severity(facts: Facts) -> Severity:
    return "error" if facts.policy == "strict" else "warning"


def _text(probe: Probe | None, name: str) -> str | None:
    value = probe.versions.get(name) if probe is not None else None
    return str(value) if value else None


RULES = (
    cuda_toolkit,
    rocm_window,
    hip_unlike_rocm,
    cann_and_driver,
    ascend_firmware,
    torch_npu_and_torch,
    torch_npu_and_cann,
    operator_kernels,
)
