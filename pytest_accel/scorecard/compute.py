"""From inputs to figures: each with where it comes from. No figure is filled in: what is not measured is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.report.results import Case, Results
from pytest_accel.report.results import read as read_results
from pytest_accel.scorecard.types import AREAS, Card, Constraint, Costs, line_of
from pytest_accel.suite.source import Map

HOURS = 8766.0  # a year, leap days shared out
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "default": {"performance": 30, "compatibility": 30, "cost": 25, "compliance": 15},
    "compliance-first": {"performance": 20, "compatibility": 25, "cost": 15, "compliance": 40},
}
AGREES = 0.01  # a claimed total may differ from its own formula by the rounding of a printed figure


@dataclass(frozen=True)
class Figure:
    """A number with its source in words; ``value`` None where it is not known, and ``source`` then says why."""

    value: float | None
    source: str


@dataclass(frozen=True)
class CostLine:
    """One line of the cost table: what, how it is computed, how much."""

    what: str
    formula: str
    value: float


@dataclass(frozen=True)
class Column:
    """One platform: figures, cost lines, scores by area (0 to 100, None where not known), and broken constraints."""

    name: str
    hardware: str
    figures: Mapping[str, Figure]
    costs: tuple[CostLine, ...]
    scores: Mapping[str, float | None] = field(default_factory=dict)
    total: float | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The card, computed: ``weights`` sum to 100; ``shared`` names how many timings all platforms have in common."""

    card: Card
    weights: Mapping[str, float]
    columns: tuple[Column, ...]
    reference: str
    shared: int


def score(card: Card, source: Map, path: Path) -> Scored:
    """Compute a card. Results files are relative to the card's folder. Raises ConfigError with file:line."""
    weights = _weights(card, source, path)
    results = {
        name: [read_results(_beside(path, given)) for given in platform.results]
        for name, platform in card.platforms.items()
    }
    reference = card.reference or next(iter(card.platforms))
    if reference not in card.platforms:
        known = ", ".join(card.platforms)
        line = line_of(source, "reference")
        raise ConfigError.at(
            path, line, f"reference: `{reference}` is no platform of this card", f"name one of {known}"
        )
    timings = {name: _timings(found) for name, found in results.items()}
    shared = set.intersection(*(set(each) for each in timings.values()))
    columns = []
    for name, platform in card.platforms.items():
        costs = _costs(platform.costs, card, name, source, path) if platform.costs else ()
        figures = {
            "performance": _performance(name, reference, timings, shared),
            "operators": _share(results[name], "op", "status", "supported"),
            "models": _share(results[name], "model", "status", "supported"),
            "precision": _precision(results[name]),
            "total_cost": Figure(sum(line.value for line in costs), "the cost table")
            if costs
            else Figure(None, "no `costs` given"),
            "compliance": Figure(platform.compliance, platform.compliance_source or f"{path.name}:{name}")
            if platform.compliance is not None
            else Figure(None, "no `compliance` given"),
        }
        hardware = str((results[name][0].stack.get("hardware") or {}).get("name") or "?")
        broken = tuple(filter(None, (_broken(each, figures) for each in card.constraints)))
        columns.append(Column(name, hardware, figures, costs, broken=broken))
    return Scored(card, weights, tuple(_scored(columns, weights)), reference, len(shared))


def _weights(card: Card, source: Map, path: Path) -> dict[str, float]:
    weights: dict[str, float] = dict(WEIGHTS[card.preset])
    weights.update({str(area): value for area, value in card.weights.items()})
    total = sum(weights.values())
    if not math.isclose(total, 100, abs_tol=1e-6):
        line = line_of(source, "weights")
        raise ConfigError.at(path, line, f"weights: they sum to {total:g}, not 100", f"give all of {', '.join(AREAS)}")
    return weights


def _beside(path: Path, given: str) -> Path:
    return Path(given) if Path(given).is_absolute() else path.parent / given


def _timings(found: Sequence[Results]) -> dict[str, float]:
    """Time by key, of what was measured with a verdict that counts. Keys hold every parameter: unlike work never meets."""
    times: dict[str, float] = {}
    for results in found:
        for case in results.cases:
            value = (case.metrics.get("time") or {}).get("value")
            fine = case.verdict in ("PASS", "IMPROVED", "NEW", "REGRESSION", "WAIVED")
            if fine and isinstance(value, (int, float)) and value > 0:
                times[case.key] = float(value)
    return times


def _performance(name: str, reference: str, timings: Mapping[str, Mapping[str, float]], shared: set[str]) -> Figure:
    """Geometric mean of the speed relative to the reference, over the variants that every platform measured."""
    if not shared:
        return Figure(None, "no timing that all platforms have in common")
    logs = [math.log(timings[reference][key] / timings[name][key]) for key in shared]
    return Figure(math.exp(sum(logs) / len(logs)), f"geometric mean over {len(shared)} common timings, {reference} = 1")


def _share(found: Sequence[Results], param: str, metric: str, word: str) -> Figure:
    cases = [case for results in found for case in results.cases if param in case.params and metric in case.metrics]
    if not cases:
        return Figure(None, f"no variant with `{param}` and `{metric}` in the results")
    good = sum(case.metrics[metric].get("value") == word for case in cases)
    return Figure(good / len(cases), f"{good} of {len(cases)} variants {word}")


def _precision(found: Sequence[Results]) -> Figure:
    """The share of accuracy variants within their limits."""
    cases = [case for results in found for case in results.cases if case.suite.startswith("precision")]
    judged = [case for case in cases if case.verdict in ("PASS", "IMPROVED", "NEW", "REGRESSION", "WAIVED")]
    if not judged:
        return Figure(None, "no variant of a precision suite in the results")
    good = sum(not _breaks_limit(case) for case in judged)
    return Figure(good / len(judged), f"{good} of {len(judged)} variants within their limits")


def _breaks_limit(case: Case) -> bool:
    return (
        any(metric.get("code") in ("limit", "nonfinite") for metric in case.metrics.values())
        or case.verdict == "REGRESSION"
    )


def _costs(costs: Costs, card: Card, name: str, source: Map, path: Path) -> tuple[CostLine, ...]:
    rate, years = costs.exchange_rate, card.years
    energy = costs.device_power_watts / 1000 * costs.devices * costs.load * costs.pue * HOURS * years
    lines = (
        CostLine(
            "devices",
            f"{costs.devices} x {costs.device_price:g} x rate {rate:g}",
            costs.devices * costs.device_price * rate,
        ),
        CostLine(
            "electricity",
            f"{costs.devices} x {costs.device_power_watts:g} W x load {costs.load:g} x PUE {costs.pue:g} x {HOURS:g} h x "
            f"{years:g} years x {costs.electricity_per_kwh:g} per kWh x rate {rate:g}",
            energy * costs.electricity_per_kwh * rate,
        ),
        CostLine(
            "people",
            f"{costs.people_months:g} months x {costs.person_month:g} x rate {rate:g}",
            costs.people_months * costs.person_month * rate,
        ),
        CostLine("migration", f"{costs.migration:g} x rate {rate:g}", costs.migration * rate),
    )
    total = sum(line.value for line in lines)
    if costs.claimed_total is not None and abs(costs.claimed_total - total) > AGREES * max(total, 1e-9):
        said = f"platforms.{name}.costs.claimed_total: {costs.claimed_total:g}"
        what = f"{said} does not follow from its own inputs, which give {total:.6g}"
        line = line_of(source, "platforms", name, "costs", "claimed_total")
        raise ConfigError(Problem(what, "correct the inputs or the total", str(path), line))
    return lines


def _broken(constraint: Constraint, figures: Mapping[str, Figure]) -> str:
    """Why a platform does not meet a constraint, in words; empty where it does. What is not known does not meet it."""
    figure = figures[constraint.figure]
    bound = " and ".join(
        f"{word} {value:g}"
        for word, value in (("at least", constraint.min), ("at most", constraint.max))
        if value is not None
    )
    if figure.value is None:
        return f"{constraint.figure} must be {bound} and is not known: {figure.source}"
    low = constraint.min is not None and figure.value < constraint.min
    high = constraint.max is not None and figure.value > constraint.max
    return f"{constraint.figure} is {figure.value:.4g} and must be {bound}" if low or high else ""


def _scored(columns: Sequence[Column], weights: Mapping[str, float]) -> list[Column]:
    """Scores: performance and cost relative to the best platform, shares as they are; a total only where all is known."""
    fastest = max((c.figures["performance"].value or 0.0 for c in columns), default=0.0)
    costs = [c.figures["total_cost"].value for c in columns]
    cheapest = min((cost for cost in costs if cost), default=None)
    done = []
    for column in columns:
        figures = {name: figure.value for name, figure in column.figures.items()}
        compatible = [figures[name] for name in ("operators", "models", "precision") if figures[name] is not None]
        performance, cost = figures["performance"], figures["total_cost"]
        scores: dict[str, float | None] = {
            "performance": 100 * performance / fastest if performance and fastest else None,
            "compatibility": 100 * sum(v for v in compatible if v is not None) / len(compatible)
            if compatible
            else None,
            "cost": 100 * cheapest / cost if cost and cheapest else None,
            "compliance": 100 * figures["compliance"] if figures["compliance"] is not None else None,
        }
        needed = [area for area in AREAS if weights[area]]
        known = [scores[area] for area in needed]
        ranked = None not in known and not column.broken
        total = sum(weights[area] * (scores[area] or 0.0) for area in needed) / 100 if ranked else None
        done.append(Column(column.name, column.hardware, column.figures, column.costs, scores, total, column.broken))
    return sorted(done, key=lambda column: -(column.total if column.total is not None else -1.0))
