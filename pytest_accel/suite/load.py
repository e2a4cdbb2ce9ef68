"""From a suite file to a ``Suite``, with every mistake in it told at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.declared import Case, Layer, Suite
from pytest_accel.suite.expand import problems_of
from pytest_accel.suite.scalars import BOOLEAN_WORDS, shown
from pytest_accel.suite.source import Map, Plain, Seq, line_at, read_source
from pytest_accel.suite.types import MetricRule, Waiver

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from pytest_accel.suite.model import LayerModel, MetricModel, SuiteModel, WaiverModel

SUFFIXES = (".accel.yaml", ".accel.yml", ".yaml", ".yml")
_SHAPES = {"list_type": "a list", "dict_type": "a map (`key: value`)", "model_type": "a map (`key: value`)"}


def load_suite(path: Path, *, platforms: Collection[str], settings_known: Mapping[str, type] | None = None) -> Suite:
    """Read the suite file at ``path``.

    ``platforms`` are the names that exist; ``settings_known`` maps the settings that may be pinned to their Python types
    (none given: any name is taken). Raises ConfigError with all problems of the file, each with its line.
    """
    from pydantic import ValidationError

    from pytest_accel.suite.fields import Known, read_suite_name
    from pytest_accel.suite.model import SuiteModel

    source = read_source(path)
    problems = _problems_across_fields(source)
    model = None
    try:
        known = Known(platforms=tuple(platforms), settings=settings_known or {})
        model = SuiteModel.model_validate(source, context=known)
    except ValidationError as error:
        for details in error.errors(include_url=False, include_input=True):
            problems += _told(source, details)
    name = model.suite if model and model.suite else ""
    if "suite" not in source:
        try:
            name = read_suite_name(default_name(path))
        except ConfigError as error:
            what = error.problems[0].what
            problems.append(
                Problem(f"it would be named after its file, and {what}", "give it a name: `suite: ...`", line=1)
            )
    suite = None
    if model is not None and not problems:
        suite = _suite(model, name, path, source)
        problems = _problems_of_layers(suite)
    if problems or suite is None:
        unique = dict.fromkeys(Problem(p.what, p.mend, str(path), p.line) for p in problems)
        raise ConfigError(sorted(unique, key=lambda p: p.line or 0))
    return suite


def default_name(path: Path) -> str:
    """The name of a suite that gives none: its file's name without the suffix."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name[: -len(suffix)]
    return path.name


# --- problems ----------------------------------------------------------------------------------------------------------------
def _told(source: Map, details: ErrorDetails) -> list[Problem]:
    """A pydantic error in this project's words."""
    loc = _place(source, details["loc"])
    line, label = line_at(source, loc), _label(source, loc)
    kind = details["type"]
    if kind == "config":
        found: tuple[Problem, ...] = details["ctx"]["problems"]
        return [Problem(f"{label}: {p.what}" if label else p.what, p.mend, line=p.line or line) for p in found]
    if kind == "extra_forbidden":
        return [_unknown_key(source, loc, line)]
    if kind == "missing":
        where = _label(source, loc[:-1])
        return [
            Problem(f"{where + ': ' if where else ''}`{loc[-1]}` is missing", _mend_missing(str(loc[-1])), line=line)
        ]
    if kind == "too_short":
        return [
            Problem(
                f"{label}: the list is empty, so that nothing would be asked for", "declare at least one", line=line
            )
        ]
    if kind in _SHAPES:
        given = details["input"]
        what = "nothing" if given == "" else shown(given)
        return [Problem(f"{label}: must be {_SHAPES[kind]}, not {what}", "write one, or remove the key", line=line)]
    return [Problem(f"{label}: {details['msg']}", "correct it", line=line)]


def _place(source: Any, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Pydantic's location as steps into ``source``: without its mark for keys, and its position where one waiver stands alone."""
    steps: list[str | int] = []
    here = source
    for step in loc:
        if step == "[key]" or (step == 0 and isinstance(here, Map)):
            continue
        steps.append(step)
        inside = step in here if isinstance(here, Map) else isinstance(here, Seq) and isinstance(step, int)
        here = here[step] if inside else None
    return tuple(steps)


def _unknown_key(source: Map, loc: tuple[str | int, ...], line: int) -> Problem:
    from pytest_accel.suite.fields import nearest
    from pytest_accel.suite.model import known_keys

    key = str(loc[-1])
    where = _label(source, loc[:-1])
    prefix = f"{where}: " if where else ""
    mend = nearest(key, known_keys(loc[:-1]))
    if isinstance(_key_as_written(source, loc), Plain) and key.lower() in BOOLEAN_WORDS:
        what = f"{prefix}unknown key `{key}`, which without quotes is a boolean to YAML"
        return Problem(what, f"quote it where it is a name; {mend}", line=line)
    return Problem(f"{prefix}unknown key `{key}`", mend, line=line)


def _key_as_written(source: Any, loc: tuple[str | int, ...]) -> object:
    """The key at ``loc`` as the file has it, quoted or plain."""
    here = source
    for step in loc[:-1]:
        here = here[step]
    return next((key for key in here if key == loc[-1]), loc[-1])


def _mend_missing(name: str) -> str:
    return "begin the file with `schema: pytest-accel/suite/1`" if name == "schema" else "add it"


def _label(source: Map, loc: tuple[str | int, ...]) -> str:
    """Where ``loc`` is, in words: ``case `gemm`: metrics.time``."""
    steps = list(loc)
    label = ""
    if len(steps) > 1 and steps[0] == "cases" and isinstance(steps[1], int):
        case = source["cases"][steps[1]]
        name = case.get("name") if isinstance(case, Map) else None
        label = f"case {shown(name)}" if isinstance(name, str) and name else f"case {steps[1] + 1}"
        steps = steps[2:]
    words = ".".join(step for step in steps if isinstance(step, str))
    return ": ".join(part for part in (label, words) if part)


def _problems_across_fields(source: Map) -> list[Problem]:
    """What several fields together get wrong, found on the file's own data so that it is told beside all else."""
    problems: list[Problem] = []
    defaults = source.get("defaults")
    if isinstance(defaults, Map):
        problems += _layer_problems("defaults", defaults)
    cases = source.get("cases")
    if not isinstance(cases, Seq):
        return problems
    workload_below = isinstance(defaults, Map) and "workload" in defaults
    lines: dict[str, int] = {}
    for position, (case, line) in enumerate(zip(cases, cases.lines, strict=True)):
        if not isinstance(case, Map):
            continue
        label = _label(source, ("cases", position))
        problems += _layer_problems(label, case)
        if not workload_below and "workload" not in case:
            mend = "name one that is built in, or package.module:function"
            problems.append(Problem(f"{label}: `workload` is missing", mend, line=line))
        name = case.get("name")
        if isinstance(name, str) and name in lines:
            what = f"two cases are named {shown(name)}: lines {lines[name]} and {line}"
            problems.append(Problem(what, "rename one of them", line=line))
        elif isinstance(name, str):
            lines[name] = line
    return problems


def _layer_problems(label: str, layer: Map) -> list[Problem]:
    problems: list[Problem] = []
    groups = {name: layer[name] for name in ("params", "matrix", "settings") if isinstance(layer.get(name), Map)}
    seen: dict[str, str] = {}
    for group, values in groups.items():
        for name in values:
            first = seen.setdefault(name, group)
            if first != group:
                what = f"{label}: `{name}` stands in both {first} (line {groups[first].lines[name]}) and {group}"
                problems.append(
                    Problem(what, "keep one of them: a name stands once in the key", line=values.lines[name])
                )
    waive = layer.get("waive")
    for waiver in waive if isinstance(waive, Seq) else [waive]:
        if isinstance(waiver, Map) and not waiver.get("metrics") and not waiver.get("status"):
            what = f"{label}: the waiver names neither metrics nor a status, so that it would waive nothing or all"
            problems.append(
                Problem(what, "add `metrics: {time: {up_to: 8%}}` or `status: [unsupported]`", line=waiver.line)
            )
    platforms = layer.get("platforms")
    if isinstance(platforms, Map):
        for name, over in platforms.items():
            problems += _layer_problems(f"{label}: platforms.{name}", over) if isinstance(over, Map) else []
    return problems


def _problems_of_layers(suite: Suite) -> list[Problem]:
    """What only shows when layers lie over one another, on every platform that a case has a layer for."""
    problems = []
    for case in suite.cases:
        for platform in ("", *case.platforms):  # no platform: as on those that it has no layer for
            problems += problems_of(suite, case, case.on(platform))
    return problems


# --- from the models to what travels -----------------------------------------------------------------------------------------
def _suite(model: SuiteModel, name: str, path: Path, source: Map) -> Suite:
    defaults = _layer(model.defaults) if model.defaults else Layer()
    below = _overlays(model.defaults.platforms if model.defaults else None)
    cases = []
    for case, line in zip(model.cases, source["cases"].lines, strict=True):
        over = _overlays(case.platforms)
        platforms = {
            platform: tuple(layers[platform] for layers in (below, over) if platform in layers)
            for platform in {**below, **over}
        }
        cases.append(Case(name=case.name, line=line, layers=(defaults, _layer(case)), platforms=platforms))
    return Suite(name=name, path=os.path.abspath(path), setup=model.setup, cases=tuple(cases))


def _overlays(platforms: Mapping[str, LayerModel] | None) -> dict[str, Layer]:
    return {platform: _layer(layer) for platform, layer in (platforms or {}).items()}


def _layer(model: LayerModel) -> Layer:
    return Layer(
        workload=model.workload,
        params_from=model.params_from,
        params=model.params or {},
        matrix=model.matrix or {},
        settings=model.settings or {},
        requires=_said(model.requires) if model.requires else {},
        metrics={name: _rule(metric) for name, metric in (model.metrics or {}).items()},
        tier=model.tier,  # type: ignore[arg-type]
        timeout=model.timeout,
        waivers=None if model.waive is None else tuple(map(_waiver, model.waive)),
    )


def _rule(model: MetricModel) -> MetricRule:
    said = _said(model)
    expected = said.pop("expect", None)
    return MetricRule(**said, better_by=expected.better_by if expected else None)


def _said(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in model.model_fields_set}


def _waiver(model: WaiverModel) -> Waiver:
    return Waiver(
        metrics={name: metric.up_to for name, metric in (model.metrics or {}).items()},
        status=model.status or (),
        reason=model.reason,
        issue=model.issue,
        expires=model.expires,
        platforms=(model.when.platform or ()) if model.when else (),
    )
