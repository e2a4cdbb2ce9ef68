"""Numbers and verdicts as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_accel.report.types import CaseResult


def number(value: Any, unit: str = "") -> str:
    """A value with its unit: four significant digits for a float, words and whole numbers as they are."""
    if isinstance(value, Mapping) and "nonfinite" in value:
        return str(value["nonfinite"])
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        text = str(value)
    elif not math.isfinite(value):
        return str(value)
    elif value != 0 and not 1e-3 <= abs(value) < 1e7:
        text = f"{value:.3e}"
    else:
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{text} {unit}" if unit else text


def change(value: float | None) -> str:
    """A relative change in per cent, signed; as a factor from 10 up."""
    if value is None:
        return ""
    if value >= 9:
        return f"{value + 1:.1f} times"
    return f"{value * 100:+.1f} %"


def metric_line(name: str, metric: Mapping[str, Any]) -> str:
    """One metric in one line: value, baseline, change, limit, and why."""
    unit = str(metric.get("unit") or "")
    parts = [f"{name}: {number(metric.get('value'), unit)}"]
    if metric.get("baseline") is not None:
        moved = change(metric.get("change"))
        parts.append(f"baseline {number(metric['baseline'], unit)}" + (f" ({moved})" if moved else ""))
    if metric.get("limit") is not None:
        parts.append(f"limit {number(metric['limit'], unit)}")
    verdict = metric.get("verdict")
    return ", ".join(parts) + (f": {verdict}" if verdict else "")


def one_line(result: CaseResult, width: int = 300) -> str:
    """The verdict and its reason in one line, for pytest's short summary."""
    code = f" ({result.code})" if result.code else ""
    text = f"{result.verdict}{code}: {result.reason}".replace("\n", " ")
    return text if len(text) <= width else text[: width - 1] + "…"


def describe(result: CaseResult) -> str:
    """The report of one variant that is not fine: verdict, reason, then its metrics, the worst first as they were judged."""
    code = f" ({result.code})" if result.code else ""
    lines = [f"{result.verdict}{code}  {result.key}", f"  {result.reason}"]
    bad = [(n, m) for n, m in result.metrics.items() if m.get("verdict") not in (None, "PASS", "IMPROVED")]
    fine = [(n, m) for n, m in result.metrics.items() if m.get("verdict") in (None, "PASS", "IMPROVED")]
    lines.extend(f"  {metric_line(name, metric)}" for name, metric in [*bad, *fine][:12])
    reproducer = result.notes.get("reproducer")
    if reproducer:
        lines.append("  reproduce with:")
        lines.extend(f"    {line}" for line in str(reproducer).splitlines())
    tools = result.notes.get("tools")
    if reproducer and tools:
        lines.append("  look closer, with these lines in reproduce.py:")
        lines.extend(f"    {command}" for command in tools)
    return "\n".join(lines)
