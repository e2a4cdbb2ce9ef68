"""The suite that runs every replacement of a file. No torch here."""

from __future__ import annotations

import json

from pytest_accel.workloads.replacement_file import OperatorFile

USUAL = ("float32", "float16", "bfloat16")


def suite_text(file: OperatorFile) -> str:
    """One case a replaced operator, in the dtypes that the file names for it, or the usual three."""
    lines = [
        f"# Written by `pytest-accel lint-ops` from {file.path}: every replacement under its precision_override.",
        "schema: pytest-accel/suite/1",
        "defaults:",
        "  workload: replacement",
        "  timeout: 120s",
        "cases:",
    ]
    for name, entry in file.replace.items():
        lines += [
            f"  - name: {json.dumps(name)}",
            f"    params: {{file: {json.dumps(file.path)}, op: {json.dumps(name)}}}",
            f"    matrix: {{dtype: {json.dumps(list(entry.dtypes or USUAL))}}}",
        ]
    return "\n".join(lines) + "\n"
