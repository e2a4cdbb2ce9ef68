"""Two results files or baselines folders held against each other: what differs in the stack, then variant by variant.

The judge is the gate's own. Where the two were measured on unlike platforms, settings are not held against each other:
the comparison is the point.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_accel.baseline.match import entry_view
from pytest_accel.baseline.results import read_results, recordables
from pytest_accel.baseline.store import files_in, hardware_in, load_path
from pytest_accel.baseline.types import BaselineFile, Recordable, StoredEntry, StoredMetric, StoredSession
from pytest_accel.errors import ConfigError
from pytest_accel.report.json_report import changed
from pytest_accel.verdict.judge import judge
from pytest_accel.verdict.rules import rule_for
from pytest_accel.verdict.summary import exit_code
from pytest_accel.verdict.types import Judgement, Observation, Rule, Verdict, Word


@dataclass(frozen=True)
class Measured:
    """One variant of one side: its sessions' values, and how each metric is judged."""

    key: str
    suite: str
    case: str
    workload: str
    sessions: tuple[Mapping[str, Word], ...]
    settings: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Any]]
    work_version: int = 1
    digest: str = ""
    verdict: str = ""
    code: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Side:
    """What one argument of ``compare`` holds."""

    path: str
    platform: str
    stack: Mapping[str, Mapping[str, Any]]
    variants: Mapping[str, Measured]


@dataclass(frozen=True)
class Compared:
    """One variant on both sides, judged."""

    key: str
    suite: str
    case: str
    judgement: Judgement


@dataclass(frozen=True)
class Comparison:
    """The whole: the stack's differences, each variant's verdict in the order of keys, and the exit code."""

    old: Side
    new: Side
    changed: Mapping[str, list[Any]]
    variants: tuple[Compared, ...]
    exit_code: int = 0
    warnings: tuple[str, ...] = field(default_factory=tuple)


def compare(old: Path, new: Path) -> Comparison:
    """Judge ``new`` against ``old``.

    Raises ConfigError where one of them cannot be read, or is neither a results file nor a baselines folder.
    """
    before, after = load(old), load(new)
    same_platform = before.platform == after.platform
    today = datetime.datetime.now(datetime.timezone.utc).date()
    found = [
        _one(key, before.variants.get(key), after.variants.get(key), same_platform, today)
        for key in sorted(set(before.variants) | set(after.variants))
    ]
    code = exit_code([(each.judgement.verdict, False) for each in found], asked=len(found))
    warnings = []
    if not same_platform:
        warnings.append(f"{before.platform} against {after.platform}: settings are not held against each other")
    return Comparison(before, after, changed(before.stack, after.stack), tuple(found), code, warnings=tuple(warnings))


def load(path: Path) -> Side:
    """One side. Raises ConfigError."""
    if path.is_dir():
        return _folder(path)
    data = read_results(path)
    stack = data.get("stack") or {}
    verdicts = {case["key"]: case for case in data["cases"] if isinstance(case, dict) and "key" in case}
    variants = {each.key: _measured(each, verdicts[each.key]) for each in recordables(data, path)}
    parts = {part: dict(stack.get(part) or {}) for part in ("hardware", "settings", "versions")}
    return Side(str(path), str(stack.get("platform") or "?"), parts, variants)


def _measured(found: Recordable, case: Mapping[str, Any]) -> Measured:
    last: Mapping[str, Any] = found.sessions[-1] if found.sessions else {}
    return Measured(
        key=found.key,
        suite=found.suite,
        case=found.case,
        workload=found.workload,
        sessions=tuple(session["metrics"] for session in found.sessions),
        settings=(last.get("stack") or {}).get("settings") or {},
        rules=found.rules,
        work_version=int(last.get("work_version", 1)),
        digest=str(last.get("digest", "")),
        verdict=found.verdict,
        code=found.code,
        reason=str(case.get("reason") or ""),
    )


def _folder(path: Path) -> Side:
    """A baselines folder, or the folder of one hardware in it."""
    hardware = hardware_in(path)
    root, name = path, ""
    if not hardware and files_in(path.parent, path.name):
        root, name = path.parent, path.name
    elif len(hardware) == 1:
        name = hardware[0]
    elif hardware:
        raise ConfigError.at(path, None, f"holds several hardware folders ({', '.join(hardware)})", "name one of them")
    if not name:
        raise ConfigError.at(path, None, "holds no baseline files", "name a baselines folder or a results file")
    variants: dict[str, Measured] = {}
    stack: Mapping[str, Any] = {}
    newest = ""
    for file in files_in(root, name):
        content = load_path(file)
        for key, entry in content.entries.items():
            if entry.tombstone is not None or not entry.sessions:
                continue
            variants[key] = _stored(key, entry, content)
            if entry.sessions[-1].started >= newest:
                newest, stack = entry.sessions[-1].started, content.stacks[entry.sessions[-1].stack]
    platform = "cpu" if name.startswith("cpu-") else str((stack.get("hardware") or {}).get("platform") or name)
    return Side(
        str(path), platform, {part: stack.get(part) or {} for part in ("hardware", "settings", "versions")}, variants
    )


def _stored(key: str, entry: StoredEntry, content: BaselineFile) -> Measured:
    last = entry.sessions[-1]
    return Measured(
        key=key,
        suite=content.suite,
        case=entry.case,
        workload=entry.workload,
        sessions=tuple(session.metrics for session in entry.sessions),
        settings=content.stacks[last.stack]["settings"],
        rules={name: {"unit": m.unit, "better": m.better, "kind": m.kind} for name, m in entry.metrics.items()},
        work_version=entry.work_version,
        digest=entry.digest,
    )


def _one(key: str, old: Measured | None, new: Measured | None, same_platform: bool, today: datetime.date) -> Compared:
    known = new or old
    assert known is not None
    if new is None:
        said = Judgement(Verdict.MISSING, "missing", "only the old side has it")
    elif old is None or not old.sessions:
        said = Judgement(Verdict.NEW, "new", "only the new side has it") if new.sessions else _as_it_was(new)
    elif not new.sessions:
        said = _as_it_was(new)
    else:
        said = _judged(old, new, same_platform, today)
    return Compared(key, known.suite, known.case, said)


def _as_it_was(new: Measured) -> Judgement:
    """A variant that was not measured keeps the verdict that its own run gave it."""
    verdict = Verdict(new.verdict) if new.verdict else Verdict.UNMEASURED
    if verdict in (Verdict.PASS, Verdict.IMPROVED):
        verdict = Verdict.UNMEASURED
    return Judgement(verdict, new.code or "not-measured", new.reason or "it was not measured")


def _judged(old: Measured, new: Measured, same_platform: bool, today: datetime.date) -> Judgement:
    rules = {name: _rule(name, new, value) for name, value in _metrics(new)}
    content, entry = _as_entry(old, rules)
    view = entry_view(content, entry, kinds={name: rule.kind for name, rule in rules.items()})
    if view is not None and not same_platform:
        view = replace(view, settings={})
    observations = [
        Observation(
            metrics=session,
            settings=new.settings if same_platform else {},
            work_version=new.work_version,
            digest=new.digest,
        )
        for session in new.sessions
    ]
    return judge(observations, rules, view, today=today)


def _metrics(measured: Measured) -> Iterator[tuple[str, Word]]:
    seen: set[str] = set()
    for session in measured.sessions:
        for name, value in session.items():
            if name not in seen:
                seen.add(name)
                yield name, value


def _rule(name: str, measured: Measured, value: Word) -> Rule:
    """How the metric was judged: as the results file stores it, over what its workload declares."""
    from pytest_accel.workloads.builtin import WORKLOADS

    spec = WORKLOADS[measured.workload].metrics.get(name) if measured.workload in WORKLOADS else None
    stored = dict(measured.rules.get(name) or {})
    if "worse_by" in stored:
        known = {key: value for key, value in stored.items() if key in Rule.__dataclass_fields__}
        return Rule(**{**known, "order": tuple(known.get("order", ()))})
    kind = stored.pop("kind", None)
    if spec is None:
        return rule_for(name, {"kind": kind or "exact", **stored}, None, value)
    return rule_for(name, spec, stored or None, value)


def _as_entry(old: Measured, rules: Mapping[str, Rule]) -> tuple[BaselineFile, StoredEntry]:
    names = [name for name, _ in _metrics(old)]
    metrics = {name: StoredMetric(kind=rules[name].kind) if name in rules else StoredMetric() for name in names}
    sessions = tuple(
        StoredSession(run=str(n), started=str(n), machine="", device="", stack="old", metrics=values)
        for n, values in enumerate(old.sessions)
    )
    entry = StoredEntry("", "gate", old.case, old.workload, old.work_version, old.digest, metrics, sessions)
    content = BaselineFile("", old.suite, {"old": {"settings": old.settings}}, {old.key: entry})
    return content, entry
