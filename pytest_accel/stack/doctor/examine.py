"""Running doctor's rules: over this machine, cheaply at the start of a run, or over an image and a host without a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_accel.stack.doctor import rules_device, rules_driver, rules_toolkit, rules_torch
from pytest_accel.stack.doctor.facts import Facts, Policy, Rule, gather
from pytest_accel.stack.host import Host
from pytest_accel.stack.registry import HOST_PLATFORM
from pytest_accel.stack.types import Finding, Machine, Probe

RULES: tuple[Rule, ...] = (*rules_driver.RULES, *rules_toolkit.RULES, *rules_torch.RULES, *rules_device.RULES)
_RANK = {"error": 0, "warning": 1, "note": 2}
_SEES_NONE = {rules_torch.SEES_NONE, "torch-npu-import"}


def examine_machine(machine: Machine, host: Host, policy: Policy = "default", *, ask: bool = False) -> list[Finding]:
    """What is wrong beyond what the machine's probe already found, the worst first.

    Reads files only, so that every run may call it; with ``ask`` it also runs the vendor's tools and asks torch in a
    process of its own, where a device was found. On the host's own platform, asked for by name, nothing is examined.
    """
    if machine.platform == HOST_PLATFORM and machine.explicit:
        return []
    probes = {} if machine.platform == HOST_PLATFORM else {machine.platform: machine.probe}
    facts = gather(host, machine, policy, ask=ask)
    known = {finding.code for finding in machine.probe.findings}
    return judge(host, probes, facts, known)


def judge(host: Host, probes: Mapping[str, Probe], facts: Facts, known: Iterable[str] = ()) -> list[Finding]:
    """All rules' findings but those whose code is ``known`` already, each sentence once, the worst first."""
    skip = set(known)
    found = [finding for rule in RULES for finding in rule(host, probes, facts) if finding.code not in skip]
    return sorted(dict.fromkeys(raised(found)), key=lambda finding: _RANK[finding.severity])


def raised(found: Iterable[Finding]) -> list[Finding]:
    """The findings; a toolkit newer than its driver is an error where the tool sees devices and torch sees none."""
    found = list(found)
    if not any(finding.code in _SEES_NONE for finding in found):
        return found
    return [replace(finding, severity="error") if finding.code == rules_toolkit.NEWER else finding for finding in found]
