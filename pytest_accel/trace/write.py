"""The suite of a trace as text: what stands in it, and as comments what does not and why."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Sequence

from pytest_accel.trace.select import Call, Seen

MARK = "# Written by `pytest-accel trace`."


def suite_text(calls: Sequence[Call], seen: Seen, program: str, ended: str) -> str:
    """The suite of ``calls``; ``program`` is shown in its head, ``ended`` says how the program ended where it failed."""
    operators = len({call.op for call in calls})
    lines = [
        f"{MARK} It holds names, shapes, strides, dtypes and plain numbers of the calls, nothing that a tensor held.",
        f"# Program: {program}",
        *([f"# It {ended}: the suite holds what it had called until then."] if ended else []),
        f"# Seen: {seen.total} calls in {seen.processes} process(es); {len(calls)} different ones of {operators} operators.",
        *left_out_lines(seen, "# "),
        "schema: pytest-accel/suite/1",
        "defaults:",
        "  workload: traced_op",
        "  timeout: 120s",
        "cases:",
    ]
    for op, group in itertools.groupby(calls, key=lambda call: call.op):
        lines += [f"  - name: {op}", f"    params: {{op: {op}}}", "    matrix:", "      call:"]
        lines += [f"        - {json.dumps(call.arguments)}" for call in group]
    return "\n".join(lines) + "\n"


def left_out_lines(seen: Seen, prefix: str = "") -> list[str]:
    """What is not in the suite, by reason, the operators of each with how often they were called."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for (op, why), count in sorted(seen.left_out.items()):
        by_reason[why].append(f"{op} ({count})")
    return [f"{prefix}Not in it, {why}: {', '.join(ops)}" for why, ops in sorted(by_reason.items())]
