"""A results file as reports read it: checked, decoded, and ordered by what a person looks at first."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.errors import ConfigError
from pytest_accel.report.json_report import SCHEMA
from pytest_accel.verdict.types import Verdict

GOOD = frozenset({"PASS", "IMPROVED"})


@dataclass(frozen=True)
class Case:
    """One variant of a results file. ``metrics``, ``notes`` and ``record`` are plain data as the file has them."""

    key: str
    suite: str
    case: str
    params: Mapping[str, Any]
    verdict: str
    code: str = ""
    reason: str = ""
    seconds: float = 0.0
    tier: str = "gate"
    path: str = ""
    worker: str = ""
    device: str = ""
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def badness(self) -> int:
        """The rank of its verdict: larger is worse."""
        return Verdict(self.verdict).badness

    @property
    def family(self) -> str:
        """Suite and case: what its variants have in common."""
        return f"{self.suite}/{self.case}"

    @property
    def worst(self) -> tuple[str, Mapping[str, Any]] | None:
        """The metric that decided the verdict: the first of the worst, else None."""
        judged = [(name, metric) for name, metric in self.metrics.items() if metric.get("verdict")]
        if not judged:
            return None
        return max(judged, key=lambda pair: Verdict(pair[1]["verdict"]).badness)


@dataclass(frozen=True)
class Results:
    """A whole results file; ``cases`` stand in the file's order."""

    path: str
    run: Mapping[str, Any]
    stack: Mapping[str, Any]
    baseline: Mapping[str, Any]
    summary: Mapping[str, Any]
    cases: tuple[Case, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Variants by verdict, worst verdict first, absent ones left out."""
        found = {verdict.value: 0 for verdict in Verdict}
        for case in self.cases:
            found[case.verdict] += 1
        return {name: count for name, count in found.items() if count}

    @property
    def changed(self) -> Mapping[str, Sequence[Any]]:
        """What differs from the baseline's stack: ``versions.torch: [old, new]``."""
        moved = self.baseline.get("changed")
        return moved if isinstance(moved, dict) else {}

    @property
    def exit_code(self) -> int:
        """The run's exit code."""
        return int(self.run.get("exit_code", 3))

    @property
    def verdict(self) -> str:
        """The one word for the run."""
        return str(self.summary.get("verdict", "?"))

    def bad(self) -> list[Case]:
        """The variants that are not fine, the worst first."""
        return sorted((case for case in self.cases if case.verdict not in GOOD), key=lambda case: -case.badness)


def read(path: Path) -> Results:
    """Read a results file. Raises ConfigError, with line, for a file that is broken or of another schema."""
    from pytest_accel.baseline.results import read_results

    return parse(read_results(path), path)


def parse(data: Mapping[str, Any], path: Path) -> Results:
    """The typed view of a results document (non-finite numbers may still be encoded). Raises ConfigError."""
    cases = []
    for number, case in enumerate(data["cases"]):
        try:
            cases.append(_case(case))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"case {number + 1} is not as {SCHEMA} has it ({error!r})"
            raise ConfigError.at(path, None, what, "write the file anew with --accel-report") from error
    parts = {name: data.get(name) for name in ("run", "stack", "baseline", "summary")}
    return Results(
        path=str(path),
        cases=tuple(cases),
        **{name: part if isinstance(part, dict) else {} for name, part in parts.items()},
    )


def _case(case: Mapping[str, Any]) -> Case:
    Verdict(case["verdict"])
    return Case(
        key=str(case["key"]),
        suite=str(case["suite"]),
        case=str(case["case"]),
        params=dict(case.get("params") or {}),
        verdict=str(case["verdict"]),
        code=str(case.get("code") or ""),
        reason=str(case.get("reason") or ""),
        seconds=float(case.get("seconds") or 0.0),
        tier=str(case.get("tier") or "gate"),
        path=str(case.get("path") or ""),
        worker=str(case.get("worker") or ""),
        device=str(case.get("device") or ""),
        metrics={name: dict(metric) for name, metric in (case.get("metrics") or {}).items()},
        notes=dict(case.get("notes") or {}),
        record=dict(case.get("record") or {}),
    )


def started(results: Results) -> str:
    """The run's start as people read it, in UTC; empty where the file does not say."""
    said = str(results.run.get("started") or "")
    try:
        when = datetime.datetime.fromisoformat(said)
    except ValueError:
        return said
    return when.strftime("%Y-%m-%d %H:%M UTC")


def answer(results: Results) -> tuple[str, str]:
    """May it go live? A word (``yes``, ``no``, ``undecided``) and the sentence that says why."""
    counts = results.counts
    code = results.exit_code
    asked = int(results.summary.get("asked") or len(results.cases))
    measured = int(results.summary.get("measured") or 0)
    said = f"{measured} of {asked} variants measured"
    if code == 0 and results.verdict == "RECORDED ONLY":
        return "undecided", f"Nothing was judged, only recorded: {said}. Run the gate again to judge against it."
    if code == 0:
        return "yes", f"Everything that was asked for was measured and judged: {said}, none worse than accepted."
    if code == 1:
        lost = counts.get("REGRESSION", 0)
        if not lost:
            return "no", f"An ordinary test failed beside the suites: {said}."
        return "no", f"{lost} variant{'s' if lost != 1 else ''} got worse: {said}."
    words = {
        2: "the run was interrupted",
        3: "pytest failed internally",
        4: "the configuration is wrong, nothing can be concluded",
        5: "nothing was asked for on this machine",
        10: "the machine was unfit to judge",
        11: "the run is incomplete: something asked for has no verdict that counts",
    }
    return (
        "undecided",
        f"{words.get(code, f'exit code {code}')[:1].upper()}{words.get(code, f'exit code {code}')[1:]}: {said}.",
    )
