"""How a workload declares itself: its function, its version, and what each of its metrics means. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["timing", "memory", "exact", "info"]


@dataclass(frozen=True)
class MetricSpec:
    """What a workload says of one of its metrics; a suite may override every part but ``kind`` and ``order``.

    ``worse_by`` is "3%" or an absolute number in ``unit``; ``source`` says where the tolerance or the limit comes from.
    ``kind`` "info" is stored and shown, never judged.
    """

    unit: str = ""
    better: Literal["lower", "higher", "equal"] = "lower"
    kind: Kind = "exact"
    worse_by: str | float = 0.0
    floor: float = 0.0
    min: float | None = None
    max: float | None = None
    equals: float | int | str | bool | None = None
    order: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Workload:
    """A built-in workload: ``function`` is ``module:function``; ``version`` rises when what it measures changes.

    ``timed`` says that it measures time, so that it needs the device to itself.
    """

    name: str
    function: str
    metrics: Mapping[str, MetricSpec] = field(default_factory=dict)
    version: int = 1
    timed: bool = False


@dataclass(frozen=True)
class Declaration:
    """What the ``pytest_accel.workload`` decorator puts on a user's function."""

    version: int = 1
    metrics: Mapping[str, MetricSpec] = field(default_factory=dict)

    def as_json(self) -> dict[str, dict[str, Any]]:
        """The metrics as plain data, for the way from the measuring process to the judge."""
        return {name: dict(vars(spec)) for name, spec in self.metrics.items()}
