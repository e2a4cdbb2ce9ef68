"""What the terminal says: a header before, the verdict after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel.report.json_report import changed, stack_of
from pytest_accel.report.json_report import summary as summarise
from pytest_accel.report.text import metric_line, number
from pytest_accel.report.types import OTHER_DEVICE, CaseResult
from pytest_accel.verdict.types import Verdict

if TYPE_CHECKING:
    import pytest

    from pytest_accel.stack.types import Finding, Machine

SHOWN = ("driver", "toolkit", "torch")
MOST_ROWS = 40
ALIKE = 3  # keys that are named of variants that failed with one and the same reason


def header(
    *,
    machine: Machine,
    unfit: tuple[str, str] | None,
    asked: int,
    elsewhere: int,
    tier: str,
    baseline: Mapping[str, Any],
    other_tiers: int = 0,
    findings: Sequence[Finding] = (),
) -> list[str]:
    """The lines before the first test: where this runs, on what, against what, and how much is asked for."""
    probe = machine.probe
    devices = (
        f"{len(probe.devices)} device(s): {probe.devices[0].name}"
        if probe.devices
        else str(probe.hardware.get("name") or "no device")
    )
    versions = ", ".join(f"{name} {probe.versions[name]}" for name in SHOWN if probe.versions.get(name))
    lines = [f"accel: {machine.platform} — {devices}; {versions or 'no versions known'}", f"accel: {machine.why}"]
    if unfit is not None:
        lines.append(f"accel: NOT FIT TO JUDGE ({unfit[0]}): {unfit[1]}")
    known = baseline.get("stack") or {}
    path = baseline.get("path") or "-"
    if known:
        now = {"hardware": {}, "settings": {}, "versions": {n: v for n, v in probe.versions.items() if v is not None}}
        old = {"versions": {n: v for n, v in (known.get("versions") or {}).items() if n in now["versions"]}}
        moved = changed(old, now)
        lines.append(f"accel: baseline {path}; " + ("; ".join(diff_lines(moved)) if moved else "same versions as now"))
    else:
        lines.append(f"accel: baseline {path}; nothing accepted there yet")
    lines += [
        f"accel: {found.severity} {found.code}: {found.message}" for found in findings if found.severity == "warning"
    ]
    higher = f"; {other_tiers} of other tiers, not asked for" if other_tiers else ""
    lines.append(f"accel: asked for {asked} variant(s) of tier {tier}; {elsewhere} for other machines{higher}")
    return lines


def diff_lines(moved: Mapping[str, Sequence[Any]]) -> list[str]:
    """``versions.torch 2.12.0 → 2.13.0`` for each difference."""
    return [f"{name} {number(old)} → {number(new)}" for name, (old, new) in moved.items()]


def summary(reporter: pytest.TerminalReporter, ledger: Any, gate: Any) -> None:
    """The section after the tests: measured N of M, the verdict, counts, failures in short, what was recorded."""
    results: list[CaseResult] = ledger.ordered()
    facts = summarise(
        results,
        len(ledger.elsewhere),
        allow_new=gate.options.allow_new,
        recording=gate.options.record is not None,
    )
    reporter.section("accel", sep="=")
    good = ledger.exit_code == 0
    verdict = "CONFIG" if ledger.config_errors else facts["verdict"]
    reporter.write_line(
        f"{verdict} — measured {facts['measured']} of {facts['asked']}, judged {facts['judged']}"
        + (f", {facts['elsewhere']} for other machines" if facts["elsewhere"] else "")
        + (f", {facts['known_bad']} known bad" if facts["known_bad"] else "")
        + f"; exit code {ledger.exit_code}",
        bold=True,
        **{"green" if good else "red": True},
    )
    counts = sorted(facts["verdicts"].items(), key=lambda pair: -Verdict(pair[0]).badness)
    reporter.write_line(", ".join(f"{count} {name}" for name, count in counts) or "nothing was asked for")
    apart = sum(result.notes.get("baseline_device") == OTHER_DEVICE for result in results)
    if apart:
        reporter.write_line(
            f"{apart} timed variant(s) judged against sessions of another physical device of this model: limits are wider by "
            "how far healthy ones differ; record on this device too (--accel-record=add) for the full power"
        )
    baseline = ledger.baseline_facts()
    measured = any(result.sessions for result in results)
    now = stack_of(gate.machine.probe, results, ledger.stacks)
    moved = changed(baseline.get("stack") or {}, now, measured)
    for line in diff_lines(moved):
        reporter.write_line(f"changed against the baseline: {line}")
    for error in ledger.config_errors:
        reporter.write_line(f"CONFIG: {error}", red=True)
    from pytest_accel.report.coverage import cells_of
    from pytest_accel.report.coverage import lines as coverage_lines

    for text in coverage_lines(cells_of(results)):
        reporter.write_line(text)
    _failures(reporter, results)
    _notable(reporter, results)
    if ledger.recorded:
        for record in ledger.recorded:
            for line in recorded_lines(record):
                reporter.write_line(line)
    if gate.options.report and ledger.written:
        reporter.write_line(f"results: {gate.options.report}")


def recorded_lines(record: Any) -> list[str]:
    """What recording did, and a line for each reason for which something was not stored."""
    return [
        recorded_line(record),
        *_by_reason("not added", record.not_added),
        *_by_reason("left out", record.left_out),
    ]


def _by_reason(what: str, reasons: Mapping[str, str]) -> list[str]:
    keys: dict[str, list[str]] = {}
    for key, why in reasons.items():
        keys.setdefault(why, []).append(key)
    return [
        f"{what}: {why} ({', '.join(named[:3])}{f', … {len(named)} in all' if len(named) > 3 else ''})"
        for why, named in keys.items()
    ]


def recorded_line(record: Any) -> str:
    """What recording did, in one line."""
    parts = [f"{len(record.new_entries)} new entry(ies)"] if record.new_entries else []
    known = {key for key, _ in record.new_metrics} - set(record.new_entries)
    parts += [f"values without one added to {len(known)} entry(ies)"] if known else []
    parts += [f"a session added to {len(record.more_sessions)} entry(ies)"] if record.more_sessions else []
    where = ", ".join(str(path) for path in record.files)
    text = f"recorded: {', '.join(parts)} in {where}" if parts else "recorded: nothing"
    return text + (f"; {len(record.left_out)} left out" if record.left_out else "")


def _failures(reporter: pytest.TerminalReporter, results: Sequence[CaseResult]) -> None:
    """What is not fine, worst first: variants of one reason together, one line a metric that is to blame."""
    bad = [r for r in results if Verdict(r.verdict).badness >= Verdict.NEW.badness and r.verdict != "NEW"]
    bad.sort(key=lambda r: -Verdict(r.verdict).badness)
    alike: dict[tuple[str, str, str], list[CaseResult]] = {}
    for result in bad:
        alike.setdefault((result.verdict, result.code, result.reason), []).append(result)
    for (verdict, code, reason), results_alike in list(alike.items())[:MOST_ROWS]:
        keys = [result.key for result in results_alike]
        shown = ", ".join(keys[:ALIKE]) + (f", … {len(keys)} in all" if len(keys) > ALIKE else "")
        reporter.write_line(f"{verdict}{f' ({code})' if code else ''} {shown}", red=True)
        blamed = [(n, m) for n, m in results_alike[0].metrics.items() if m.get("verdict") == verdict]
        for name, metric in blamed[:3]:
            reporter.write_line(f"    {metric_line(name, metric)}")
        reporter.write_line(f"    {reason}")
    left = sum(len(results_alike) for results_alike in list(alike.values())[MOST_ROWS:])
    if left:
        reporter.write_line(f"… and {left} more; all are in the results file (--accel-report FILE)")
    new = [r.key for r in results if r.verdict == "NEW"]
    if new:
        shown = ", ".join(new[:3]) + (f", … ({len(new)} in all)" if len(new) > 3 else "")
        reporter.write_line(f"NEW, without an accepted value: {shown}")


def _notable(reporter: pytest.TerminalReporter, results: Sequence[CaseResult]) -> None:
    """What passed and is still worth a line: a stale baseline, a waiver in use, a retry."""
    improved = [r for r in results if r.verdict == "IMPROVED"]
    for result in improved[:5]:
        for name, metric in result.metrics.items():
            if metric.get("verdict") == "IMPROVED":
                reporter.write_line(
                    f"IMPROVED {result.key}: {metric_line(name, metric)}; the baseline is stale (promote it)"
                )
    if len(improved) > 5:
        reporter.write_line(f"… and {len(improved) - 5} more improved")
    for result in results:
        if result.verdict == "WAIVED" or "waive" in result.reason or "passed on retry" in result.reason:
            reporter.write_line(f"{result.verdict} {result.key}: {result.reason}")
