"""Plots as self-contained SVG, drawn by matplotlib without a network or a display. Each comes with its data."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#2f7ed8", "#d9822b", "#3a9d5d", "#9b59b6", "#c0392b", "#7f8c8d")
INK = "#888888"  # reads on a white and on a dark page
MOST_POINTS = 600
LABEL = 60


@dataclass(frozen=True)
class Line:
    """One series: ``x`` and ``y`` of equal length; a non-finite ``y`` leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


@dataclass(frozen=True)
class Bar:
    """One bar: its value, the lowest and highest session, and the value accepted before, where there is one."""

    name: str
    value: float
    low: float
    high: float
    accepted: float | None = None
    bad: bool = False


@dataclass(frozen=True)
class Plot:
    """A drawn plot: the SVG, and the table a reader without the picture gets: header and rows."""

    title: str
    svg: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def available() -> bool:
    """True where matplotlib can be imported."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def curves(
    title: str, lines: Sequence[Line], *, x: str = "", y: str = "", x_log: bool = False, y_log: bool = False
) -> Plot:
    """Lines over a common axis. Raises ValueError where no line holds a finite point."""
    if not any(math.isfinite(value) for line in lines for value in line.y):
        raise ValueError(f"{title}: no finite point to draw")
    figure, axes = _figure(7.2, 3.2)
    for number, line in enumerate(lines):
        xs, ys = _thinned(line.x, line.y)
        style = "--" if line.dashed else "-"
        axes.plot(xs, ys, style, color=PALETTE[number % len(PALETTE)], label=_plain(line.name), linewidth=1.6)
    if x_log:
        axes.set_xscale("symlog" if min(min(line.x, default=1.0) for line in lines) <= 0 else "log")
    if y_log:
        axes.set_yscale("symlog" if min(_finite(lines), default=1.0) <= 0 else "log")
    axes.set_xlabel(_plain(x))
    axes.set_ylabel(_plain(y))
    legend = axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    legend.set_zorder(3)
    rows = tuple(
        (line.name, _number(a), _number(b))
        for line in lines
        for a, b in zip(*_thinned(line.x, line.y, 60), strict=True)
    )
    return Plot(title, _svg(figure, title), ("series", x or "x", y or "y"), rows)


def bars(title: str, found: Sequence[Bar], *, unit: str, roof: float | None = None) -> Plot:
    """Horizontal bars with the range of their sessions, what was accepted as a tick, and the roof as a line."""
    if not found:
        raise ValueError(f"{title}: nothing to draw")
    figure, axes = _figure(7.2, 0.9 + 0.34 * len(found))
    places = list(range(len(found)))[::-1]
    for place, bar in zip(places, found, strict=True):
        axes.barh(place, bar.value, height=0.62, color=PALETTE[4] if bar.bad else PALETTE[0], alpha=0.85)
        axes.plot([bar.low, bar.high], [place, place], color=INK, linewidth=2.2)
        if bar.accepted is not None:
            axes.plot([bar.accepted, bar.accepted], [place - 0.36, place + 0.36], color=PALETTE[1], linewidth=2.2)
    if roof is not None:
        axes.axvline(roof, color=PALETTE[3], linestyle=":", linewidth=1.4)
    axes.set_yticks(places)
    axes.set_yticklabels([_plain(bar.name) for bar in found], fontsize=8)
    axes.set_xlabel(_plain(unit))
    axes.set_xlim(left=0)
    rows = tuple(
        (bar.name, _number(bar.value), _number(bar.low), _number(bar.high), _number(bar.accepted)) for bar in found
    )
    header = ("variant", f"value, {unit}", "lowest session", "highest session", "accepted")
    return Plot(title, _svg(figure, title), header, rows)


def _figure(width: float, height: float) -> tuple[Any, Axes]:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: it can be read aloud, and takes the page's font
    matplotlib.rcParams["svg.hashsalt"] = "pytest-accel"  # the same plot gives the same bytes
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(True, color=INK, alpha=0.18, linewidth=0.7)
    return figure, axes


def _svg(figure: Any, title: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": _plain(title, math=False)})
    text = out.getvalue()
    body = text[text.index("<svg") :]
    # Ids are unique within one picture only, and a page holds many.
    mark = re.sub(r"\W+", "", title)[:40] + format(_checksum(title), "08x")
    body = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', body)
    body = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{mark}-\2"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{mark}-\1)", body)


def _checksum(text: str) -> int:
    import zlib  # `hash` differs between processes

    return zlib.crc32(text.encode("utf-8", "replace"))


def _plain(text: str, math: bool = True) -> str:
    """A label that matplotlib draws as it is: no mathematics, no control characters, not endless."""
    cleaned = "".join(char if char.isprintable() else " " for char in text)
    if len(cleaned) > LABEL:
        cleaned = cleaned[: LABEL // 2] + "…" + cleaned[-LABEL // 2 + 1 :]
    cleaned = cleaned.lstrip("_") or "-"  # a leading underscore keeps a line out of the legend
    return cleaned.replace("$", r"\$") if math else cleaned


def _thinned(x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS) -> tuple[list[float], list[float]]:
    """At most ``most`` points, of each stretch the largest: a spike must not vanish."""
    points = list(zip(x, y, strict=True))
    if len(points) <= most:
        return [a for a, _ in points], [b for _, b in points]
    step = len(points) / most
    kept = []
    for number in range(most):
        stretch = points[int(number * step) : max(int((number + 1) * step), int(number * step) + 1)]
        kept.append(max(stretch, key=lambda pair: pair[1] if math.isfinite(pair[1]) else math.inf))
    return [a for a, _ in kept], [b for _, b in kept]


def _finite(lines: Sequence[Line]) -> list[float]:
    return [value for line in lines for value in line.y if math.isfinite(value)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def series_of(notes: Mapping[str, Any]) -> tuple[list[Plot], list[str]]:
    """The plots that a variant's notes declare under ``plots``, and in words which of them cannot be drawn.

    Each is ``{"title", "x", "y", "x_log", "y_log", "lines": [{"name", "x": [...], "y": [...], "dashed"}]}``.
    """
    found, problems = [], []
    said = notes.get("plots") or ()
    for number, plot in enumerate(said if isinstance(said, (list, tuple)) else ()):
        try:
            lines = [
                Line(str(line["name"]), _numbers(line["x"]), _numbers(line["y"]), bool(line.get("dashed")))
                for line in plot["lines"]
            ]
            words = {name: str(plot.get(name) or "") for name in ("x", "y")}
            logs = {name: bool(plot.get(name)) for name in ("x_log", "y_log")}
            found.append(curves(str(plot["title"]), lines, **words, **logs))  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"plot {number + 1} of the notes cannot be drawn: {type(error).__name__}: {error}")
    return found, problems


def _numbers(values: Sequence[Any]) -> list[float]:
    return [float(value["nonfinite"]) if isinstance(value, Mapping) else float(value) for value in values]


def named(plot: Plot, owner: str) -> Plot:
    """The plot with its variant in the title."""
    return Plot(f"{owner}: {plot.title}", plot.svg, plot.header, plot.rows)
