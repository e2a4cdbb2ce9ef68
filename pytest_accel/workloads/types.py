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

    Of a timing, as shares ("1.5%"): ``effect`` is how much worse counts where the baseline holds enough sessions to tell
    chance from change (``worse_by`` where absent, and where a suite says ``worse_by``); ``between_devices`` is how far two
    healthy devices of one model differ.
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
    effect: str | float | None = None
    between_devices: str | float | None = None


@dataclass(frozen=True)
class Workload:
    """A built-in workload: ``function`` is ``module:function``; ``version`` rises when what it measures changes.

    ``timed`` says that it measures time, so that it needs the device to itself; ``tells_fallback`` that it says by itself,
    as a metric, which work fell back to the host (elsewhere such work is an error); ``lanes`` that several of its variants
    may be measured on one device at once, each in a process of its own: they need little memory and measure no time.
    ``inputs`` names the metric that tells which inputs were measured: where it is not the baseline's word, numbers cannot be
    compared with the baseline's and are judged by their limits alone.
    """

    name: str
    function: str
    metrics: Mapping[str, MetricSpec] = field(default_factory=dict)
    version: int = 1
    timed: bool = False
    tells_fallback: bool = False
    lanes: bool = False
    inputs: str = ""


@dataclass(frozen=True)
class Declaration:
    """What the ``pytest_accel.workload`` decorator puts on a user's function."""

    version: int = 1
    metrics: Mapping[str, MetricSpec] = field(default_factory=dict)

    def as_json(self) -> dict[str, dict[str, Any]]:
        """The metrics as plain data, for the way from the measuring process to the judge."""
        return {name: dict(vars(spec)) for name, spec in self.metrics.items()}
