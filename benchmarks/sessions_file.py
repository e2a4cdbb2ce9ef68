"""Recorded sessions: the files that ``record_sessions.py`` writes and ``detection_power.py`` replays.

A file is JSON: ``about`` (text), optionally ``resolution_us`` (what the clock can tell apart, in one sample) and ``workloads``
(the workload whose tolerances each case has), and ``sessions``: a list of ``{"gpu", "order", "mode", "cases"}`` with
``cases`` a map of name to ``{"device_us": [...], "host_sync_us": [...]}``, the raw samples of one process in microseconds.
``mode`` is ``base`` (unchanged work), ``slowP`` (about P % more work) or ``hog`` (another process on the device).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EVENT_RESOLUTION_US = 0.5  # of events, as CUDA's documentation of cudaEventElapsedTime has it; one event pair a sample
BY_NAME = {
    "gemm": "gemm",
    "gemv": "gemm",
    "sdpa": "attention",
    "attention": "attention",
    "rmsnorm": "rms_norm",
    "copy": "copy",
    "h2d": "copy",
}


@dataclass(frozen=True)
class Session:
    """One process on one device: samples in microseconds by case, on the device's clock and on the host's."""

    gpu: str
    order: int
    mode: str
    device: Mapping[str, tuple[float, ...]]
    host: Mapping[str, tuple[float, ...]]

    @property
    def name(self) -> str:
        """The session's name in reports."""
        return f"{self.gpu[:8]}/{self.mode}/{self.order}"


@dataclass(frozen=True)
class Recording:
    """The sessions of one or several files, with what the files say of their clock and workloads."""

    sessions: tuple[Session, ...]
    resolution_us: float = EVENT_RESOLUTION_US
    workloads: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> list[str]:
        """The devices, in the order of their names."""
        return sorted({session.gpu for session in self.sessions})

    @property
    def cases(self) -> list[str]:
        """The cases that every session has, in the first one's order."""
        common = set.intersection(*(set(session.device) for session in self.sessions))
        return [name for name in self.sessions[0].device if name in common]

    def of(self, gpu: str, mode: str) -> list[Session]:
        """The sessions of a mode on one device, in the order in which they were recorded."""
        return sorted((s for s in self.sessions if s.gpu == gpu and s.mode == mode), key=lambda s: s.order)

    def slow_modes(self) -> dict[str, float]:
        """The modes with more work, each with its share of more work."""
        names = sorted({s.mode for s in self.sessions if s.mode.startswith("slow")})
        return {name: float(name.removeprefix("slow")) / 100 for name in names}

    def workload_of(self, case: str) -> str:
        """The built-in workload whose tolerances a case has; "" where it is none."""
        return self.workloads.get(case) or BY_NAME.get(case.partition("_")[0], "")

    def growth(self, case: str, mode: str) -> float:
        """By what share a case's time grew with more work: medians of sessions' medians, the mean over the devices."""
        shares = []
        for gpu in self.gpus:
            slow, base = ([statistics.median(s.device[case]) for s in self.of(gpu, which)] for which in (mode, "base"))
            if slow and base:
                shares.append(statistics.median(slow) / statistics.median(base) - 1)
        return statistics.mean(shares) if shares else 0.0

    def straying(self, case: str) -> float:
        """Half the range of unchanged sessions of one device, as a share: the most of any device."""
        most = 0.0
        for gpu in self.gpus:
            base = [statistics.median(s.device[case]) for s in self.of(gpu, "base")]
            most = max(most, (max(base) / min(base) - 1) / 2 if base else 0.0)
        return most

    def grown(self, mode: str) -> list[str]:
        """The cases whose time did grow: by at least half of what was asked, and by more than the clock's resolution and than
        unchanged sessions of one device stray from their middle (launches: nothing grows, and a lucky draw may look like it).
        """
        asked = self.slow_modes()[mode]
        found = []
        for case in self.cases:
            share = self.growth(case, mode)
            base = statistics.median(statistics.median(s.device[case]) for s in self.sessions if s.mode == "base")
            if share >= max(asked / 2, self.straying(case)) and share * base > self.resolution_us:
                found.append(case)
        return found


def read(paths: Sequence[Path]) -> Recording:
    """The sessions of all files. Raises SystemExit with a sentence for a file that is none of these."""
    sessions: list[Session] = []
    workloads: dict[str, str] = {}
    resolution = 0.0
    for path in paths:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            for item in data["sessions"]:
                sessions.append(_session(item))
            workloads |= data.get("workloads", {})
            resolution = max(resolution, float(data.get("resolution_us", EVENT_RESOLUTION_US)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path}: not a file of recorded sessions ({error!r}); see record_sessions.py") from error
    if not any(session.mode == "base" for session in sessions):
        raise SystemExit("no session of mode `base` in these files: nothing can be replayed")
    return Recording(tuple(sessions), resolution, workloads)


def _session(item: Mapping[str, object]) -> Session:
    cases = item["cases"]
    assert isinstance(cases, dict)
    return Session(
        gpu=str(item["gpu"]),
        order=int(str(item["order"])),
        mode=str(item["mode"]),
        device={name: tuple(map(float, case["device_us"])) for name, case in cases.items()},
        host={name: tuple(map(float, case.get("host_sync_us", ()))) for name, case in cases.items()},
    )
