"""The inputs of a scorecard: platforms with their results files, costs, compliance; weights; hard constraints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.scalars import free
from pytest_accel.suite.source import Map, line_at, read_source

SCHEMA = "pytest-accel/scorecard/1"
AREAS = ("performance", "compatibility", "cost", "compliance")
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Costs(_Strict):
    """What a platform costs. Money is in the card's currency; ``claimed_total`` is checked against the formula."""

    device_price: NotNegative
    devices: Annotated[int, Field(gt=0)]
    device_power_watts: NotNegative
    load: Share = 0.7
    pue: Annotated[float, Field(ge=1, le=5)] = 1.3
    electricity_per_kwh: NotNegative
    people_months: NotNegative = 0.0
    person_month: NotNegative = 0.0
    migration: NotNegative = 0.0
    exchange_rate: Positive = 1.0
    claimed_total: NotNegative | None = None


class PlatformInput(_Strict):
    """One column: where its figures come from."""

    results: list[str] = Field(min_length=1)
    costs: Costs | None = None
    compliance: Share | None = None
    compliance_source: str = ""


class Constraint(_Strict):
    """A hard condition, looked at before any weight: a figure of a platform that must reach a bound."""

    figure: Literal["operators", "models", "precision", "performance", "compliance", "total_cost"]
    min: float | None = None
    max: float | None = None


class Card(_Strict):
    """A whole scorecard file."""

    schema_: Literal["pytest-accel/scorecard/1"] = Field(alias="schema")
    title: str = "Which platform"
    currency: str = "USD"
    years: Positive = 3.0
    preset: Literal["default", "compliance-first"] = "default"
    weights: dict[Literal["performance", "compatibility", "cost", "compliance"], NotNegative] = Field(
        default_factory=dict
    )
    reference: str | None = None
    constraints: list[Constraint] = Field(default_factory=list)
    platforms: dict[str, PlatformInput] = Field(min_length=1)
    published: bool = False


def read(path: Path) -> tuple[Card, Map]:
    """Read and check a scorecard file; also its source, which knows the lines. Raises ConfigError with file:line."""
    source = read_source(path)
    try:
        return Card.model_validate(_plain(source)), source
    except ValidationError as error:
        problems = []
        for found in error.errors():
            steps = tuple(step for step in found["loc"] if step != "[key]")
            where = ".".join(str(step) for step in steps)
            problems.append(Problem(f"{where}: {found['msg']}", "correct it", str(path), line_at(source, steps)))
        raise ConfigError(problems) from None


def line_of(source: Map, *steps: str | int) -> int:
    """The line on which an input stands."""
    return line_at(source, steps)


def _plain(value: Any) -> Any:
    return free(value)
