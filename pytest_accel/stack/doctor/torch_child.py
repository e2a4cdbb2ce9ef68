"""Asking torch what it sees, in a process of its own with a time limit: this one imports no torch and touches no device."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import dataclass

from pytest_accel.stack.host import TIMED_OUT, Host

LIMIT = 90.0  # seconds: importing torch from a cold disk and starting the device of a large host take tens of them
MARK = "pytest-accel-torch:"

# Properties are asked for since counting devices does not start the device: error 802 and its like come only then.
SCRIPT = f"""
import json
kind = %r
said = {{"count": 0, "error": None, "archs": [], "devices": [], "version": None}}
try:
    import torch
    said["version"] = torch.__version__
    if kind == "npu" and not hasattr(torch, "npu"):
        import torch_npu
    part = getattr(torch, kind)
    said["count"] = part.device_count()
    said["archs"] = list(getattr(part, "get_arch_list", list)())
    if said["count"] == 0:
        part.init()
    for index in range(said["count"]):
        about = part.get_device_properties(index)
        gfx = about.gcnArchName if torch.version.hip else None  # elsewhere this holds the card's name
        said["devices"].append(gfx or "sm_%%s%%s" %% (getattr(about, "major", None), getattr(about, "minor", None)))
except BaseException as error:
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    said["error"] = "; ".join("%%s: %%s" %% (type(one).__name__, one) for one in causes)
print("{MARK}" + json.dumps(said), flush=True)
"""


@dataclass(frozen=True)
class TorchSeen:
    """What torch said: how many devices, their architectures, those it was built for, and the error where it failed."""

    count: int
    error: str | None = None
    architectures: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


def ask_torch(host: Host, platform: str) -> TorchSeen | None:
    """What torch sees of ``platform``; None where torch is not installed. A crash or a hang is an answer with its words."""
    if host.package_version("torch") is None:
        return None
    patient = copy.copy(host)
    patient.timeout = LIMIT
    result = patient.run([sys.executable, "-c", SCRIPT % ("npu" if platform == "ascend" else "cuda")])
    if result is None:
        return None
    for line in result.out.splitlines():
        if line.startswith(MARK):
            said = json.loads(line.removeprefix(MARK))
            return TorchSeen(said["count"], said["error"], tuple(said["archs"]), tuple(said["devices"]))
    if result.rc == TIMED_OUT:
        return TorchSeen(0, f"torch did not answer within {LIMIT:g} s")
    last = result.err.strip().splitlines()[-1:] or ["no output"]
    return TorchSeen(0, f"the process that asked torch ended with code {result.rc}: {last[0]}")
