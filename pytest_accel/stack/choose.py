"""Which platform this run judges on, and whether the machine may judge at all. No device is initialised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.stack.common import torch_build
from pytest_accel.stack.host import Host
from pytest_accel.stack.identity import machine_id
from pytest_accel.stack.registry import BROKEN, HOST_PLATFORM, names, platform, probe
from pytest_accel.stack.types import Finding, Machine, Probe
from pytest_accel.stack.visible import parse_visible

AUTO = "auto"


def choose(option: str, host: Host, devices_wanted: int | None, baseline_hint: str | None = None) -> Machine:
    """The machine for ``--accel=option``; ``devices_wanted`` is ``--accel-devices``.

    ``baseline_hint`` is the slug of the hardware whose baseline holds this machine's sessions, where one is known: with
    ``auto``, an accelerator's slug and none found is ENV ``accelerator-gone``. Raises ConfigError for an unknown platform.
    """
    if option == AUTO:
        probes = [probe(name, host) for name in names() if name != HOST_PLATFORM]
        useless = [found for found in probes if any(finding.code == BROKEN for finding in found.findings)]
        found, why, unfit = _auto(host, [found for found in probes if found not in useless], baseline_hint)
        found, unfit = _beside(useless, found, unfit)
    else:
        platform(option)  # one that is named must load: its error is the user's to read
        found, why = probe(option, host), f"{option}, as --accel={option} says"
        unfit = _unfit_as_named(found)
    if unfit is None:
        unfit = _wrong(found) or _too_few(found, devices_wanted)
    return Machine(
        platform=found.platform,
        probe=found,
        explicit=option != AUTO,
        why=why,
        machine_id=machine_id(host),
        unfit=unfit,
    )


def _beside(
    useless: Sequence[Probe], found: Probe, unfit: tuple[str, str] | None
) -> tuple[Probe, tuple[str, str] | None]:
    """The choice where the modules of some platforms are broken: a warning beside another accelerator, which goes on.

    Where only the host is left nobody can tell whether their devices are here, so that a CPU run would be a quiet one.
    """
    for other in useless:
        warning = Finding(BROKEN, "warning", other.reason, other.mend)
        found = replace(found, findings=(*found.findings, warning))
        if found.platform == HOST_PLATFORM and unfit is None:
            unfit = (BROKEN, f"{other.reason}; to mend it: {other.mend}, or say --accel={HOST_PLATFORM}")
    return found, unfit


def _auto(host: Host, probes: Sequence[Probe], baseline_hint: str | None) -> tuple[Probe, str, tuple[str, str] | None]:
    usable = [probe for probe in probes if probe.state == "present"]
    broken = [probe for probe in probes if probe.state == "broken" and not probe.hardware.get("hidden_devices")]
    if usable and len(usable) + len(broken) > 1:
        fitting = [probe for probe in usable if probe.platform == _built_for(host)]
        if len(fitting) == 1:
            others = ", ".join(probe.platform for probe in (*usable, *broken) if probe is not fitting[0])
            return (
                fitting[0],
                f"{_shown(fitting[0])}; {others} is here as well, the installed torch is not for it",
                None,
            )
        what = " and ".join(
            f"{probe.platform} ({_shown(probe) if probe in usable else probe.reason})" for probe in usable + broken
        )
        message = f"several accelerators are here: {what}; name one with --accel"
        return usable[0], message, ("accelerator-ambiguous", message)
    if usable:
        return usable[0], _shown(usable[0]), None
    if broken:
        found = broken[0]
        return found, f"{found.platform} is here and does not answer", ("accelerator-broken", _sentence(found))
    looked = "; ".join(f"{probe.platform}: {probe.reason}" for probe in probes)
    why = f"no accelerator found, so the CPU is measured ({looked})"
    gone = None
    if baseline_hint is not None and not baseline_hint.startswith(f"{HOST_PLATFORM}-"):
        gone = (
            "accelerator-gone",
            f"sessions of this machine stand in {baseline_hint}, but no accelerator is found ({looked})",
        )
    return platform(HOST_PLATFORM).probe(host), why, gone


def _built_for(host: Host) -> str | None:
    """The platform that the installed torch was built for: its extension for Ascend comes before what torch itself says."""
    if host.package_version("torch-npu") is not None:
        return "ascend"
    build = torch_build(host)
    if build is None:
        return None
    return "cuda" if build.cuda else "rocm" if build.hip else None


def _shown(probe: Probe) -> str:
    first = probe.devices[0]
    driver = probe.versions.get("driver")
    return f"{probe.platform}: {len(probe.devices)} × {first.name}" + (f", driver {driver}" if driver else "")


def _unfit_as_named(found: Probe) -> tuple[str, str] | None:
    if found.state == "absent":
        what = f"{found.platform} was asked for and is not here: {found.reason}"
        return "accelerator-absent", f"{what}; run on a machine that has it, or say --accel={HOST_PLATFORM}"
    return ("accelerator-broken", _sentence(found)) if found.state == "broken" else None


def _sentence(found: Probe) -> str:
    return f"{found.platform} is broken: {found.reason}" + (f"; to mend it: {found.mend}" if found.mend else "")


def _wrong(found: Probe) -> tuple[str, str] | None:
    """An error that the probe found beside devices that do answer."""
    for finding in found.findings:
        if finding.severity == "error":
            return "accelerator-broken", f"{finding.code}: {finding.message}; to mend it: {finding.mend}"
    return None


def _too_few(found: Probe, wanted: int | None) -> tuple[str, str] | None:
    count = len(found.devices)
    if wanted is None or count >= wanted:
        return None
    return "too-few-devices", f"{wanted} devices were asked for (--accel-devices), {count} usable: {_shown(found)}"


def visible_for_worker(visible: str | None, count: int, worker_index: int) -> str | None:
    """What the visibility variable of worker number ``worker_index`` must be, so that it sees one device of the caller's.

    ``visible`` is the caller's own value (None: unset), ``count`` the devices of the host. The devices of the caller's
    list go round in turn; "" stays "", and None means that nothing is to be set since there is no device.
    """
    if visible is None:
        return str(worker_index % count) if count > 0 else None
    listed = parse_visible(visible)
    return str(listed[worker_index % len(listed)]) if listed else ""


def mixed_models(machine: Machine) -> Sequence[str]:
    """The models of the visible devices where there is more than one, else empty: such cards cannot share a baseline."""
    models = tuple(dict.fromkeys(device.name for device in machine.probe.devices))
    return models if len(models) > 1 else ()


__all__ = ["AUTO", "choose", "machine_id", "mixed_models", "visible_for_worker"]
