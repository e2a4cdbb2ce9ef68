"""How a user's own workload says what its metrics mean: the decorator ``pytest_accel.workload``. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.workloads.types import Declaration, MetricSpec

F = TypeVar("F", bound=Callable[..., Any])
ATTRIBUTE = "__accel_workload__"
_KEYS = frozenset(MetricSpec.__dataclass_fields__)


def workload(version: int = 1, metrics: Mapping[str, MetricSpec | Mapping[str, Any]] | None = None) -> Callable[[F], F]:
    """Declare a function as a workload: ``version`` rises when what it measures changes; ``metrics`` says what each
    means.

    A metric is a ``MetricSpec`` or a mapping of its fields: ``{"time": {"unit": "us", "kind": "timing", "worse_by":
    "3%"}}``. The function stays callable as it was. Raises ConfigError for an unknown field or a version that is no
    whole number >= 1.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(
            Problem(f"workload(version={version!r}): the version must be a whole number from 1", "raise it by one")
        )
    specs = {name: _spec(name, value) for name, value in (metrics or {}).items()}

    def declare(function: F) -> F:
        setattr(function, ATTRIBUTE, Declaration(version, specs))
        return function

    return declare


def declaration(function: Callable[..., Any]) -> Declaration | None:
    """What the decorator put on ``function``, or None."""
    found = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None


def _spec(name: str, value: MetricSpec | Mapping[str, Any]) -> MetricSpec:
    if isinstance(value, MetricSpec):
        return value
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise ConfigError(Problem(f"workload metric '{name}': unknown field '{unknown[0]}'", f"known fields: {known}"))
    for field, allowed in (("better", ("lower", "higher", "equal")), ("kind", ("timing", "memory", "exact", "info"))):
        if value.get(field, allowed[0]) not in allowed:
            raise ConfigError(
                Problem(f"workload metric '{name}': {field} is {value[field]!r}", f"use one of {', '.join(allowed)}")
            )
    return MetricSpec(**{**value, "order": tuple(value.get("order", ()))})
