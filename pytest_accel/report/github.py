"""GitHub Actions: the job summary, and annotations on what failed. Inert outside a workflow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_accel.report.markdown import summary
from pytest_accel.report.results import Results
from pytest_accel.report.rollback import last_accepted

MOST_ANNOTATIONS = 10  # what the runner shows of one step


def in_workflow(environment: Mapping[str, str] = os.environ) -> bool:
    """True in a step of a GitHub workflow (or of a server that stands in for one)."""
    return environment.get("GITHUB_ACTIONS") == "true"


def append_summary(results: Results, environment: Mapping[str, str] = os.environ) -> str | None:
    """Append the Markdown summary to the job's; returns why not, where it cannot be written, else None."""
    target = environment.get("GITHUB_STEP_SUMMARY")
    if not target:
        return None
    try:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(summary(results, rollback=last_accepted(results)) + "\n")
    except OSError as error:
        return f"the job summary {target} cannot be written: {error.strerror or error}"
    return None


def annotate(results: Results, root: Path | None = None) -> list[str]:
    """Workflow commands, the worst variants first, that mark the suite file's line of each failure."""
    bad = [case for case in results.bad() if case.verdict != "WAIVED"]
    lines = []
    for case in bad[: MOST_ANNOTATIONS - (len(bad) > MOST_ANNOTATIONS)]:
        level = "error" if case.verdict == "REGRESSION" else "warning"
        where = f" file={_value(_relative(case.path, root))}," if case.path else " "
        lines.append(f"::{level}{where}title={_value(f'{case.verdict}: {case.key}')}::{_message(case.reason)}")
    if len(bad) > MOST_ANNOTATIONS:
        left = len(bad) - len(lines)
        lines.append(
            f"::warning title={_value('accelerator gate')}::{_message(f'and {left} more, see the job summary')}"
        )
    return lines


def inert(text: str) -> str:
    """Text that the runner does not take for a command, wherever a line of it begins."""
    return "\n".join(
        line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line for line in text.split("\n")
    )


def _relative(path: str, root: Path | None) -> str:
    if root is None or not Path(path).is_absolute():
        return path
    try:
        return str(Path(path).relative_to(root))
    except ValueError:
        return path


def _message(text: str) -> str:
    shown = text if len(text) <= 1000 else text[:999] + "…"
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


__all__: Sequence[str] = ("annotate", "append_summary", "in_workflow", "inert")
