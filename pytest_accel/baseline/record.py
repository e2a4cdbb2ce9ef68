"""Recording what a run measured: only what is sound, only where nothing stood, never over a value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_accel.baseline.match import entry_view, newest_comparable
from pytest_accel.baseline.schema import in_order, wrong_value
from pytest_accel.baseline.store import plain_stack, stack_hash, update
from pytest_accel.baseline.types import (
    BaselineFile,
    Cpu,
    Mode,
    Recordable,
    RecordSummary,
    StoredEntry,
    StoredMetric,
    StoredSession,
)
from pytest_accel.verdict.types import Word

RECORDED = frozenset({"PASS", "IMPROVED", "NEW"})


def record(root: Path, hardware: str, results: Iterable[Recordable], mode: Mode = "new") -> RecordSummary:
    """Store what may be stored, one file a suite.

    ``new``: entries, and metrics without a value to compare here, of variants that were measured and are PASS, IMPROVED
    or NEW. ``add``: also this run's sessions of entries that were PASS on the versions and settings of their newest
    session. A value is never replaced, and a non-finite one never written. What one run measured on one device is
    stored once.
    Raises ConfigError for a broken file or a folder that cannot be written.
    """
    notes = _Notes()
    by_suite: dict[str, list[Recordable]] = {}
    for result in results:
        if result.verdict not in RECORDED:
            notes.left_out[result.key] = f"{result.verdict} is never recorded"
        elif not result.sessions:
            notes.left_out[result.key] = "it was not measured"
        else:
            by_suite.setdefault(result.suite, []).append(result)
    files = []
    for suite, items in sorted(by_suite.items()):

        def change(content: BaselineFile, items: list[Recordable] = items) -> BaselineFile:
            for item in items:
                content = _recorded(content, item, mode, notes)
            return content

        files.append(update(root, hardware, suite, change))
    return RecordSummary(
        new_entries=tuple(notes.new_entries),
        new_metrics=tuple(notes.new_metrics),
        more_sessions=tuple(notes.more_sessions),
        left_out=notes.left_out,
        not_added=notes.not_added,
        files=tuple(path for path in files if path),
    )


def stored_sessions(result: Recordable) -> tuple[list[StoredSession], dict[str, dict[str, dict[str, Any]]]]:
    """The result's sessions as a baseline holds them, and their stacks by hash. Values are not checked here."""
    stacks: dict[str, dict[str, dict[str, Any]]] = {}
    sessions = []
    for data in result.sessions:
        stack = data.get("stack") or {}
        name = stack_hash(stack)
        stacks[name] = plain_stack(stack)
        cpu = data.get("cpu")
        sessions.append(
            StoredSession(
                run=str(data.get("run", "")),
                started=str(data.get("started", "")),
                machine=str(data.get("machine", "")),
                device=str(data.get("device", "")),
                stack=name,
                metrics={key: value for key, value in data["metrics"].items() if value is not None},
                cpu=(str(cpu[0]), int(cpu[1])) if cpu else None,
            )
        )
    return sessions, stacks


def meanings(result: Recordable) -> dict[str, StoredMetric]:
    """What each metric of a result is; whether it is a word, its last value says."""
    found = {}
    for session in result.sessions:
        for name, value in session["metrics"].items():
            said = {**result.metrics.get(name, {}), **result.rules.get(name, {})}
            found[name] = StoredMetric(
                unit=str(said.get("unit") or ""),
                better=said.get("better") or "equal",
                kind=said.get("kind") or "exact",
                words=isinstance(value, str),
                reduced=said.get("reduced") or "",
            )
    return found


def work_of(result: Recordable) -> tuple[int, str]:
    """The work version and the digest of a result: those of its last session."""
    last = result.sessions[-1]
    return int(last.get("work_version", 1)), str(last.get("digest", ""))


def fresh_entry(result: Recordable, old: StoredEntry | None = None) -> StoredEntry:
    """An entry with a result's place and work, and nothing stored yet; an older entry's promotions stay."""
    version, digest = work_of(result) if result.sessions else (1, "")
    return StoredEntry(
        path=result.path,
        tier=result.tier,
        case=result.case,
        workload=result.workload,
        work_version=version,
        digest=digest,
        promotions=old.promotions if old else (),
    )


def only(session: StoredSession, names: Iterable[str]) -> StoredSession:
    """The session with only the named metrics."""
    kept = set(names)
    return replace(session, metrics={name: value for name, value in session.metrics.items() if name in kept})


def is_nonfinite(value: Word) -> bool:
    """True for a float that is NaN or infinite."""
    return isinstance(value, float) and not math.isfinite(value)


@dataclass
class _Notes:
    new_entries: list[str] = field(default_factory=list)
    new_metrics: list[tuple[str, str]] = field(default_factory=list)
    more_sessions: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    not_added: dict[str, str] = field(default_factory=dict)


def _recorded(content: BaselineFile, result: Recordable, mode: Mode, notes: _Notes) -> BaselineFile:
    """The file with one result recorded in it, or as it was."""
    old = content.entries.get(result.key)
    live = old if old is not None and old.tombstone is None else None
    sessions, stacks = stored_sessions(result)
    metrics = meanings(result)
    faults = live.known_bad if live else {}
    storable = {name for name, metric in metrics.items() if name not in faults and metric.kind != "info"}
    facts = {name for name, metric in metrics.items() if metric.kind == "info"}
    for session in sessions:
        for name, value in session.metrics.items():
            wrong = wrong_value(metrics[name], value)
            if wrong and name in storable:
                notes.left_out[result.key] = f"{name} is {wrong}"
                return content
            if wrong:
                facts.discard(name)
    if live is None:
        kept = storable | facts
        entry = replace(
            fresh_entry(result, old),
            metrics={name: metrics[name] for name in sorted(kept)},
            sessions=tuple(in_order(only(session, kept) for session in sessions)),
        )
        notes.new_entries.append(result.key)
        notes.new_metrics += [(result.key, name) for name in sorted(kept)]
        return _with(content, result.key, entry, stacks)
    if (live.work_version, live.digest) != work_of(result):
        notes.left_out[result.key] = "its work changed; promote to accept"
        return content
    shared = storable & set(live.metrics)
    clash = sorted(name for name in shared if live.metrics[name].words != metrics[name].words)
    if clash:
        notes.left_out[result.key] = f"{clash[0]} was a {'word' if live.metrics[clash[0]].words else 'number'}"
        return content
    changed = sorted(
        name
        for name in shared
        if live.metrics[name].reduced != metrics[name].reduced and metrics[name].kind == "timing"
    )
    if changed:
        notes.left_out[result.key] = f"the samples of {changed[0]} were reduced in another way; record the entry anew"
        return content
    return _extended(content, result, live, sessions, stacks, metrics, storable, facts, mode, notes)


def _extended(
    content: BaselineFile,
    result: Recordable,
    entry: StoredEntry,
    sessions: list[StoredSession],
    stacks: Mapping[str, dict[str, dict[str, Any]]],
    metrics: Mapping[str, StoredMetric],
    storable: set[str],
    facts: set[str],
    mode: Mode,
    notes: _Notes,
) -> BaselineFile:
    """The file with what an entry lacks, and in mode ``add`` with the sessions, of one result more."""
    added: list[StoredSession] = []
    for session in sessions:
        lacking = _lacking(content, entry, session.cpu, storable)
        against = _against_adding(content, entry, result, session, stacks) if mode == "add" else ""
        whole = mode == "add" and not against
        if against and result.verdict != "NEW":
            notes.not_added[result.key] = against
        wanted = storable | facts if whole else lacking
        wanted -= {name for s in entry.sessions if s.source == session.source for name in s.metrics}
        part = only(session, wanted)
        if set(part.metrics) & storable:
            added.append(part)
            notes.new_metrics += [(result.key, name) for name in sorted(lacking & set(part.metrics))]
            if whole:
                notes.more_sessions.append(result.key)
    if not added:
        return content
    new = {name: metrics[name] for session in added for name in session.metrics if name not in entry.metrics}
    entry = replace(
        entry,
        path=result.path,
        tier=result.tier,
        metrics={**entry.metrics, **new},
        sessions=tuple(in_order([*entry.sessions, *added])),
    )
    return _with(content, result.key, entry, stacks)


def _lacking(content: BaselineFile, entry: StoredEntry, cpu: Cpu | None, names: set[str]) -> set[str]:
    """The metrics that have no value to compare here."""
    view = entry_view(content, entry, cpu=cpu)
    held = {name for name, accepted in view.metrics.items() if accepted.values} if view else set()
    return names - held


def _against_adding(
    content: BaselineFile,
    entry: StoredEntry,
    result: Recordable,
    session: StoredSession,
    stacks: Mapping[str, Mapping[str, Any]],
) -> str:
    """Why a session may not be appended to an entry, "" where it may.

    Every version counts, the kernel's patch level too: what a patch slows by less than the tolerance would else move the
    baseline, patch by patch, without anybody's word.
    """
    if result.verdict != "PASS":
        return f"{result.verdict}, promote it" if result.verdict == "IMPROVED" else result.verdict
    newest = newest_comparable(entry, session.cpu)
    if newest is None:
        return "the entry holds a known fault only"
    old, new = content.stacks[newest.stack], stacks[session.stack]
    differing = [
        f"{part}.{name} {_said(old[part].get(name))} → {_said(new[part].get(name))}"
        for part in ("versions", "settings")
        for name in sorted({*old[part], *new[part]})
        if old[part].get(name) != new[part].get(name)
    ]
    return f"other {', '.join(differing)}" if differing else ""


def _said(value: object) -> str:
    return "-" if value is None else str(value)


def _with(
    content: BaselineFile, key: str, entry: StoredEntry, stacks: Mapping[str, dict[str, dict[str, Any]]]
) -> BaselineFile:
    return replace(content, stacks={**content.stacks, **stacks}, entries={**content.entries, key: entry})
