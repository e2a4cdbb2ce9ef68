"""What ``pytest-accel doctor`` says: the stack, the devices, the findings, and whether this machine may judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pytest_accel.stack.doctor import Policy
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.types import Finding, Probe

# Findings that are wrong with torch or the machine are told apart from these, which the choice of a machine already words.
_CHOICE = ("accelerator-broken",)


def examine(
    accel: str, rootfs: str = "/", policy: Policy = "default", userland: str | None = None, host: Host | None = None
) -> dict[str, Any]:
    """Look at this machine, or at the image below ``userland``, without importing torch here.

    ``host`` stands for this machine in place of ``rootfs``. Raises ConfigError for an unknown platform or policy, and for
    a folder that is not there.
    """
    from pytest_accel.stack.choose import choose
    from pytest_accel.stack.doctor import POLICIES, examine_machine
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.registry import names
    from pytest_accel.stack.types import Finding

    _one_of("--accel", accel, ("auto", *names()))
    _one_of("--policy", policy, POLICIES)
    for option, folder in (("--rootfs", rootfs), ("--userland", userland)):
        if folder is not None and not Path(folder).is_dir():
            raise ConfigError(Problem(f"{option}: `{folder}` is no folder", "name a folder that is there"))
    if userland is not None:
        from pytest_accel.stack.doctor.image import ImageHost, examine_image

        probe, found = examine_image(ImageHost(userland), host or Host(root=rootfs, env={}), accel, policy)
        return _report(probe, probe.reason, found)
    here = host or Host(root=rootfs)
    machine = choose(accel, here, None)
    findings = [*machine.probe.findings, *examine_machine(machine, here, policy, ask=True)]
    told = {finding.code for finding in findings if finding.severity == "error"}
    if machine.unfit is not None and not (machine.unfit[0] in _CHOICE and told):
        findings.insert(0, Finding(machine.unfit[0], "error", machine.unfit[1], machine.probe.mend))
    return _report(machine.probe, machine.why, findings)


def _one_of(option: str, given: str, allowed: Iterable[str]) -> None:
    if given not in allowed:
        raise ConfigError(Problem(f"{option}: `{given}` is not one of {', '.join(allowed)}", "name one of them"))


def _report(probe: Probe, why: str, findings: Iterable[Finding]) -> dict[str, Any]:
    findings = list(dict.fromkeys(findings))
    return {
        "platform": probe.platform,
        "fit": not any(finding.severity == "error" for finding in findings),
        "why": why,
        "stack": {
            "hardware": dict(probe.hardware),
            "settings": dict(probe.settings),
            "versions": {"driver": None, "toolkit": None, **probe.versions},
        },
        "devices": [
            {
                "index": device.index,
                "name": device.name,
                "uuid": device.uuid,
                "pci": device.pci,
                "memory_bytes": device.memory_bytes,
                "partition": device.partition,
            }
            for device in probe.devices
        ],
        "findings": [asdict(finding) for finding in findings],
    }


def as_json(report: Mapping[str, Any]) -> str:
    """Strict JSON without the trailing newline (print adds it)."""
    from pytest_accel.files import dump_json

    return dump_json({name: value for name, value in report.items() if name != "why"}).rstrip("\n")


def as_text(report: Mapping[str, Any]) -> str:
    """For people."""
    lines = [f"platform: {report['platform']} ({report['why']})"]
    for device in report["devices"]:
        memory = f", {device['memory_bytes'] / 2**30:.1f} GiB" if device["memory_bytes"] else ""
        lines.append(
            f"device {device['index']}: {device['name']}{memory}, {device['uuid'] or device['pci'] or 'no id'}"
        )
    for part in ("hardware", "versions", "settings"):
        known = {name: value for name, value in report["stack"][part].items() if value not in (None, "")}
        if known:
            lines.append(f"{part}:")
            lines.extend(f"  {name}: {value}" for name, value in sorted(known.items()))
    for finding in report["findings"]:
        lines.append(f"{finding['severity'].upper()} {finding['code']}: {finding['message']}")
        if finding["mend"]:
            lines.append(f"  mend: {finding['mend']}")
    lines.append("fit to judge" if report["fit"] else "NOT FIT TO JUDGE")
    return "\n".join(lines)
