"""What is reported: one record a variant, one a run. Plain data, so that it crosses processes as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OTHER_DEVICE = (
    "another physical device"  # the note `baseline_device` of a variant whose timings have no session of this one
)


@dataclass(frozen=True)
class CaseResult:
    """One variant's line in the results file, with what recording needs beside it.

    ``sessions`` holds the measured sessions (metrics reduced to one number or word each, work version, digest, stack) that
    recording may store; ``rules`` unit, direction and kind by metric; ``baselines`` the folder of its entry; ``known_bad``
    that its fault was accepted.
    """

    key: str
    nodeid: str
    suite: str
    case: str
    params: Mapping[str, Any]
    tier: str
    path: str
    verdict: str
    code: str = ""
    reason: str = ""
    seconds: float = 0.0
    worker: str = ""
    device: str = ""
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measured: bool = False
    judged: bool = False
    known_bad: bool = False
    workload: str = ""
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sessions: Sequence[Mapping[str, Any]] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    baselines: str = ""
