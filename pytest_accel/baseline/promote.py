"""Promotion: the only way to replace or remove an accepted value.

Old and new value, run, versions and reason are kept in the entry.
"""

from __future__ import annotations

import fnmatch
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_accel.baseline.match import entry_view, newest_comparable
from pytest_accel.baseline.record import fresh_entry, is_nonfinite, meanings, only, stored_sessions, work_of
from pytest_accel.baseline.results import read_results, recordables
from pytest_accel.baseline.schema import in_order, wrong_value
from pytest_accel.baseline.store import files_in, load_path, update
from pytest_accel.baseline.types import BaselineFile, PromoteSummary, Recordable, StoredEntry, StoredSession
from pytest_accel.errors import ConfigError, Problem
from pytest_accel.verdict.types import OUTCOME, Word

MEASURED = frozenset({"PASS", "IMPROVED", "NEW", "REGRESSION", "WAIVED", "INCONCLUSIVE", "MISSING", "ENV"})
ACCEPTED_ENV = frozenset({"work-changed", "settings-differ"})  # the machine was fit: what changed is to be accepted
BAD = frozenset({"nonfinite", "limit", "unknown-word", "not-a-number"})


def promote(
    root: Path,
    results: Path,
    *,
    reason: str,
    case: str | None = None,
    known_bad: Iterable[str] = (),
    retire: Iterable[str] = (),
    hardware: str | None = None,
) -> PromoteSummary:
    """Take the measured values of a results file into the baseline.

    ``case``: a glob over keys (only ``*`` and ``?`` are wild; a key up to its ``[`` counts too); nothing is taken where
    only ``retire`` is given. ``known_bad``: keys whose bad value (wrong, fallback, non-finite, crash …) is taken as a
    known fault; a bad value of any other key is refused and named. ``retire``: keys whose entries become tombstones.
    ``hardware``: the folder below ``root``; default: the one that the results name.
    Raises ConfigError before anything is written, where a name matches nothing, or a case lacks its ``record``.
    """
    if not reason.strip():
        raise ConfigError(Problem("promote needs a reason", "give --reason TEXT, for whoever reviews the baseline"))
    data = read_results(results)
    folder = hardware or hardware_of(data, results)
    bad, leaving = list(dict.fromkeys(known_bad)), list(dict.fromkeys(retire))
    taken = [] if leaving and case is None and not bad else _selected(recordables(data, results), case, results)
    taken = [result for result in taken if result.key not in leaving]
    measured = {result.key for result in taken}
    lost = [key for key in bad if key not in measured]
    if lost:
        what = f"--known-bad lists {', '.join(lost)}, which the results do not hold"
        raise ConfigError.at(results, None, what, "copy the keys as the report writes them")
    homes = _homes(root, folder, leaving)
    notes = _Notes(run=data["run"], reason=reason)
    by_suite: dict[str, list[Recordable]] = {}
    for result in taken:
        refusal = _refusal(result, result.key in bad)
        if refusal:
            notes.refused[result.key] = refusal
        else:
            by_suite.setdefault(result.suite, []).append(result)
    files = []
    for suite in sorted({*by_suite, *homes.values()}):

        def change(content: BaselineFile, suite: str = suite) -> BaselineFile:
            for result in by_suite.get(suite, ()):
                content = _promoted(content, result, notes)
            for key in (key for key, home in homes.items() if home == suite):
                content = _retired(content, key, notes)
            return content

        files.append(update(root, folder, suite, change))
    return PromoteSummary(
        changes=tuple(notes.changes),
        promoted=tuple(notes.promoted),
        known_bad=tuple(notes.known_bad),
        retired=tuple(notes.retired),
        refused=notes.refused,
        unchanged=tuple(notes.unchanged),
        files=tuple(path for path in files if path),
    )


def hardware_of(data: Mapping[str, Any], path: Path) -> str:
    """The hardware folder that a results file names as its baseline's."""
    baseline = data.get("baseline")
    named = baseline.get("hardware") or Path(str(baseline.get("path") or "")).name if isinstance(baseline, dict) else ""
    if not named:
        raise ConfigError.at(path, None, "does not say which hardware's baseline it belongs to", "name the hardware")
    return str(named)


@dataclass
class _Notes:
    run: Mapping[str, Any]
    reason: str
    changes: list[tuple[str, str, Word | None, Word | None]] = field(default_factory=list)
    promoted: list[str] = field(default_factory=list)
    known_bad: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def _selected(results: list[Recordable], glob: str | None, path: Path) -> list[Recordable]:
    if glob is None:
        found = results
    else:
        pattern = glob.replace("[", "[[]")  # a key's bracket is a bracket
        found = [
            result
            for result in results
            if any(fnmatch.fnmatchcase(name, pattern) for name in (result.key, result.key.partition("[")[0]))
        ]
    if not found:
        what = f"holds no case that matches {glob!r}" if glob is not None else "holds no case"
        raise ConfigError.at(path, None, what, "see the keys in the report, or give another results file")
    return found


def _homes(root: Path, hardware: str, keys: list[str]) -> dict[str, str]:
    """The suite in whose file each key to retire stands."""
    found: dict[str, str] = {}
    for path in files_in(root, hardware) if keys else ():
        content = load_path(path)
        found |= {key: content.suite for key in keys if key in content.entries}
    lost = [key for key in keys if key not in found]
    if lost:
        what = f"no baseline of {hardware} holds {', '.join(lost)}"
        raise ConfigError.at(Path(root) / hardware, None, what, "copy the key as the report writes it")
    return found


def _faults(result: Recordable) -> dict[str, str]:
    """The bad values of a result: by metric (or OUTCOME) the word of its fault."""
    found: dict[str, str] = {}
    wrong = ("REGRESSION", "WAIVED")
    for name, metric in result.metrics.items():
        code, value = str(metric.get("code", "")), metric.get("value")
        if metric.get("kind") == "info" or metric.get("verdict") is None:
            continue
        if value is not None and is_nonfinite(value):
            found[name] = str(float(value))
        elif code == "known-bad" or (metric.get("verdict") in wrong and (code in BAD or _stepped_down(code, value))):
            found[name] = value if isinstance(value, str) else "limit"
    judged_wrong = any(metric.get("verdict") in wrong for metric in result.metrics.values())
    if result.verdict in wrong and not judged_wrong:
        found[OUTCOME] = result.code or "failed"
    return found


def _stepped_down(code: str, value: object) -> bool:
    return code == "worse" and isinstance(value, str)


def _refusal(result: Recordable, listed: bool) -> str:
    """Why a result may not be promoted, "" where it may."""
    if result.verdict not in MEASURED:
        return f"{result.verdict}: it was not measured"
    if result.verdict == "ENV":
        codes = {str(m.get("code")) for m in result.metrics.values() if m.get("verdict") == "ENV"} or {result.code}
        if not codes <= ACCEPTED_ENV:
            return f"ENV {', '.join(sorted(codes))}: the machine was unfit; measure again"
    faults = _faults(result)
    if not result.sessions and OUTCOME not in faults:
        return f"{result.verdict}: nothing was measured" + (
            "; --retire removes the entry" if result.verdict == "MISSING" else ""
        )
    unchanged = result.verdict == "PASS"  # known faults, as accepted before
    if faults and not listed and not unchanged:
        return f"bad value ({', '.join(f'{n}: {w}' for n, w in sorted(faults.items()))}); only --known-bad takes it"
    metrics = meanings(result)
    for session in result.sessions:
        for name, value in session["metrics"].items():
            wrong = wrong_value(metrics[name], value)
            if wrong and name not in faults and metrics[name].kind != "info":
                return f"{name} is {wrong}"
    return ""


def _promoted(content: BaselineFile, result: Recordable, notes: _Notes) -> BaselineFile:
    old = content.entries.get(result.key)
    live = old if old is not None and old.tombstone is None else None
    faults = _faults(result)
    sessions, stacks = stored_sessions(result)
    metrics = meanings(result)
    sound = {
        name
        for name, metric in metrics.items()
        if all(wrong_value(metric, s.metrics[name]) is None for s in sessions if name in s.metrics)
    }
    if sessions:
        same_work = live is not None and (live.work_version, live.digest) == work_of(result)
        others = _of_other_cpus(live, sessions, set(metrics)) if live is not None and same_work else []
        kept = [*others, *(only(session, sound) for session in sessions)]
        entry = replace(
            fresh_entry(result, old),
            metrics={name: metrics[name] for name in sorted(sound)},
            sessions=tuple(in_order(kept)),
            known_bad=faults,
        )
    else:  # it gives no metrics: what was accepted before stays, for the day on which it does again
        entry = replace(live or fresh_entry(result, old), known_bad={**(live.known_bad if live else {}), **faults})
    after = replace(content, stacks={**content.stacks, **stacks}, entries={**content.entries, result.key: entry})
    cpu = sessions[-1].cpu if sessions else None
    before = _values(content, live, cpu) if live is not None else {}
    now = _values(after, entry, cpu)
    moved = {
        name: {"old": before.get(name), "new": now.get(name)}
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    }
    if live is not None and not moved and _means_the_same(content, live, after, entry, cpu):
        notes.unchanged.append(result.key)
        return content
    notes.changes += [(result.key, name, pair["old"], pair["new"]) for name, pair in moved.items()]
    notes.promoted.append(result.key)
    if faults:
        notes.known_bad.append(result.key)
    versions = stacks[sessions[-1].stack]["versions"] if sessions else {}
    line = {**_line(notes), "versions": versions, "metrics": moved}
    entry = replace(entry, promotions=(*entry.promotions, line))
    return replace(after, entries={**after.entries, result.key: entry})


def _means_the_same(
    old: BaselineFile, before: StoredEntry, new: BaselineFile, after: StoredEntry, cpu: tuple[str, int] | None
) -> bool:
    """True where an entry of equal values stands for the same in all else that is judged: its work, faults and settings."""

    def told(content: BaselineFile, entry: StoredEntry) -> tuple[object, ...]:
        newest = newest_comparable(entry, cpu)
        settings = content.stacks[newest.stack]["settings"] if newest else {}
        judged = {name: metric for name, metric in entry.metrics.items() if metric.kind != "info"}
        work = entry.path, entry.tier, entry.case, entry.workload, entry.work_version, entry.digest
        return work, judged, dict(entry.known_bad), dict(settings)

    return told(old, before) == told(new, after)


def _of_other_cpus(entry: StoredEntry, new: list[StoredSession], measured: set[str]) -> list[StoredSession]:
    """What stays of the accepted sessions: the timings of other CPUs, which this machine cannot replace."""
    here = {session.cpu for session in new}
    if None in here:
        return []
    timings = {name for name, metric in entry.metrics.items() if metric.kind == "timing"} & measured
    parts = [only(session, timings) for session in entry.sessions if session.cpu not in here]
    return [part for part in parts if part.metrics]


def _retired(content: BaselineFile, key: str, notes: _Notes) -> BaselineFile:
    entry = content.entries[key]
    if entry.tombstone is not None:
        notes.unchanged.append(key)
        return content
    gone = {name: {"old": value, "new": None} for name, value in _values(content, entry, None).items()}
    notes.retired.append(key)
    notes.changes += [(key, name, pair["old"], None) for name, pair in gone.items()]
    entry = replace(
        entry,
        sessions=(),
        metrics={},
        known_bad={},
        tombstone=_line(notes),
        promotions=(*entry.promotions, {**_line(notes), "metrics": gone}),
    )
    return replace(content, entries={**content.entries, key: entry})


def _line(notes: _Notes) -> dict[str, Any]:
    return {"run": notes.run.get("id", ""), "started": notes.run.get("started", ""), "reason": notes.reason}


def _values(content: BaselineFile, entry: StoredEntry, cpu: tuple[str, int] | None) -> dict[str, Word]:
    """The accepted value of each metric as the judge would take it: the median, the last word, or the fault."""
    view = entry_view(content, entry, cpu=cpu)
    found: dict[str, Word] = {}
    for name, accepted in view.metrics.items() if view else ():
        numbers = [value for value in accepted.values if not isinstance(value, (str, bool))]
        if accepted.values:
            found[name] = statistics.median(numbers) if numbers else accepted.values[-1]
    return found
