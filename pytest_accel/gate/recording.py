"""Between results and baselines: what is recorded, and which stack the baseline was measured on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.gate.context import Gate
from pytest_accel.report.types import CaseResult

if TYPE_CHECKING:
    from pytest_accel.baseline.types import Recordable


def recordable(gate: Gate, result: CaseResult, stacks: Mapping[str, Mapping[str, Any]]) -> Recordable:
    """One result as recording and promotion take it: sessions with their whole stack."""
    from pytest_accel.baseline.types import Recordable

    sessions = [
        {**session, "stack": stacks.get(str(session["stack"]), {}), "run": gate.run.id, "started": gate.run.started}
        for session in result.sessions
    ]
    return Recordable(
        key=result.key,
        suite=result.suite,
        case=result.case,
        path=result.path,
        tier=result.tier,
        workload=result.workload,
        verdict=result.verdict,
        code=result.code,
        metrics=result.metrics,
        rules=result.rules,
        sessions=sessions,
    )


def record_results(gate: Gate, results: Iterable[CaseResult], stacks: Mapping[str, Any], mode: str) -> Any:
    """Store what may be stored, one file a suite, each written whole. Returns the summaries by folder."""
    from pytest_accel.baseline.record import record

    by_folder: dict[Path, list[Recordable]] = {}
    for result in results:
        if result.measured and result.sessions:
            by_folder.setdefault(Path(result.baselines), []).append(recordable(gate, result, stacks))
    return [
        record(folder, gate.machine.probe.slug, items, mode)  # type: ignore[arg-type]
        for folder, items in sorted(by_folder.items())
    ]


def newest_stack(gate: Gate, asked: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The folder of this hardware's baselines and the stack of its newest session among the suites that are asked for."""
    from pytest_accel.baseline.store import newest

    pairs = sorted({(str(record["baselines"]), str(record["suite"])) for record in asked})
    if not pairs:
        return {"path": "", "stack": {}}
    path = str(Path(pairs[0][0]) / gate.machine.probe.slug)
    found: tuple[str, Mapping[str, Any]] | None = None
    for folder, suite in pairs:
        stored = gate.baseline(Path(folder), suite)
        candidate = newest(stored) if stored is not None else None
        if candidate is not None and (found is None or candidate[0] > found[0]):
            found, path = candidate, str(Path(folder) / gate.machine.probe.slug)
    return {"path": path, "stack": dict(found[1]) if found else {}}
