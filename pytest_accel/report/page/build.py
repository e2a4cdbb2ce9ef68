"""The HTML page of one run: one self-contained file, without a network. Needs the extra ``report``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from typing import Any

from pytest_accel import __version__
from pytest_accel.errors import ConfigError, Problem
from pytest_accel.report import text
from pytest_accel.report.page import plots
from pytest_accel.report.page.matrix import Matrix, matrices
from pytest_accel.report.results import GOOD, Case, Results, answer, started

MOST_FAILURES = 200  # written out whole; every variant stands in the table
MOST_BARS = 24
MOST_PLOTS = 40
SENTENCE = 700


def render(results: Results, *, title: str = "", rollback: Mapping[str, Any] | None = None) -> str:
    """The page as HTML text.

    ``rollback``: the last accepted stack's versions, shown on red as what to roll back to. Raises ConfigError where the
    extra is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ConfigError(
            Problem("the HTML report needs jinja2 and matplotlib", "pip install 'pytest-accel[report]'")
        ) from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=text.number, change=text.change, show=_show)
    assets = resources("pytest_accel.report.page") / "assets"
    template = environment.from_string((assets / "report.html.j2").read_text(encoding="utf-8"))
    word, sentence = answer(results)
    drawn, problems = _plots(results)
    bad = results.bad()
    return template.render(
        title=title or f"Accelerator gate: {results.verdict}",
        word=word,
        sentence=sentence,
        results=results,
        started=started(results),
        hardware=results.stack.get("hardware") or {},
        stack_parts=[(part, results.stack.get(part) or {}) for part in ("hardware", "versions", "settings")],
        changed=[(name, pair[0], pair[1]) for name, pair in results.changed.items()],
        rollback=rollback if word == "no" else None,
        bad=[_failure(case) for case in bad[:MOST_FAILURES]],
        more_bad=max(0, len(bad) - MOST_FAILURES),
        matrices=matrices(results.cases),
        plots=drawn,
        plot_problems=problems,
        rows=[_row(number, case) for number, case in enumerate(results.cases)],
        suites=sorted({case.suite for case in results.cases}),
        data=_embedded([_detail(case) for case in results.cases]),
        style=(assets / "style.css").read_text(encoding="utf-8"),
        script=(assets / "page.js").read_text(encoding="utf-8"),
        version=__version__,
    )


def _failure(case: Case) -> dict[str, Any]:
    """What is written out of a variant that is not fine."""
    metrics = sorted(
        case.metrics.items(),
        key=lambda pair: (pair[1].get("verdict") in (None, *GOOD), pair[0] != (case.worst or ("",))[0]),
    )
    return {
        "case": case,
        "reason": _short(case.reason),
        "metrics": [(name, metric) for name, metric in metrics[:12]],
        "reproducer": reproducer(case.notes),
    }


def reproducer(notes: Mapping[str, Any]) -> str:
    """The lines of code that show a failure, or an empty text."""
    said = notes.get("reproducer") or notes.get("reproduce") or ""
    if isinstance(said, Mapping):
        said = said.get("code") or ""
    return str(said)


def _row(number: int, case: Case) -> dict[str, Any]:
    worst = case.worst
    shown = worst if worst is not None else next(iter(case.metrics.items()), None)
    name, metric = shown if shown is not None else ("", {})
    if case.verdict in GOOD and "time" in case.metrics:
        name, metric = "time", case.metrics["time"]
    return {"number": number, "case": case, "metric": name, "value": metric}


def _detail(case: Case) -> dict[str, Any]:
    """What the page's script shows of a row when it is opened."""
    return {
        "code": case.code,
        "reason": _short(case.reason),
        "metrics": [
            [
                name,
                text.number(metric.get("value"), str(metric.get("unit") or "")),
                text.number(metric.get("baseline"), str(metric.get("unit") or "")),
                text.change(metric.get("change")),
                text.number(metric.get("limit"), str(metric.get("unit") or "")),
                metric.get("verdict") or "",
            ]
            for name, metric in case.metrics.items()
        ],
    }


def _embedded(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    dumped = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plots(results: Results) -> tuple[list[plots.Plot], list[str]]:
    """The declared plots of the variants, failures first, then bars of the timings by family."""
    if not plots.available():
        return [], ["plots need matplotlib: pip install 'pytest-accel[report]'"]
    drawn: list[plots.Plot] = []
    problems: list[str] = []
    for case in sorted(results.cases, key=lambda case: -case.badness):
        if not case.notes.get("plots"):
            continue
        if len(drawn) >= MOST_PLOTS:
            problems.append(f"only the first {MOST_PLOTS} plots are drawn; the data of all stand in the results file")
            break
        found, wrong = plots.series_of(case.notes)
        drawn += [plots.named(plot, case.key) for plot in found]
        problems += [f"{case.key}: {what}" for what in wrong]
    return drawn + [plot for _, plot in _bars(results.cases)], problems


def _bars(cases: Iterable[Case]) -> list[tuple[str, plots.Plot]]:
    families: dict[tuple[str, str], list[plots.Bar]] = {}
    for case in cases:
        metric = case.metrics.get("time")
        if metric is None or not isinstance(metric.get("value"), (int, float)):
            continue
        families.setdefault((case.suite, str(metric.get("unit") or "")), []).append(_bar(case, metric))
    found = []
    for (suite, unit), listed in sorted(families.items()):
        shown = sorted(listed, key=lambda bar: (not bar.bad, bar.name))[:MOST_BARS]
        more = f" ({len(shown)} of {len(listed)})" if len(listed) > len(shown) else ""
        title = f"{suite}: time against what was accepted{more}"
        # Times differ by orders of magnitude, so each is drawn as a share of its accepted value.
        shares = [_share(bar) for bar in shown if bar.accepted]
        if shares:
            found.append((suite, plots.bars(title, shares, unit=f"share of the accepted time (1 = unchanged; {unit})")))
    return found


def _bar(case: Case, metric: Mapping[str, Any]) -> plots.Bar:
    sessions = [
        value
        for session in case.record.get("sessions") or ()
        if isinstance(value := (session.get("metrics") or {}).get("time"), (int, float))
    ]
    value = float(metric["value"])
    accepted = metric.get("baseline")
    return plots.Bar(
        name=case.key.partition("/")[2] or case.key,
        value=value,
        low=min([value, *sessions]),
        high=max([value, *sessions]),
        accepted=float(accepted) if isinstance(accepted, (int, float)) and accepted else None,
        bad=case.verdict not in GOOD,
    )


def _share(bar: plots.Bar) -> plots.Bar:
    assert bar.accepted
    by = bar.accepted
    return plots.Bar(bar.name, bar.value / by, bar.low / by, bar.high / by, 1.0, bar.bad)


def _show(value: Any) -> str:
    """A value of the stack: words as they are, nothing as a dash, lists and maps as JSON."""
    if value is None:
        return "–"
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    return str(value)


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= SENTENCE else sentence[: SENTENCE - 1] + "…"


__all__: Sequence[str] = ("Matrix", "render", "reproducer")
