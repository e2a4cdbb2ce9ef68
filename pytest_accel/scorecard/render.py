"""The scorecard as Markdown: result, figures with their sources, cost table with its formulas, published figures apart."""

from __future__ import annotations

from importlib.resources import files as resources
from typing import Any

import yaml

from pytest_accel.report.markdown import bounded, escape, table
from pytest_accel.scorecard.compute import Scored
from pytest_accel.scorecard.types import AREAS

FIGURES = ("performance", "operators", "models", "precision", "total_cost", "compliance")


def render(scored: Scored) -> str:
    """The card as Markdown."""
    card = scored.card
    names = [column.name for column in scored.columns]
    lines = [f"# {escape(card.title)}", ""]
    ranked = [column for column in scored.columns if column.total is not None]
    if ranked:
        best = ranked[0]
        lines.append(f"**{escape(best.name)}** leads with {best.total:.1f} of 100.")
    else:
        lines.append("No platform can be ranked: each lacks a figure or breaks a constraint.")
    lines += [""] + [
        f"- {escape(column.name)} is out: {escape(why)}." for column in scored.columns for why in column.broken
    ]
    lines += ["", "## Scores", ""]
    rows: list[list[object]] = [
        [f"{area} ({scored.weights[area]:g} %)", *[_number(column.scores.get(area)) for column in scored.columns]]
        for area in AREAS
    ]
    rows.append(["total", *["out" if column.broken else _number(column.total) for column in scored.columns]])
    lines += [table(["area", *names], rows), ""]
    lines += [
        "An area without a figure is not known, and a total is given only where every weighted area is known.",
        "",
    ]
    lines += ["## Figures and where they come from", ""]
    found = [
        [name, column.name, "not known" if figure.value is None else f"{figure.value:.4g}", figure.source]
        for name in FIGURES
        for column in scored.columns
        for figure in [column.figures[name]]
    ]
    lines += [table(["figure", "platform", "value", "source"], found), ""]
    priced = [column for column in scored.columns if column.costs]
    if priced:
        lines += [f"## Cost over {card.years:g} years, {escape(card.currency)}", ""]
        costs = [
            [line.what, column.name, line.formula, f"{line.value:,.0f}"] for column in priced for line in column.costs
        ]
        costs += [["total", column.name, "sum", f"{column.figures['total_cost'].value:,.0f}"] for column in priced]
        lines += [table(["item", "platform", "formula", "amount"], costs), ""]
    if card.published:
        lines += _published()
    return bounded("\n".join(lines) + "\n")


def _published() -> list[str]:
    """Figures that others published: each source in tables of its own, one a protocol, never beside a measured figure."""
    data: dict[str, Any] = yaml.safe_load(
        (resources("pytest_accel.scorecard") / "data" / "published.yaml").read_text(encoding="utf-8")
    )
    lines = ["## Published, not measured", "", "Claims of others, by source and protocol. They enter no score.", ""]
    for source in data["sources"]:
        lines += [f"### {escape(source['name'])}", "", escape(source["conditions"]), ""]
        for shown in source["tables"]:
            lines += [f"{escape(shown['what'])}: {escape(shown['protocol'])}", ""]
            lines += [table(["", *source["columns"]], shown["rows"]), ""]
    return lines


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1f}"
