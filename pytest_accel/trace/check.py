"""Can each traced call be made again? Tried on the host in a child process, since a call with wrong arguments may crash it.

``python -m pytest_accel.trace.check`` reads one JSON ``[operator, arguments]`` a line and writes ``number<TAB>why``: empty
where the call can be made (or is another device's, or too large to try here).
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence

from pytest_accel.trace.select import Call

MOST_ELEMENTS = 2**22  # 4 million numbers: some milliseconds each
MOST_FLOPS = 2e9


def why_not(calls: Sequence[Call]) -> dict[int, str] | None:
    """The places in ``calls`` of those that cannot be made again, and why. None where torch is not installed here."""
    if importlib.util.find_spec("torch") is None:
        return None
    said: dict[int, str] = {}
    begin = 0
    while begin < len(calls):
        done = _child(calls[begin:])
        said |= {begin + place: why for place, why in done.items()}
        begin += len(done)
        if begin < len(calls):  # it died in the call after the last one that it answered for
            said[begin] = "its arguments, made again, crash the host"
            begin += 1
    return {place: why for place, why in said.items() if why}


def _child(calls: Sequence[Call]) -> dict[int, str]:
    asked = "\n".join(json.dumps([call.op, call.arguments]) for call in calls)
    command = [sys.executable, "-c", "from pytest_accel.trace.check import main; main()"]
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=False)
    lines = [line.partition("\t") for line in done.stdout.splitlines() if "\t" in line]
    return {int(number): why for number, _, why in lines}


def main() -> None:
    """The child's side."""
    for number, line in enumerate(sys.stdin):
        op, arguments = json.loads(line)
        print(f"{number}\t{_tried(op, arguments)}", flush=True)


def _tried(op: str, arguments: list[object]) -> str:
    import torch

    from pytest_accel.measure.types import BadArguments
    from pytest_accel.workloads.rebuild import leaves
    from pytest_accel.workloads.traced import make

    try:
        plan = make(op, arguments)
        small = sum(made.text.elements for made in leaves([plan.args, plan.keywords])) <= MOST_ELEMENTS
        if small and plan.flops() <= MOST_FLOPS:
            plan.on(torch.device("cpu"))
    except NotImplementedError:
        return ""  # the host has no such kernel, and the device may
    except (BadArguments, RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        words = " ".join(str(error).split())
        return "" if "Could not run" in words or "not compiled" in words else f"cannot be made again: {words[:200]}"
    return ""
