"""What travels out of ``suite/``: variants with every parameter fixed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Tier = Literal["smoke", "gate", "full"]
TIERS: tuple[Tier, ...] = ("smoke", "gate", "full")
Better = Literal["lower", "higher", "equal"]
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Tolerance:
    """How much worse is too much: a share of the baseline, or an absolute amount in the metric's unit."""

    amount: float
    relative: bool

    def __str__(self) -> str:
        return f"{self.amount * 100:g}%" if self.relative else f"{self.amount:g}"


@dataclass(frozen=True)
class MetricRule:
    """What a suite says of one metric; None where it says nothing (the workload's declaration then holds).

    ``better_by`` is the gain over the baseline that the suite expects (``expect: {better_by: 5%}``).
    """

    unit: str | None = None
    better: Better | None = None
    worse_by: Tolerance | None = None
    floor: float | None = None
    min: float | None = None
    max: float | None = None
    equals: float | int | str | bool | None = None
    better_by: Tolerance | None = None


@dataclass(frozen=True)
class Waiver:
    """A narrow, dated permission to be worse: named metrics, each up to a tolerance, or named status words."""

    metrics: Mapping[str, Tolerance]
    status: tuple[str, ...]
    reason: str
    issue: str
    expires: datetime.date
    platforms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Requires:
    """For which machines a case is. ``memory`` is in bytes per device; ``capability`` is a specifier such as ``>=8.0``."""

    platform: tuple[str, ...] = ()
    memory: int | None = None
    devices: int = 1
    capability: str | None = None
    package: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """What a case's ``params_from`` function gives: the arguments of each variant, and of variants that there once were.

    ``gone`` pairs such arguments with the sentence why ("removed in torch 2.13"), told where a baseline still holds them.
    """

    params: Sequence[Mapping[str, Json]]
    gone: Sequence[tuple[Mapping[str, Json], str]] = ()


@dataclass(frozen=True)
class Variant:
    """A case with every parameter fixed: one pytest item, one baseline key.

    ``path`` is the suite file's absolute path and ``line`` the case's line in it; ``timeout`` is in seconds, None for the
    default; ``settings`` are pinned for this variant and part of its key.
    """

    key: str
    suite: str
    case: str
    path: str
    line: int
    workload: str
    params: Mapping[str, Json] = field(default_factory=dict)
    settings: Mapping[str, Json] = field(default_factory=dict)
    requires: Requires = field(default_factory=Requires)
    metrics: Mapping[str, MetricRule] = field(default_factory=dict)
    tier: Tier = "gate"
    timeout: float | None = None
    waivers: tuple[Waiver, ...] = ()
    setup: str | None = None
