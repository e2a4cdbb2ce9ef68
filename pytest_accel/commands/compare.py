"""``pytest-accel compare``: two results files or baselines folders against each other, judged as the gate would."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands
    from pytest_accel.report.compare import Comparison


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    compare = commands.add_parser(
        "compare", help="two results files (or baselines folders): stack diff, then verdicts; exit codes as the gate's"
    )
    compare.add_argument("old", metavar="OLD", help="what was: a results file, or a baselines folder of one hardware")
    compare.add_argument("new", metavar="NEW", help="what is: the same")
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    compare.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.report.compare import compare

    found = compare(Path(arguments.old), Path(arguments.new))
    if arguments.json:
        from pytest_accel.files import dump_json

        print(dump_json(as_json(found)), end="")
    elif arguments.markdown:
        from pytest_accel.report.markdown import comparison

        print(comparison(found), end="")
    else:
        print(as_text(found))
    return found.exit_code


def as_json(found: Comparison) -> dict[str, object]:
    """The comparison as plain data."""
    from pytest_accel.gate.assess import metric_json

    return {
        "schema": "pytest-accel/compare/1",
        "old": {"path": found.old.path, "platform": found.old.platform, "stack": found.old.stack},
        "new": {"path": found.new.path, "platform": found.new.platform, "stack": found.new.stack},
        "changed": found.changed,
        "warnings": list(found.warnings),
        "exit_code": found.exit_code,
        "verdicts": counts(found),
        "cases": [
            {
                "key": each.key,
                "suite": each.suite,
                "case": each.case,
                "verdict": each.judgement.verdict.value,
                "code": each.judgement.code,
                "reason": each.judgement.reason,
                "metrics": {name: metric_json(metric) for name, metric in each.judgement.metrics.items()},
            }
            for each in found.variants
        ],
    }


def as_text(found: Comparison) -> str:
    """The comparison for a terminal: what changed, what is not fine, the counts."""
    from pytest_accel.report.text import change, number

    lines = [f"old: {found.old.path} ({found.old.platform})", f"new: {found.new.path} ({found.new.platform})"]
    lines += list(found.warnings)
    lines += [f"changed: {name} {number(old)} → {number(new)}" for name, (old, new) in found.changed.items()]
    if not found.changed:
        lines.append("the stacks are the same")
    for each in sorted(found.variants, key=lambda each: (-each.judgement.verdict.badness, each.key)):
        if each.judgement.verdict.value == "PASS":
            continue
        code = f" ({each.judgement.code})" if each.judgement.code else ""
        lines.append(f"{each.judgement.verdict.value}{code}  {each.key}")
        lines.append(f"  {each.judgement.reason}")
        for name, metric in each.judgement.metrics.items():
            if metric.verdict is not None and metric.verdict.value not in ("PASS",):
                old, new = number(metric.baseline, metric.unit), number(metric.value, metric.unit)
                lines.append(f"  {name}: {old} → {new} {change(metric.change)}".rstrip())
    counted = ", ".join(f"{count} {name}" for name, count in counts(found).items()) or "nothing to compare"
    lines.append(f"{counted}; exit code {found.exit_code}")
    return "\n".join(lines)


def counts(found: Comparison) -> dict[str, int]:
    """Variants by verdict, the worst first."""
    every: dict[str, int] = {}
    for each in sorted(found.variants, key=lambda each: -each.judgement.verdict.badness):
        every[each.judgement.verdict.value] = every.get(each.judgement.verdict.value, 0) + 1
    return every
