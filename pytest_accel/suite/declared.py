"""A loaded suite before it is expanded: cases as layers that are laid over one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from pytest_accel.suite.types import Json, MetricRule, Tier, Waiver

Value = TypeVar("Value")


@dataclass(frozen=True)
class Layer:
    """What one place of a suite says of a case: its defaults, the case itself, or its part for one platform.

    None, or a name that is absent, says nothing. ``requires`` holds the fields of ``Requires`` that are said; ``timeout``
    is in seconds; ``params_from`` is ``package.module:function``, which gives the arguments of each variant.
    """

    workload: str | None = None
    params_from: str | None = None
    params: Mapping[str, Json] = field(default_factory=dict)
    matrix: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    settings: Mapping[str, Json] = field(default_factory=dict)
    requires: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, MetricRule] = field(default_factory=dict)
    tier: Tier | None = None
    timeout: float | None = None
    waivers: tuple[Waiver, ...] | None = None


@dataclass(frozen=True)
class Case:
    """A case of a suite: its line in the file, and its layers in the order in which they are laid over one another."""

    name: str
    line: int
    layers: tuple[Layer, ...]
    platforms: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)

    def on(self, platform: str) -> Layer:
        """All that holds for this case on ``platform``."""
        merged = Layer()
        for layer in (*self.layers, *self.platforms.get(platform, ())):
            merged = _over(merged, layer)
        return merged


@dataclass(frozen=True)
class Suite:
    """A suite file as declared. ``path`` is absolute; ``setup`` is ``package.module:function`` or None."""

    name: str
    path: str
    setup: str | None
    cases: tuple[Case, ...]


def _over(under: Layer, layer: Layer) -> Layer:
    """``layer`` laid over ``under``, name by name; a param takes the place of an axis of its name, and the other way round."""
    return Layer(
        workload=_said(layer.workload, under.workload),
        params_from=_said(layer.params_from, under.params_from),
        params={**_without(under.params, layer.matrix), **layer.params},
        matrix={**_without(under.matrix, layer.params), **layer.matrix},
        settings={**under.settings, **layer.settings},
        requires={**under.requires, **layer.requires},
        metrics=_metrics(under.metrics, layer.metrics),
        tier=_said(layer.tier, under.tier),
        timeout=_said(layer.timeout, under.timeout),
        waivers=_said(layer.waivers, under.waivers),
    )


def _said(over: Value | None, under: Value | None) -> Value | None:
    return under if over is None else over


def _without(values: Mapping[str, Value], names: Mapping[str, Any]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name not in names}


def _metrics(under: Mapping[str, MetricRule], over: Mapping[str, MetricRule]) -> Mapping[str, MetricRule]:
    if not under or not over:
        return under or over
    merged = dict(under)
    for name, rule in over.items():
        below = merged.get(name, MetricRule())
        merged[name] = MetricRule(
            **{f.name: _said(getattr(rule, f.name), getattr(below, f.name)) for f in fields(MetricRule)}
        )
    return merged
