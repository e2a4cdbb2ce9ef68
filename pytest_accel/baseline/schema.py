"""Baseline text to checked data and back. Nothing that comes out of here can be wrong in type or range."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

from pytest_accel.baseline.types import BaselineFile, StoredEntry, StoredMetric, StoredSession
from pytest_accel.errors import ConfigError
from pytest_accel.files import RESTORE, dumps, line_of, parse_json
from pytest_accel.places import line_at
from pytest_accel.verdict.reduce import REDUCTIONS
from pytest_accel.verdict.types import Better, Kind, Word

SCHEMA = "pytest-accel/baseline/1"
PARTS = ("hardware", "settings", "versions")
Steps = tuple[str | int, ...]  # keys and indices, from the outside in
_INLINE = 4  # from this depth on a value stands on one line: a session, a promotion, a metric's meaning
_REQUIRED = ("path", "tier", "case", "workload")
_UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|\+00:00)")
_OPTIONAL = ("work_version", "digest", "metrics", "sessions", "promotions", "known_bad", "tombstone")


def parse(text: str, path: str | Path, hardware: str, suite: str | None = None) -> BaselineFile:
    """The checked content of a baseline file. Raises ConfigError that names path, line, case and field."""
    data = parse_json(text, path)
    if not isinstance(data, Mapping):
        raise ConfigError.at(path, 1, f"is {_kind_of(data)}, not an object", RESTORE)
    _check_schema(data.get("schema"), text, path)
    doubt = _Reader(text, path)
    for name in ("hardware", "suite"):
        doubt.expect(data.get(name), str, (name,))
    if data["hardware"] != hardware:
        what = f"says it is for {data['hardware']}, and stands in the folder of {hardware}"
        raise ConfigError.at(path, line_of(text, "hardware"), what, "move it back; other hardware is measured anew")
    if suite is not None and data["suite"] != suite:
        what = f"says it is of suite `{data['suite']}`, and its name says `{suite}`"
        raise ConfigError.at(path, line_of(text, "suite"), what, "give it back its name")
    doubt.known(data, ("schema", "hardware", "suite", "stacks", "entries"), ())
    stacks = doubt.expect(data.get("stacks", {}), Mapping, ("stacks",))
    for name, stack in stacks.items():
        doubt.expect(stack, Mapping, ("stacks", name))
        for part in PARTS:
            doubt.expect(stack.get(part, {}), Mapping, ("stacks", name, part))
    entries = doubt.expect(data.get("entries", {}), Mapping, ("entries",))
    return BaselineFile(
        hardware=data["hardware"],
        suite=data["suite"],
        stacks={name: {part: dict(stack.get(part, {})) for part in PARTS} for name, stack in stacks.items()},
        entries={key: doubt.entry(key, entry, stacks) for key, entry in entries.items()},
    )


def to_text(content: BaselineFile) -> str:
    """The file's text: sorted keys, one entry a block, one session a line, a newline at the end.

    Only stacks that a session names are kept. Raises ValueError for a non-finite number.
    """
    used = {session.stack for entry in content.entries.values() for session in entry.sessions}
    data = {
        "schema": SCHEMA,
        "hardware": content.hardware,
        "suite": content.suite,
        "stacks": {name: stack for name, stack in content.stacks.items() if name in used},
        "entries": {key: _entry_data(entry) for key, entry in content.entries.items()},
    }
    return _pretty(data, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    if depth >= _INLINE or not isinstance(value, (dict, list)) or not value:
        return dumps(value)
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, list):
        lines = [f"{inner}{_pretty(item, depth + 1)}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{outer}]"
    lines = [f"{inner}{dumps(key)}: {_pretty(item, depth + 1)}" for key, item in sorted(value.items())]
    return "{\n" + ",\n".join(lines) + f"\n{outer}}}"


def _entry_data(entry: StoredEntry) -> dict[str, Any]:
    data: dict[str, Any] = {
        "path": entry.path,
        "tier": entry.tier,
        "case": entry.case,
        "workload": entry.workload,
        "work_version": entry.work_version,
        "digest": entry.digest,
        "metrics": {name: _metric_data(metric) for name, metric in entry.metrics.items()},
        "sessions": [_session_data(session) for session in in_order(entry.sessions)],
    }
    if entry.promotions:
        data["promotions"] = [dict(promotion) for promotion in entry.promotions]
    if entry.known_bad:
        data["known_bad"] = dict(entry.known_bad)
    if entry.tombstone is not None:
        data["tombstone"] = dict(entry.tombstone)
    return data


def _metric_data(metric: StoredMetric) -> dict[str, Any]:
    data: dict[str, Any] = {"unit": metric.unit, "better": metric.better, "kind": metric.kind}
    more: dict[str, Any] = {"words": True} if metric.words else {}
    return {**data, **more, **({"reduced": metric.reduced} if metric.reduced else {})}


def _session_data(session: StoredSession) -> dict[str, Any]:
    cpu = {"model": session.cpu[0], "cores": session.cpu[1]} if session.cpu else None
    return {
        "run": session.run,
        "started": session.started,
        "machine": session.machine,
        "device": session.device,
        "stack": session.stack,
        "cpu": cpu,
        "metrics": dict(session.metrics),
    }


def in_order(sessions: Iterable[StoredSession]) -> list[StoredSession]:
    """Sessions, oldest first; the same order whoever stored them."""
    return sorted(sessions, key=lambda s: (s.started, *s.source, s.stack, dumps(dict(s.metrics))))


def wrong_value(metric: StoredMetric, value: object) -> str | None:
    """What is wrong with a value that is to be stored or was read, as a phrase after "is"; None where it is sound."""
    if isinstance(value, str):
        return None if metric.words else f"text ({value!r:.40}) where a number is expected"
    if isinstance(value, bool):  # a workload's truth values are stored as 1 and 0
        return f"{str(value).lower()}, not a number"
    if not isinstance(value, (int, float)):
        return f"{_kind_of(value)}, not a number"
    if metric.words:
        return f"a number ({value:g}) where a word is expected"
    if not abs(value) < float("inf"):
        return f"{value}, which is not finite"
    if metric.kind == "timing" and value <= 0:
        return f"{value:g}: no time and no rate is zero or negative"
    if metric.kind == "memory" and value < 0:
        return f"{value:g}: no memory is negative"
    return None


def is_utc_time(text: str) -> bool:
    """True for a moment in UTC as ISO 8601 writes it: sessions are sorted by this text, so other offsets are refused."""
    if not _UTC_TIME.fullmatch(text):
        return False
    try:
        datetime.datetime.fromisoformat(text.removesuffix("Z").removesuffix("+00:00"))
    except ValueError:
        return False
    return True


def _check_schema(schema: object, text: str, path: str | Path) -> None:
    if schema == SCHEMA:
        return
    line = line_of(text, "schema")
    if schema is None:
        raise ConfigError.at(path, 1, f"has no `schema`; a baseline file says `{SCHEMA}`", RESTORE)
    found = re.fullmatch(r"pytest-accel/baseline/(\d{1,9})", schema) if isinstance(schema, str) else None
    if found and int(found[1]) > 1:
        what = f"is of schema {schema}, newer than this version reads ({SCHEMA})"
        raise ConfigError.at(path, line, what, "upgrade pytest-accel")
    what = f"is of schema {schema!r:.60}, which this version does not read (it reads {SCHEMA})"
    raise ConfigError.at(path, line, what, "delete the file and record again")


def _kind_of(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


class _Reader:
    """Checks parts of one file; every complaint names the case, the field, and the line where the field stands."""

    def __init__(self, text: str, path: str | Path) -> None:
        self.text, self.path = text, path

    def fail(self, at: Steps, what: str) -> NoReturn:
        """Complain of the value at ``at``, whose keys and indices lead to it from the outside in."""
        field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        raise ConfigError.at(self.path, line_at(self.text, at), f"`{field}` {what}", RESTORE)

    def expect(self, value: Any, kind: type, at: Steps) -> Any:
        """The value, where it is of this kind."""
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = {str: "text", int: "a whole number", list: "a list"}.get(kind, "an object")
            self.fail(at, f"is {_kind_of(value)}, and must be {wanted}")
        return value

    def known(self, data: Mapping[str, Any], keys: tuple[str, ...], at: Steps) -> None:
        """Refuse a field of another name."""
        for key in data:
            if key not in keys:
                self.fail((*at, key), f"is no field that a baseline has ({', '.join(keys)})")

    def entry(self, key: str, data: Any, stacks: Mapping[str, Any]) -> StoredEntry:
        at: Steps = ("entries", key)
        self.expect(data, Mapping, at)
        self.known(data, (*_REQUIRED, *_OPTIONAL), at)
        for name in _REQUIRED:
            self.expect(data.get(name), str, (*at, name))
        metrics = self.expect(data.get("metrics", {}), Mapping, (*at, "metrics"))
        meanings = {name: self.metric((*at, "metrics", name), item) for name, item in metrics.items()}
        sessions = self.expect(data.get("sessions", []), list, (*at, "sessions"))
        faults = self.expect(data.get("known_bad", {}), Mapping, (*at, "known_bad"))
        for name, fault in faults.items():
            self.expect(fault, str, (*at, "known_bad", name))
        tombstone = data.get("tombstone")
        if tombstone is not None:
            self.expect(tombstone, Mapping, (*at, "tombstone"))
        if not sessions and not faults and tombstone is None:
            self.fail((*at, "sessions"), "is empty: an entry holds at least one accepted session")
        promotions = self.expect(data.get("promotions", []), list, (*at, "promotions"))
        for index, promotion in enumerate(promotions):
            self.expect(promotion, Mapping, (*at, "promotions", index))
        return StoredEntry(
            path=data["path"],
            tier=data["tier"],
            case=data["case"],
            workload=data["workload"],
            work_version=self.expect(data.get("work_version", 1), int, (*at, "work_version")),
            digest=self.expect(data.get("digest", ""), str, (*at, "digest")),
            metrics=meanings,
            sessions=tuple(
                in_order(
                    self.session((*at, "sessions", index), item, meanings, stacks)
                    for index, item in enumerate(sessions)
                )
            ),
            promotions=tuple(promotions),
            known_bad=dict(faults),
            tombstone=tombstone,
        )

    def metric(self, at: Steps, data: Any) -> StoredMetric:
        self.expect(data, Mapping, at)
        self.known(data, ("unit", "better", "kind", "words", "reduced"), at)
        for name, words in (("better", get_args(Better)), ("kind", get_args(Kind)), ("reduced", REDUCTIONS[1:])):
            if name in data and data[name] not in words:
                self.fail((*at, name), f"is {data[name]!r:.40}, and must be one of {', '.join(words)}")
        unit = self.expect(data.get("unit", ""), str, (*at, "unit"))
        return StoredMetric(
            unit,
            data.get("better", "equal"),
            data.get("kind", "exact"),
            data.get("words") is True,
            data.get("reduced", ""),
        )

    def session(
        self, at: Steps, data: Any, metrics: Mapping[str, StoredMetric], stacks: Mapping[str, Any]
    ) -> StoredSession:
        self.expect(data, Mapping, at)
        self.known(data, ("run", "started", "machine", "device", "stack", "cpu", "metrics"), at)
        for name in ("run", "started", "machine", "device", "stack"):
            self.expect(data.get(name), str, (*at, name))
        if not is_utc_time(data["started"]):
            what = f"is {data['started']!r:.40}, and must be a time in UTC such as 2026-01-31T12:00:00+00:00"
            self.fail((*at, "started"), what)
        if data["stack"] not in stacks:
            self.fail((*at, "stack"), f"names the stack {data['stack']}, which the file does not hold")
        cpu = data.get("cpu")
        if cpu is not None:
            self.expect(cpu, Mapping, (*at, "cpu"))
            self.expect(cpu.get("model"), str, (*at, "cpu", "model"))
            self.expect(cpu.get("cores"), int, (*at, "cpu", "cores"))
        values: dict[str, Word] = self.expect(data.get("metrics"), Mapping, (*at, "metrics"))
        for name, value in values.items():
            if name not in metrics:
                self.fail((*at, "metrics", name), "has no line in the entry's `metrics`")
            wrong = wrong_value(metrics[name], value)
            if wrong:
                self.fail((*at, "metrics", name), f"is {wrong}")
        return StoredSession(
            run=data["run"],
            started=data["started"],
            machine=data["machine"],
            device=data["device"],
            stack=data["stack"],
            metrics=dict(values),
            cpu=(cpu["model"], cpu["cores"]) if cpu else None,
        )
