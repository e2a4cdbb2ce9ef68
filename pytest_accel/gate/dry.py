"""Runs in which nothing is run, and the results file of a run that may not get far."""

from __future__ import annotations

import os
from typing import Any

import pytest

_DRY = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan", "version", "help", "markers", "cacheshow")


def is_dry(config: pytest.Config) -> bool:
    """True where pytest only lists something: nothing is measured, and a results file is left as it is."""
    return any(_option(config, name) for name in _DRY)


def _option(config: pytest.Config, name: str) -> Any:
    """An option's value, also while pytest still reads the command line."""
    return getattr(config.option, name, None) or getattr(config.known_args_namespace, name, None)


def results_target(config: pytest.Config) -> str | None:
    """The absolute path of ``--accel-report`` or its ini twin; None where neither is given."""
    named = _option(config, "accel_report")
    base = config.invocation_params.dir
    if not named:
        named = config.getini("accel_report")
        base = config.inipath.parent if config.inipath else config.rootpath
    return os.path.normpath(os.path.join(base, os.path.expanduser(str(named)))) if named else None


def replace_old_results(config: pytest.Config) -> None:
    """Put "not finished" in the place of an earlier run's results, before anything of this run can go wrong.

    Scripts read ``run.exit_code`` from the file: an old 0 must not outlive a run that was stopped by a wrong suite or option,
    or by a conftest that cannot be imported.
    Raises pytest.UsageError where the file cannot be written.
    """
    target = results_target(config)
    if target is None:
        return
    if os.path.isdir(target):
        return  # the options' own check says so, with the other problems
    from pathlib import Path

    from pytest_accel.errors import ConfigError
    from pytest_accel.files import dump_json, write_whole
    from pytest_accel.report.json_report import unfinished

    try:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, dump_json(unfinished(list(config.invocation_params.args))))
    except (OSError, ConfigError) as error:
        raise pytest.UsageError(f"accel: --accel-report: {target} cannot be written: {why_not(error)}") from None


def why_not(error: BaseException) -> str:
    """The system's words for a file that could not be written."""
    system = error if isinstance(error, OSError) else error.__cause__
    return (system.strerror if isinstance(system, OSError) else None) or str(error)
