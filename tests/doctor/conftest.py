"""Machines for doctor's rules: a probe of each platform, a recorded host, and the rules by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_accel.stack.common import TorchBuild
from pytest_accel.stack.doctor.examine import RULES
from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.host import CommandResult
from pytest_accel.stack.recorded import RecordedHost
from pytest_accel.stack.types import Device, Finding, Machine, Probe

CARDS = {
    "cuda": Device(0, "NVIDIA H200", "GPU-aaaaaaaa-0000", "0000:83:00.0", 141 * 2**30, capability=(9, 0)),
    "rocm": Device(0, "AMD Instinct MI300X", "GPU-00000000deadbeef", "0000:c1:00.0", architecture="gfx942"),
    "ascend": Device(0, "910B3", pci="0000:c1:00.0"),
}
KERNEL = "6.8.0-79-generic"


def probe(platform: str, state: str = "present", devices: int = 1, **more: Any) -> Probe:
    cards = tuple(replace(CARDS[platform], index=number) for number in range(devices)) if state == "present" else ()
    return Probe(platform=platform, state=state, devices=cards, **more)  # type: ignore[arg-type]


def torch(version: str = "2.12.0", cuda: str | None = None, hip: str | None = None) -> TorchBuild:
    return TorchBuild(version, cuda, hip, known=True)


def run(rule: str, *probes: Probe, host: RecordedHost | None = None, **facts: Any) -> list[Finding]:
    """One rule over the given probes, host and facts."""
    (function,) = (one for one in RULES if one.__name__ == rule)
    found = list(
        function(host or RecordedHost(), {one.platform: one for one in probes}, Facts(**{"kernel": KERNEL, **facts}))
    )
    for finding in found:
        assert finding.message
        assert finding.mend
        assert "\n" not in finding.message
    return found


def codes(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found]


def machine(found: Probe, explicit: bool = False) -> Machine:
    return Machine(found.platform, found, explicit, "", "id")


def dkms(module: str, version: str, *kernels: str) -> Mapping[str, str]:
    return {f"/var/lib/dkms/{module}/{version}/{kernel}/x86_64/module/{module}.ko.zst": "" for kernel in kernels}


@pytest.fixture
def doctor() -> SimpleNamespace:
    """The builders above, since test modules cannot import from a conftest."""
    return SimpleNamespace(
        probe=probe,
        torch=torch,
        run=run,
        codes=codes,
        machine=machine,
        dkms=dkms,
        Host=RecordedHost,
        Result=CommandResult,
        fixtures=Path(__file__).parent / "fixtures",
        recorded=Path(__file__).parents[2].parent / "shared" / "recorded",
    )
