"""The results file: strict JSON in a stable order, the same whatever the number of workers was."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel.report.types import CaseResult
from pytest_accel.verdict.summary import headline
from pytest_accel.verdict.types import Verdict

if TYPE_CHECKING:
    from pytest_accel.stack.types import Probe

SCHEMA = "pytest-accel/results/1"
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s]+@")


def build(
    *,
    run: Mapping[str, Any],
    probe: Probe | None,
    results: Sequence[CaseResult],
    stacks: Mapping[str, Mapping[str, Any]],
    baseline: Mapping[str, Any],
    elsewhere: int,
    allow_new: bool = False,
    recording: bool = False,
) -> dict[str, Any]:
    """The whole document; values are plain, non-finite numbers are still floats (the writer encodes them)."""
    stack = stack_of(probe, results, stacks)
    moved = changed(baseline.get("stack") or {}, stack, measured=any(result.sessions for result in results))
    return {
        "schema": SCHEMA,
        "run": {**run, "argv": [mask(str(argument)) for argument in run["argv"]]},
        "stack": stack,
        "baseline": {
            **baseline,
            "changed": moved,
        },
        "summary": summary(results, elsewhere, allow_new=allow_new, recording=recording),
        "stacks": {name: dict(stacks[name]) for name in sorted(stacks)},
        "cases": [case(result) for result in results],
    }


def unfinished(argv: Sequence[str]) -> dict[str, Any]:
    """A results file for a run that has only begun: exit code 11 (incomplete) until the run itself says otherwise."""
    return build(
        run={"id": "", "started": "", "seconds": 0.0, "argv": list(argv), "exit_code": 11},
        probe=None,
        results=[],
        stacks={},
        baseline={"path": "", "stack": {}},
        elsewhere=0,
    )


def stack_of(
    probe: Probe | None, results: Sequence[CaseResult], stacks: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The stack that was measured: the first measured variant's, else what the probe saw."""
    for result in results:
        for session in result.sessions:
            if session["stack"] in stacks:
                return {"platform": probe.platform if probe else None, **stacks[session["stack"]]}
    versions = {"torch": None, "driver": None, "toolkit": None}
    if probe is None:
        return {"platform": None, "hardware": {}, "settings": {}, "versions": versions}
    return {
        "platform": probe.platform,
        "hardware": dict(probe.hardware),
        "settings": dict(probe.settings),
        "versions": {**versions, **probe.versions},
    }


def changed(old: Mapping[str, Any], new: Mapping[str, Any], measured: bool = True) -> dict[str, list[Any]]:
    """What differs between two stacks, as ``part.name: [old, new]``; a part that one side does not hold is not compared.

    ``measured`` false: the new one is a probe's, which knows less than a measuring process: only versions in both compare.
    """
    differences: dict[str, list[Any]] = {}
    for part in ("hardware", "settings", "versions"):
        before, after = old.get(part) or {}, new.get(part) or {}
        if not before or not after:
            continue
        if not measured and part != "versions":
            continue
        for name in sorted(set(before) | set(after) if measured else set(before) & set(after)):
            if before.get(name) != after.get(name):
                differences[f"{part}.{name}"] = [before.get(name), after.get(name)]
    return differences


def summary(results: Sequence[CaseResult], elsewhere: int, *, allow_new: bool, recording: bool) -> dict[str, Any]:
    """Counts, and the one word for the run."""
    counts: dict[str, int] = {}
    judged = sum(result.judged for result in results)
    word = headline(
        [Verdict(result.verdict) for result in results],
        judged=judged,
        accepted_new=allow_new or recording,
        recording=recording,
    )
    if word in ("PASS", "IMPROVED") and any(result.verdict == "NEW" for result in results):
        word = "NEW"  # accepted, so the exit code is 0; but what nobody judged is not called a pass
    for result in results:
        counts[result.verdict] = counts.get(result.verdict, 0) + 1
    return {
        "asked": len(results),
        "measured": sum(result.measured for result in results),
        "judged": judged,
        "elsewhere": elsewhere,
        "known_bad": sum(result.known_bad for result in results),
        "verdict": word,
        "verdicts": counts,
    }


def case(result: CaseResult) -> dict[str, Any]:
    """One variant's record. ``record`` holds what ``promote`` needs beside the file's ``stacks``."""
    return {
        "key": result.key,
        "suite": result.suite,
        "case": result.case,
        "params": dict(result.params),
        "tier": result.tier,
        "path": result.path,
        "verdict": result.verdict,
        "code": result.code,
        "reason": result.reason,
        "seconds": result.seconds,
        "worker": result.worker,
        "device": result.device,
        "metrics": {name: dict(metric) for name, metric in result.metrics.items()},
        "notes": dict(result.notes),
        "record": {
            "workload": result.workload,
            "rules": {name: dict(rule) for name, rule in result.rules.items()},
            "sessions": [dict(session) for session in result.sessions],
        },
    }


def mask(argument: str) -> str:
    """Hide credentials in a URL: ``https://user:secret@host`` becomes ``https://***@host``."""
    return _CREDENTIALS.sub(r"\g<scheme>***@", argument)
