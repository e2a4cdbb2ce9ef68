"""Which accepted sessions may be compared here, and where else a device or a machine is known."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_accel.baseline.schema import parse
from pytest_accel.baseline.store import files_in, hardware_in
from pytest_accel.baseline.types import BaselineFile, Cpu, StoredEntry, StoredSession
from pytest_accel.files import read_text
from pytest_accel.verdict.family import Family, family_of, series
from pytest_accel.verdict.types import Accepted, Entry, Kind, Word


def newest_comparable(entry: StoredEntry, cpu: Cpu | None) -> StoredSession | None:
    """The newest session of this CPU (of any, where there is none, or where the accelerator measures)."""
    same = [session for session in entry.sessions if cpu is None or session.cpu == cpu]
    return (same or list(entry.sessions))[-1] if entry.sessions else None


def entry_view(
    content: BaselineFile,
    entry: StoredEntry,
    *,
    kinds: Mapping[str, Kind] | None = None,
    cpu: Cpu | None = None,
    family: Family | None = None,
) -> Entry | None:
    """The entry as the judge sees it; None where it was retired or holds nothing.

    ``kinds``: the kind of each metric as the rules have it now (else as stored). ``cpu``: model and cores where the
    host's own CPU measures: its timings compare only with sessions of the same. Timings and memory compare only with
    sessions of the newest one's settings. ``family``: ``timing_family`` of the file, where timings are judged. A metric
    without a session to compare has no values, so that it is NEW when measured, MISSING when not.
    """
    if entry.tombstone is not None or not (entry.sessions or entry.known_bad):
        return None
    newest = newest_comparable(entry, cpu)
    settings = content.stacks[newest.stack]["settings"] if newest else {}
    metrics: dict[str, Accepted] = {}
    for name, stored in entry.metrics.items():
        kind = (kinds or {}).get(name, stored.kind)
        if kind == "info":
            continue
        values: list[Word] = []
        devices: list[str] = []
        for session in entry.sessions:
            same_cpu = kind != "timing" or cpu is None or session.cpu == cpu
            bound = kind in ("timing", "memory")
            same_settings = not bound or content.stacks[session.stack]["settings"] == settings
            if name in session.metrics and same_cpu and same_settings:
                values.append(session.metrics[name])
                devices.append(session.device)
        metrics[name] = Accepted(tuple(values), tuple(devices), stored.reduced)
    for name, fault in entry.known_bad.items():
        if name not in metrics or not metrics[name].values:
            metrics[name] = Accepted((fault,))
    return Entry(
        metrics=metrics,
        work_version=entry.work_version,
        digest=entry.digest,
        settings=dict(settings),
        known_bad=frozenset(entry.known_bad),
        family=family or Family(),
    )


def timing_family(content: BaselineFile, cpu: Cpu | None = None) -> Family:
    """What all timings of a file that may be compared here share: their number, how sessions and devices spread."""
    timings = []
    for entry in content.entries.values():
        names = [name for name, metric in entry.metrics.items() if metric.kind == "timing"]
        view = entry_view(content, entry, cpu=cpu) if names else None
        for name in names if view else ():
            accepted = view.metrics[name] if view else Accepted(())
            values = [float(value) for value in accepted.values if not isinstance(value, str)]
            if values and name not in entry.known_bad:
                timings.append(series(values, accepted.devices))
    return family_of(timings)


def nearest(root: Path, hardware: str, count: int = 3) -> list[str]:
    """Hardware folders whose names are like this one, most like first, for "no baseline for X; nearest Y"."""
    return difflib.get_close_matches(hardware, [name for name in hardware_in(root) if name != hardware], count, 0.5)


def find_device(root: Path, device: str) -> list[str]:
    """The hardware folders in which a session of this device (hashed) stands. Raises ConfigError for a broken file."""
    return sorted(_where(root, device, lambda session: session.device == device)) if device else []


def find_machine(root: Path, machine: str) -> dict[str, str]:
    """The hardware folders in which a session of this machine (hashed) stands, each with its platform's name.

    The platform is what the session's stack says of its hardware, "cpu" for a ``cpu-…`` folder, else "".
    """
    return _where(root, machine, lambda session: session.machine == machine) if machine else {}


def _where(root: Path, mark: str, is_it: Callable[[StoredSession], bool]) -> dict[str, str]:
    found: dict[str, str] = {}
    for hardware in hardware_in(root):
        for path in files_in(root, hardware):
            text = read_text(path)
            if mark not in text:
                continue
            content = parse(text, path, hardware)
            sessions = [session for entry in content.entries.values() for session in entry.sessions]
            for session in filter(is_it, sessions):
                said = content.stacks[session.stack]["hardware"].get("platform", "")
                found[hardware] = "cpu" if hardware.startswith("cpu-") else str(said)
                break
    return found
