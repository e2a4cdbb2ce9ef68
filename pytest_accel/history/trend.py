"""The trend page: each variant's metric over the last runs, stack changes marked. Advisory; the gate never reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel import __version__
from pytest_accel.errors import ConfigError, Problem
from pytest_accel.history.changes import Change, change_points
from pytest_accel.history.store import Run, masked, opened, runs, url_of
from pytest_accel.report import text

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

LAST_RUNS = 90
NEWEST = 10  # runs whose variants are shown: what was retired long ago is history
MOST_SERIES = 3000
MOST_MOVED = 200
WIDTH, HEIGHT = 220, 34
PREFERRED = ("time", "status", "max_ulp", "slope", "peak_allocated")


@dataclass(frozen=True)
class Point:
    """One run's value of a series; ``value`` None where it was a word or missing."""

    run: int
    value: float | None
    word: str
    verdict: str


@dataclass(frozen=True)
class Series:
    """One metric of one variant over the runs, oldest first."""

    key: str
    metric: str
    unit: str
    better: str
    points: tuple[Point, ...]

    @property
    def values(self) -> list[float]:
        """The finite values."""
        return [point.value for point in self.points if point.value is not None]

    @property
    def change(self) -> float | None:
        """The last value against the median of those before it, relative; None where that says nothing."""
        values = self.values
        if len(values) < 2:
            return None
        before = sorted(values[:-1])[(len(values) - 1) // 2]
        return values[-1] / before - 1 if before else None

    @property
    def worse(self) -> float:
        """How much worse the last value is, for sorting; words that changed come first."""
        words = [point.word for point in self.points if point.word]
        if words and words[-1] != words[0]:
            return math.inf
        moved = self.change or 0.0
        return abs(moved) if self.better == "equal" else -moved if self.better == "higher" else moved


@dataclass(frozen=True)
class Moved:
    """A series whose level moved: the change, the first run of the new level, and what changed in the stack there."""

    series: Series
    change: Change
    run: Run
    stack: tuple[str, ...]


def write_trend(where: str, folder: Path, *, last: int = LAST_RUNS) -> list[Path]:
    """Write one trend page a platform and hardware; returns the paths. Raises ConfigError."""
    from pytest_accel.files import write_whole

    with opened(where) as engine:
        every = runs(engine, last=last * 8)
        groups: dict[tuple[str, str], list[Run]] = {}
        for run in every:
            groups.setdefault((run.platform, run.hardware), []).append(run)
        if not groups:
            raise ConfigError(
                Problem(f"history {masked(url_of(where))}: holds no run", "run the gate with --accel-history")
            )
        written = []
        for number, ((platform, hardware), found) in enumerate(sorted(groups.items())):
            page = render(found[-last:], _series(engine, found[-last:]), f"{hardware} ({platform})")
            name = "trend.html" if len(groups) == 1 else f"trend-{number + 1}-{_slug(platform)}.html"
            write_whole(folder / name, page)
            written.append(folder / name)
    return written


def _series(engine: Engine, found: Sequence[Run]) -> list[Series]:
    """One series a variant of the newest runs: its chosen metric over all of these, worst first."""
    from sqlalchemy import select

    from pytest_accel.history.schema import VALUES

    place = {run.id: number for number, run in enumerate(found)}
    ids = list(place)
    names = select(VALUES.c.key, VALUES.c.metric).where(VALUES.c.run_id.in_(ids[-NEWEST:])).distinct()
    fields = (VALUES.c.run_id, VALUES.c.key, VALUES.c.metric, VALUES.c.value, VALUES.c.word, VALUES.c.verdict)
    with engine.connect() as connection:
        chosen: dict[str, str] = {}
        for key, metric in connection.execute(names):
            if key not in chosen or _rank(metric) < _rank(chosen[key]):
                chosen[key] = metric
        query = select(*fields, VALUES.c.unit, VALUES.c.better).where(
            VALUES.c.run_id.in_(ids), VALUES.c.metric.in_(set(chosen.values()))
        )
        points: dict[str, list[Point]] = {}
        said: dict[str, tuple[str, str]] = {}
        for run, key, metric, value, word, verdict, unit, better in connection.execution_options(
            yield_per=20_000
        ).execute(query):
            if chosen.get(key) == metric:
                points.setdefault(key, []).append(Point(place[run], value, word or "", verdict))
                said[key] = (unit, better)
    made = [
        Series(key, chosen[key], *said[key], tuple(sorted(each, key=lambda point: point.run)))
        for key, each in points.items()
    ]
    return sorted(made, key=lambda series: (-series.worse, series.key))


def _rank(metric: str) -> tuple[int, str]:
    return (PREFERRED.index(metric) if metric in PREFERRED else len(PREFERRED), metric)


def stack_changes(found: Sequence[Run]) -> list[tuple[int, dict[str, list[Any]]]]:
    """The runs (by place) whose stack differs from that of the run before, and in what."""
    from pytest_accel.report.json_report import changed

    said = []
    for number in range(1, len(found)):
        moved = changed(found[number - 1].stack, found[number].stack)
        if moved:
            said.append((number, moved))
    return said


def moved_levels(found: Sequence[Run], every: Sequence[Series]) -> list[Moved] | None:
    """The level changes of the series, the newest first; None where ruptures is not installed.

    A stack change counts as the same event where it is that of the first run of the new level, or of a run next to it.
    """
    stacks = dict(stack_changes(found))
    said = []
    for series in every:
        drawn = [point for point in series.points if point.value is not None and math.isfinite(point.value)]
        try:
            changes = change_points([point.value for point in drawn if point.value is not None])
        except ImportError:
            return None
        for change in changes:
            place = drawn[change.place].run
            names = {name for near in (place - 1, place, place + 1) for name in stacks.get(near, {})}
            said.append(Moved(series, change, found[place], tuple(sorted(names))))
    return sorted(said, key=lambda each: (each.run.started, -abs(each.change.relative), each.series.key), reverse=True)


def render(found: Sequence[Run], every: Sequence[Series], title: str) -> str:
    """The page as HTML text. Raises ConfigError where the extra ``report`` is not installed."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ConfigError(Problem("trend pages need jinja2", "pip install 'pytest-accel[report]'")) from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=text.number, change=text.change)
    page = resources("pytest_accel.report.page") / "assets"
    template = environment.from_string((page / "trend.html.j2").read_text(encoding="utf-8"))
    changes = stack_changes(found)
    marks = [number for number, _ in changes]
    shown = every[:MOST_SERIES]
    moved = moved_levels(found, shown)
    return template.render(
        title=title,
        runs=found,
        changes=[(found[number], moved) for number, moved in changes],
        moved=moved,
        most=MOST_MOVED,
        series=[(each, sparkline(each, len(found), marks)) for each in shown],
        left_out=len(every) - len(shown),
        style=(page / "style.css").read_text(encoding="utf-8"),
        version=__version__,
    )


def sparkline(series: Series, count: int, marks: Sequence[int]) -> Mapping[str, Any]:
    """A series as points of a small picture: ``line`` (SVG points), ``dots`` of bad runs, ``marks`` of stack changes."""
    values = series.values
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    span = high - low or abs(high) or 1.0
    step = WIDTH / max(count - 1, 1)

    def at(point: Point) -> tuple[float, float]:
        height = 0.5 if high == low else ((point.value or 0.0) - low) / span
        return round(point.run * step, 1), round(HEIGHT - 4 - height * (HEIGHT - 8), 1)

    drawn = [point for point in series.points if point.value is not None]
    return {
        "line": " ".join(f"{x},{y}" for x, y in map(at, drawn)),
        "dots": [at(point) for point in drawn if point.verdict not in ("PASS", "IMPROVED", "NEW")],
        "marks": [round(number * step, 1) for number in marks],
        "last": series.points[-1],
    }


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name.lower())
