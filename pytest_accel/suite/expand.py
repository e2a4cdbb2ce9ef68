"""From a suite to its variants on one platform."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.declared import Case, Layer, Suite
from pytest_accel.suite.generated import generated
from pytest_accel.suite.keys import make_key
from pytest_accel.suite.types import Json, Requires, Variant

MAX_VARIANTS = 100_000  # of one suite: a run of that many takes days


def expand(suite: Suite, platform: str, gone: dict[str, str] | None = None) -> list[Variant]:
    """Every variant of ``suite`` on ``platform``: cases as declared, the first matrix axis slowest.

    Defaults lie under each case and the case's part for ``platform`` over it: maps are merged name by name, all else is
    replaced. Raises ConfigError, with all problems, for a name that is both a parameter and a
    setting, a metric whose ``min`` is above its ``max``, two variants of one key (both lines), and a matrix beyond measure.

    ``gone``, where given, is filled with the keys of variants that a case's ``params_from`` says there once were, each with
    the reason.
    """
    problems: list[Problem] = []
    variants: dict[str, Variant] = {}
    count = 0
    for case in suite.cases:
        layer = case.on(platform)
        found = problems_of(suite, case, layer)
        try:
            made = generated(suite, case, layer)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        count += math.prod(len(values) for values in layer.matrix.values()) * len(made.params)
        if count > MAX_VARIANTS:
            what = f"case `{case.name}`: with it the suite has {count} variants, more than {MAX_VARIANTS}"
            raise ConfigError.at(suite.path, case.line, what, "shorten its matrix")
        problems.extend(found)
        for variant in [] if found else _variants(suite, case, layer, made.params):
            first = variants.setdefault(variant.key, variant)
            if first is not variant:
                what = f"the key `{variant.key}` stands twice: lines {first.line} and {variant.line}"
                problems.append(Problem(what, "rename one case, or remove one value", suite.path, variant.line))
        if gone is not None and not found:
            for params, reason in made.gone:
                gone.update((variant.key, reason) for variant in _variants(suite, case, layer, [params]))
    if problems:
        raise ConfigError(problems)
    return list(variants.values())


def problems_of(suite: Suite, case: Case, layer: Layer) -> list[Problem]:
    """What is wrong with a case once its layers lie over one another."""

    def problem(what: str, mend: str) -> Problem:
        return Problem(f"case `{case.name}`: {what}", mend, suite.path, case.line)

    found = []
    for name in sorted({*layer.params, *layer.matrix} & {*layer.settings}):
        found.append(
            problem(f"`{name}` is both a parameter and a setting", "rename the parameter: both stand in the key")
        )
    for name, rule in layer.metrics.items():
        if rule.min is not None and rule.max is not None and rule.min > rule.max:
            found.append(
                problem(f"metric `{name}`: min {rule.min:g} is above max {rule.max:g}", "swap or correct them")
            )
    return found


def _variants(suite: Suite, case: Case, layer: Layer, generated: Sequence[Mapping[str, Json]]) -> Iterator[Variant]:
    requires = Requires(**layer.requires)
    fixed = {**layer.params, **layer.settings}
    for given, values in itertools.product(generated, itertools.product(*layer.matrix.values())):
        chosen = {**dict(zip(layer.matrix, values, strict=True)), **given}
        yield Variant(
            key=make_key(suite.name, case.name, {**fixed, **chosen}),
            suite=suite.name,
            case=case.name,
            path=suite.path,
            line=case.line,
            workload=layer.workload or "",
            params={**layer.params, **chosen},
            settings=layer.settings,
            requires=requires,
            metrics=layer.metrics,
            tier=layer.tier or "gate",
            timeout=layer.timeout,
            waivers=layer.waivers or (),
            setup=suite.setup,
        )
