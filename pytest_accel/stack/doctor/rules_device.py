"""Rules about the devices themselves: who sees which, in which state they are, and what hides behind WSL2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Finding, Probe, Severity
from pytest_accel.stack.visible import hides_on_purpose, parse_visible

Probes = Mapping[str, Probe]
_VARIABLES = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "ascend": ("ASCEND_RT_VISIBLE_DEVICES",),
}
_WSL_LIBRARIES = "/usr/lib/wsl/lib"


def visibility_names_nothing(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """A visibility variable with a repeated device, an element that is none, or more devices than there are."""
    for probe in probes.values():
        for name in _VARIABLES.get(probe.platform, ()):
            text = host.env.get(name)
            if text is None or hides_on_purpose(text) or probe.state == "absent":
                continue
            elements = [element.strip() for element in text.split(",")]
            named = parse_visible(text)
            what = ""
            if len(set(elements)) < len(elements):
                what = f"{name}={text!r} names a device twice, which leaves none"
            elif len(named) < len(elements):
                what = f"{name}={text!r}: {elements[len(named)]!r} is no device, and the list ends there"
            elif probe.devices and len(named) > len(probe.devices) and name != "ROCR_VISIBLE_DEVICES":
                what = f"{name}={text!r} names {len(named)} device(s), {len(probe.devices)} visible"
            elif probe.platform == "ascend" and [str(one) for one in sorted(named)] != [str(one) for one in named]:
                what = f"{name}={text!r} is not in ascending order, which the runtime demands"
            if what:
                yield Finding(
                    "visibility-names-nothing", "warning", what, f"name devices that are there in {name}, each once"
                )


def visibility_contradicts(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """Two variables of one platform that cannot both be meant."""
    if "rocm" not in probes or probes["rocm"].state == "absent":
        return
    rocr, hip, cuda = (host.env.get(name) for name in _VARIABLES["rocm"])
    if hip is not None and cuda is not None and hip != cuda:
        what = f"HIP_VISIBLE_DEVICES={hip!r} and CUDA_VISIBLE_DEVICES={cuda!r} mean the same on AMD, and differ"
        yield Finding("visibility-differs", "error", what, "set one of them only")
    inner = hip if hip is not None else cuda
    if rocr is not None and inner is not None and len(parse_visible(inner)) > len(parse_visible(rocr)) > 0:
        what = f"ROCR_VISIBLE_DEVICES={rocr!r} leaves fewer devices than {inner!r} names, and torch refuses that"
        yield Finding(
            "visibility-differs", "error", what, "HIP_VISIBLE_DEVICES counts in what ROCR_VISIBLE_DEVICES leaves"
        )


def partition_unexpected(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """MIG mode is on and the caller did not name a partition."""
    probe = probes.get("cuda")
    if probe is None or not probe.settings.get("mig_mode"):
        return
    if not host.env.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        part = probe.devices[0].partition if probe.devices else None
        what = f"MIG mode is on, so a partition ({part or 'none made'}) is measured and not the card"
        mend = "turn it off (nvidia-smi -mig 0), or name the MIG device in CUDA_VISIBLE_DEVICES if it is meant"
        yield Finding("mig-on", "warning", what, mend)


def device_state(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """Throttling, memory faults, other processes, persistence, the fabric: as the vendor's tool tells them now."""
    for index, state in (facts.states or {}).items():
        where = f"device {index}"
        said: list[tuple[bool, str, Severity, str, str]] = [
            (
                bool(state.throttled),
                "throttled",
                "warning",
                f"{where} is slowed down: {', '.join(state.throttled)}",
                "look to cooling and power supply; timings are not judged while it lasts",
            ),
            (
                bool(state.other_processes),
                "device-shared",
                "warning",
                f"{where} has {state.other_processes} process(es) of others on it",
                "end them, or measure on another device",
            ),
            (
                bool(state.uncorrected),
                "memory-errors",
                "warning",
                f"{where} had {state.uncorrected} uncorrected memory error(s) since the driver started",
                "reset the device and watch it; have it replaced if they return",
            ),
            (
                bool(state.retired),
                "memory-retired",
                "note",
                f"{where} has {state.retired} memory row(s) or page(s) taken out of use after uncorrected errors",
                "watch it; have it replaced if they grow",
            ),
            (
                bool(state.repair_pending),
                "memory-repair-pending",
                "warning",
                f"{where} has faulty memory that a reset will take out of use",
                "reset the device or reboot",
            ),
            (
                bool(state.repair_failed),
                "memory-repair-failed",
                "error",
                f"{where} has faulty memory that could not be taken out of use",
                "have the device replaced",
            ),
            (
                state.persistence is False,
                "persistence-off",
                "note",
                f"{where} has persistence mode off: the driver unloads between processes, and first calls are slow",
                "nvidia-smi -pm 1, or run nvidia-persistenced",
            ),
            (
                (state.fabric or "").lower() in ("in progress", "not started"),
                "fabric-not-ready",
                "error",
                f"{where} is not in the NVLink fabric (state: {state.fabric}), so torch fails with error 802",
                "start the fabric manager (systemctl start nvidia-fabricmanager) of the driver's version",
            ),
            (
                (state.health or "OK").upper() != "OK",
                "device-unhealthy",
                "error" if (state.health or "").lower() in ("alarm", "critical") else "warning",
                f"{where}: the driver's health is {state.health}",
                "see npu-smi info -t health and the kernel's log",
            ),
        ]
        yield from (Finding(code, severity, what, mend) for fires, code, severity, what, mend in said if fires)


def wsl(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """WSL2 passes a GPU in without a PCI card or /dev/kfd: no vendor's library answering does not mean that none is here."""
    if not host.exists("/dev/dxg") or any(probe.state != "absent" for probe in probes.values()):
        return
    vendor = [name for name in host.listdir(_WSL_LIBRARIES) if name.startswith(("libcuda.", "nvidia-smi", "librocdxg"))]
    meant = facts.torch is not None and not facts.torch.for_host_only
    what = "this is WSL2 with a GPU passed in (/dev/dxg), and no vendor's library or tool answers"
    mend = f"put {_WSL_LIBRARIES} on PATH and LD_LIBRARY_PATH and install the vendor's WSL driver, or say --accel=cpu"
    yield Finding("wsl-no-driver", "error" if vendor or meant else "warning", what, mend)


RULES = (visibility_names_nothing, visibility_contradicts, partition_unexpected, device_state, wsl)
