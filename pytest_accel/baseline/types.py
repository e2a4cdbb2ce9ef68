"""What a baseline file holds, and what a run offers for recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_accel.verdict.types import Better, Kind, Word

Cpu = tuple[str, int]  # model and core count: timings on the host's own CPU compare only within one such pair
Mode = Literal["new", "add"]


@dataclass(frozen=True)
class StoredMetric:
    """What a metric of an entry is; ``words`` says that its values are words; ``reduced`` how the samples of a session became
    its value (``verdict.reduce``; "" is their median, and stands for a value that had no samples)."""

    unit: str = ""
    better: Better = "equal"
    kind: Kind = "exact"
    words: bool = False
    reduced: str = ""


@dataclass(frozen=True)
class StoredSession:
    """One accepted session: where and when it was measured, the hash of its stack, one value by metric.

    ``machine`` and ``device`` are hashes; ``started`` is the run's start as ISO text in UTC: sessions sort by it.
    """

    run: str
    started: str
    machine: str
    device: str
    stack: str
    metrics: Mapping[str, Word]
    cpu: Cpu | None = None

    @property
    def source(self) -> tuple[str, str, str]:
        """Run, machine and device: what one run measured on one device is stored once."""
        return self.run, self.machine, self.device


@dataclass(frozen=True)
class StoredEntry:
    """What was accepted of one variant on one hardware.

    ``path`` is its suite file, POSIX, relative to the folder that holds the baselines; ``known_bad`` maps a metric (or
    ``verdict.types.OUTCOME``) to the word of its accepted fault; ``promotions`` is the history of replaced values;
    ``tombstone`` says that the entry was retired, when and why.
    """

    path: str
    tier: str
    case: str
    workload: str
    work_version: int = 1
    digest: str = ""
    metrics: Mapping[str, StoredMetric] = field(default_factory=dict)
    sessions: tuple[StoredSession, ...] = ()
    promotions: tuple[Mapping[str, Any], ...] = ()
    known_bad: Mapping[str, str] = field(default_factory=dict)
    tombstone: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class BaselineFile:
    """One file: the entries of one suite on one hardware, and the stacks (by content hash) that their sessions name.

    A stack is ``{"hardware": {}, "settings": {}, "versions": {}}``.
    """

    hardware: str
    suite: str
    stacks: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    entries: Mapping[str, StoredEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class Recordable:
    """One variant's result as recording and promotion take it.

    ``metrics``: the judged metrics (``verdict``, ``code``, ``value`` …) by name; ``rules``: ``unit``, ``better`` and
    ``kind`` by name; ``sessions``: each with ``metrics`` (one number or word each), ``work_version``, ``digest``,
    ``stack`` (hardware, settings, versions), ``machine``, ``device``, ``run``, ``started``, ``cpu`` ([model, cores] or
    None).
    """

    key: str
    suite: str
    case: str
    path: str
    tier: str
    workload: str
    verdict: str
    code: str = ""
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sessions: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class RecordSummary:
    """What recording did: keys of new entries, (key, metric) newly stored, keys with one session more; who was left
    out, with why; and whose session ``add`` did not append though the entry is sound, with why."""

    new_entries: tuple[str, ...] = ()
    new_metrics: tuple[tuple[str, str], ...] = ()
    more_sessions: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_added: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class PromoteSummary:
    """What promotion did: (key, metric, old, new) of each changed value, the keys taken, taken as known faults,
    retired, refused (with why), and found unchanged."""

    changes: tuple[tuple[str, str, Word | None, Word | None], ...] = ()
    promoted: tuple[str, ...] = ()
    known_bad: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
