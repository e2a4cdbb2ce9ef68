"""Markdown for a job summary or a pull request: bounded, and inert whatever the names in it are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_accel.report import text
from pytest_accel.report.compare import Comparison
from pytest_accel.report.results import Case, Results, answer, started

MOST_BYTES = 900_000  # a job summary may hold 1 MiB
MOST_ROWS = 100
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_LINKS = re.compile(r":(?=//|[\w+-]+:)|(?<=www)\.", re.IGNORECASE)  # addresses and emoji names


def summary(results: Results, *, rollback: Mapping[str, Any] | None = None) -> str:
    """The job summary of one run."""
    word, sentence = answer(results)
    mark = {"yes": "✅", "no": "❌", "undecided": "⚠️"}[word]
    said = {"yes": "It may go live", "no": "It may not go live", "undecided": "Undecided"}[word]
    hardware = results.stack.get("hardware") or {}
    lines = [
        f"## {mark} {said}",
        "",
        escape(sentence),
        "",
        f"{escape(hardware.get('name') or 'unknown hardware')}, {escape(results.stack.get('platform') or '?')}, "
        f"{escape(started(results))}, exit code {results.exit_code}",
        "",
        " · ".join(f"**{count}** {name}" for name, count in results.counts.items()) or "nothing was asked for",
        "",
    ]
    if word == "no" and rollback:
        back = ", ".join(f"{name} {value}" for name, value in rollback.items() if value)
        lines += [f"Last accepted stack, to roll back to: {escape(back)}", ""]
    if results.changed:
        lines += ["### What changed in the stack", "", "| part | accepted | now |", "| --- | --- | --- |"]
        lines += [
            f"| {escape(name)} | {escape(_word(old))} | {escape(_word(new))} |"
            for name, (old, new) in results.changed.items()
        ]
        lines.append("")
    bad = results.bad()
    if bad:
        lines += ["### What is not fine", "", "| verdict | variant | why |", "| --- | --- | --- |"]
        lines += [_row(case) for case in bad[:MOST_ROWS]]
        if len(bad) > MOST_ROWS:
            lines.append(f"| | and {len(bad) - MOST_ROWS} more, see the results file | |")
        lines.append("")
    return bounded("\n".join(lines))


def comparison(found: Comparison) -> str:
    """Two runs side by side."""
    lines = [
        f"## {escape(found.old.path)} → {escape(found.new.path)}",
        "",
        *[escape(warning) for warning in found.warnings],
        "",
    ]
    if found.changed:
        lines += ["| part | old | new |", "| --- | --- | --- |"]
        lines += [
            f"| {escape(name)} | {escape(_word(old))} | {escape(_word(new))} |"
            for name, (old, new) in found.changed.items()
        ]
    else:
        lines.append("The stacks are the same.")
    lines += ["", "| verdict | variant | metric | old | new | change |", "| --- | --- | --- | --- | --- | --- |"]
    ranked = sorted(found.variants, key=lambda each: (-each.judgement.verdict.badness, each.key))
    for each in ranked[: 10 * MOST_ROWS]:
        shown = [
            (name, metric)
            for name, metric in each.judgement.metrics.items()
            if metric.verdict is each.judgement.verdict and metric.verdict is not None
        ][:3]
        if not shown:
            lines.append(
                f"| {each.judgement.verdict.value} | {escape(each.key)} | {escape(each.judgement.reason)} | | | |"
            )
        for name, metric in shown:
            lines.append(
                f"| {each.judgement.verdict.value} | {escape(each.key)} | {escape(name)} "
                f"| {escape(text.number(metric.baseline, metric.unit))} | {escape(text.number(metric.value, metric.unit))} "
                f"| {text.change(metric.change)} |"
            )
    if len(ranked) > 10 * MOST_ROWS:
        lines.append(f"| | and {len(ranked) - 10 * MOST_ROWS} more | | | | |")
    return bounded("\n".join([*lines, ""]))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of escaped cells."""
    lines = ["| " + " | ".join(map(escape, header)) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def escape(value: object) -> str:
    """One line of text that Markdown shows as it is: no markup, no HTML, no link, no mention, no table border."""
    flat = " ".join(str(value).split())
    shown = flat if len(flat) <= 600 else flat[:599] + "…"
    for plain, entity in _ENTITIES.items():
        shown = shown.replace(plain, entity)
    shown = _LINKS.sub(lambda found: f"&#{ord(found[0])};", _SPECIAL.sub(r"\\\1", shown))
    return f"\\{shown}" if shown.startswith(("+", "-")) else shown


def bounded(document: str) -> str:
    """At most ``MOST_BYTES``, cut at a line's end, and saying so."""
    raw = document.encode("utf-8", "replace")
    if len(raw) <= MOST_BYTES:
        return document
    kept = raw[:MOST_BYTES].decode("utf-8", "ignore").rsplit("\n", 1)[0]
    return kept + "\n\nCut here: the whole stands in the results file.\n"


def _row(case: Case) -> str:
    code = f" ({escape(case.code)})" if case.code else ""
    return f"| {case.verdict}{code} | {escape(case.key)} | {escape(case.reason)} |"


def _word(value: Any) -> str:
    return "–" if value is None else text.number(value)
