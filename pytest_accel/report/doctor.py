"""What ``pytest-accel doctor`` says: the stack, the devices, the findings, and whether this machine may judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pytest_accel.stack.types import Finding


def examine(accel: str, rootfs: str = "/") -> dict[str, Any]:
    """Look at this machine without initialising a device or importing torch. Raises ConfigError for an unknown platform."""
    from pytest_accel.stack.choose import choose
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.registry import names
    from pytest_accel.stack.types import Finding

    if accel not in ("auto", *names()):
        raise ConfigError(Problem(f"--accel: `{accel}` is not one of auto, {', '.join(names())}", "name one of them"))
    machine = choose(accel, Host(root=rootfs), None)
    probe = machine.probe
    findings: list[Finding] = list(probe.findings)
    if machine.unfit is not None:
        findings.insert(0, Finding(machine.unfit[0], "error", machine.unfit[1], probe.mend))
    return {
        "platform": machine.platform,
        "fit": not any(finding.severity == "error" for finding in findings),
        "why": machine.why,
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
