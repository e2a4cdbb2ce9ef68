"""From a suite file to the variants that are asked for on this machine."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.gate.context import Gate, LoadedSuite
from pytest_accel.gate.waivers import status_problem
from pytest_accel.suite.types import TIERS, Variant


def load_file(gate: Gate, path: Path) -> LoadedSuite:
    """Load, expand and sort the variants of one suite file. Raises ConfigError with every problem that can be seen now."""
    from pytest_accel.stack.registry import names, settings_known
    from pytest_accel.suite.expand import expand
    from pytest_accel.suite.load import load_suite

    known = {name: kind for allowed in settings_known().values() for name, kind in allowed.items()}
    suite = load_suite(path, platforms=names(), settings_known=known)
    loaded = LoadedSuite(name=suite.name, path=path, baselines=gate.baselines_for(path))
    _refuse_second_of_one_name(gate, loaded)
    wanted = TIERS[: TIERS.index(gate.options.tier) + 1]
    problems: list[Problem] = []
    for variant in expand(suite, gate.machine.platform, loaded.gone):
        loaded.all_keys.add(variant.key)
        problem = _workload_problem(variant) or status_problem(variant)
        if problem is not None:
            problems.append(problem)
        if variant.tier not in wanted:
            loaded.other_tiers += 1
            continue
        reason = why_not_here(gate, variant)
        if reason is None:
            loaded.variants.append(variant)
        else:
            loaded.elsewhere[variant.key] = reason
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    gate.suites[str(path)] = loaded
    return loaded


def why_not_here(gate: Gate, variant: Variant) -> str | None:
    """A sentence saying why the variant is not for this machine, or None. Judged on the whole host, not on one worker's card."""
    from pytest_accel.suite.suitability import not_for

    absent = [n for n, value in variant.settings.items() if value and n not in gate.platform.settings_allowed]
    if absent:
        return f"it pins `{absent[0]}`, which {gate.machine.platform} does not have"
    devices = gate.machine.probe.devices
    first = devices[0] if devices else None
    return not_for(
        variant,
        platform=gate.machine.platform,
        device_count=max(len(devices), 1),
        memory_bytes=first.memory_bytes if first else None,
        capability=first.capability if first else None,
        has_package=has_package,
    )


def has_package(name: str) -> bool:
    """True where ``name`` is importable as far as can be told without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _refuse_second_of_one_name(gate: Gate, loaded: LoadedSuite) -> None:
    where = os.path.realpath(loaded.baselines)  # a linked folder is another path to the same values
    for other in gate.suites.values():
        if other.name == loaded.name and other.path != loaded.path and os.path.realpath(other.baselines) == where:
            raise ConfigError.at(
                loaded.path,
                None,
                f"suite `{loaded.name}` has the same name as {other.path}, and both store in {loaded.baselines}",
                "give one of them another `suite:` name",
            )


def _workload_problem(variant: Variant) -> Problem | None:
    """What is wrong with a built-in workload's name or parameters; a function of the user's own is seen when it is imported."""
    from pytest_accel.workloads.registry import WORKLOADS, signature_problem

    if ":" in variant.workload:
        return None
    built_in = WORKLOADS.get(variant.workload)
    if built_in is None:
        import difflib

        near = difflib.get_close_matches(variant.workload, WORKLOADS, n=1)
        mend = (
            f"did you mean `{near[0]}`?"
            if near
            else f"built in: {', '.join(sorted(WORKLOADS))}; your own: package.module:function"
        )
        return Problem(
            f"case `{variant.case}`: there is no workload `{variant.workload}`", mend, variant.path, variant.line
        )
    what = signature_problem(built_in, variant.params)
    return (
        Problem(f"case `{variant.case}`: {what}", "correct its params or matrix", variant.path, variant.line)
        if what
        else None
    )
