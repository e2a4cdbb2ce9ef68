"""pytest-xdist: how many workers, which device each sees, and reports that come later than their item's turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.gate.context import Gate, gate_of

_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "build", "dist"}


def auto_workers(config: pytest.Config) -> int | None:
    """The number for ``-n auto``: the visible devices, where this run is about an accelerator; else None (xdist decides)."""
    if config.getoption("accel", None) is None and not config.getini("accel") and not _mentions_suites(config):
        return None
    gate = gate_of(config)
    if gate.problems or gate.platform.device_type == "cpu":
        return None
    return max(len(gate.machine.probe.devices), 1)


def _mentions_suites(config: pytest.Config) -> bool:
    """True where a suite file lies under the run's arguments; a bounded walk that pytest's collection repeats anyway."""
    from pytest_accel.gate.items import is_suite_file

    for argument in config.args:
        path = Path(config.invocation_params.dir, str(argument).partition("::")[0])
        if is_suite_file(path.name):
            return True
        for folder, folders, files in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS]
            if any(is_suite_file(name) for name in files):
                return True
            if "pyvenv.cfg" in files:
                folders[:] = []
            del folder
    return False


def facts_for(gate: Gate, folder: str) -> dict[str, Any]:
    """What a worker must know, as plain data."""
    run = asdict(gate.run)
    return {"options": {**asdict(gate.options), "suites": list(gate.options.suites)}, "run": {**run, "folder": folder}}


def device_environment(gate: Gate) -> dict[str, str]:
    """The variables that let a process of this worker see one device: the caller's list, taken in turn by the worker's number.

    Empty without xdist, on the host's own platform, and where the caller's list is empty.
    """
    names = gate.platform.visible_env
    if not gate.worker_id or not names or gate.machine.unfit is not None:
        return {}
    from pytest_accel.stack.choose import visible_for_worker

    current = next((os.environ[name] for name in names if os.environ.get(name) is not None), None)
    mine = visible_for_worker(current, len(gate.machine.probe.devices), gate.worker_number)
    if mine is None:
        return {}
    return {name: mine for name in names if name == names[0] or name in os.environ}


def measuring_environment(gate: Gate) -> dict[str, str]:
    """What every process that measures gets: the platform's defaults, and the caller's variables that hide faults, mended."""
    mended = {
        name: value for name, value in gate.platform.measuring_env.items() if os.environ.get(name, value) != value
    }
    return {**{name: value for name, value in gate.platform.default_env.items() if name not in os.environ}, **mended}


def narrow_to_device(gate: Gate) -> None:
    """Let Python tests of this worker see its own device only; where torch is loaded already, its device is chosen by index."""
    if "torch" not in sys.modules:
        os.environ.update(measuring_environment(gate))
        os.environ.update(device_environment(gate))
        gate.narrowed = bool(device_environment(gate))


@contextmanager
def reporting_as(session: pytest.Session, item: pytest.Item) -> Iterator[None]:
    """xdist's worker asserts that a report belongs to the item whose turn it is; a confirmed suspect reports later."""
    interactor: Any = next(
        (
            plugin
            for plugin in session.config.pluginmanager.get_plugins()
            if type(plugin).__name__ == "WorkerInteractor"
        ),
        None,
    )
    if interactor is None:
        yield
        return
    before = interactor.item_index
    interactor.item_index = session.items.index(item)
    try:
        yield
    finally:
        interactor.item_index = before
