"""What travels between the pytest process and its measuring processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Metric = float | int | str | Sequence[float]

Outcome = Literal[
    "measured",  # metrics are there
    "skipped",  # the workload itself said that it cannot be measured here (UNMEASURED)
    "unfit",  # the machine was unfit while it ran (ENV); code says how
    "noisy",  # the workload itself said that it saw too little to judge (INCONCLUSIVE)
    "error",  # the workload raised
    "import-failed",  # the workload, or its set-up, cannot be imported
    "config",  # the workload refuses its arguments, or returns no metrics
    "crash",  # the process died
    "timeout",  # the time limit passed
    "device-lost",  # the device answers no more
    "device-stuck",  # a process does not die after SIGKILL
]


@dataclass(frozen=True)
class Request:
    """One variant to measure, as it is sent to a measuring process. ``timeout`` in seconds."""

    key: str
    workload: str
    params: Mapping[str, Any]
    settings: Mapping[str, Any]
    timeout: float
    setup: str | None = None


@dataclass(frozen=True)
class Measurement:
    """One session of one variant.

    ``metrics`` holds numbers, words, or the samples of the session; ``declared`` what a user's decorated workload says of
    its metrics; ``notes`` free facts for reports (a reproducer, a series, the worst sample); ``stack`` the stack as in
    force when measured (``hardware``, ``settings``, ``versions``); ``retried`` that a first try failed.
    """

    outcome: Outcome
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    code: str = ""
    reason: str = ""
    detail: str = ""
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    stack: Mapping[str, Any] = field(default_factory=dict)
    work_version: int = 1
    digest: str = ""
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    retried: str = ""
    pid: int = 0
