"""Baseline entries that no variant stands for any more: MISSING must be an item, or a suite could shrink in silence."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.gate.context import Gate, LoadedSuite, default_baselines, relative_to_root
from pytest_accel.suite.types import TIERS

if TYPE_CHECKING:
    from pytest_accel.baseline.types import BaselineFile, StoredEntry

PYTHON_SUITE = "py"


def entries_without_variant(gate: Gate, suite: LoadedSuite) -> list[tuple[str, StoredEntry]]:
    """Entries of the suite's own baseline file that have no variant here, or whose variant is no longer for this machine."""
    stored = gate.baseline(suite.baselines, suite.name)
    if stored is None:
        return []
    here = relative_to_root(suite.path, suite.baselines)
    _refuse_same_name_elsewhere(suite, stored, here)
    return [
        (key, entry)
        for key, entry in sorted(stored.entries.items())
        if entry.tombstone is None and _in_tier(gate, entry) and (key not in suite.all_keys or key in suite.elsewhere)
    ]


def _refuse_same_name_elsewhere(suite: LoadedSuite, stored: BaselineFile, here: str) -> None:
    root = suite.baselines.parent
    others = {entry.path for entry in stored.entries.values()} - {here}
    for other in sorted(others):
        path = root / other
        if path.is_file() and path.resolve() != suite.path.resolve():
            raise ConfigError.at(
                suite.path,
                None,
                f"suite `{suite.name}` shares its name with {path}, and both store in {suite.baselines}",
                "give one of them another `suite:` name",
            )


def _in_tier(gate: Gate, entry: StoredEntry) -> bool:
    return TIERS.index(entry.tier) <= TIERS.index(gate.options.tier) if entry.tier in TIERS else True


def orphans(gate: Gate, session: pytest.Session, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Items for entries whose suite file, or whose Python test, is gone, as far as the run's arguments ask for its path."""
    from pytest_accel.gate.items import AccelFile, GhostItem

    made: list[pytest.Item] = []
    python_keys = _python_keys(gate, items)
    for folder in _folders(gate, session):
        for stored in _stored_here(gate, folder):
            for key, entry in sorted(stored.entries.items()):
                if entry.tombstone is not None or not _in_tier(gate, entry):
                    continue
                path = folder.parent / entry.path
                if stored.suite == PYTHON_SUITE:
                    if key in python_keys or not _asked(session, path, key):
                        continue
                elif path.exists() or not _asked(session, path, key) or _moved(gate, folder, stored.suite):
                    continue
                suite = LoadedSuite(name=stored.suite, path=path, baselines=folder)
                parent = AccelFile.from_parent(session, path=path)
                made.append(GhostItem.from_parent(parent, name=key, suite=suite, entry=entry))
    return made


def _moved(gate: Gate, folder: Path, suite: str) -> bool:
    """The suite stands in another file now, whose own collection has looked at these entries."""
    return any(loaded.name == suite and loaded.baselines == folder for loaded in gate.suites.values())


def _folders(gate: Gate, session: pytest.Session) -> list[Path]:
    folders = gate.baseline_folders() if gate.suites else set()
    if gate.options.baselines:
        folders.add(Path(gate.options.baselines))
    else:
        folders |= {default_baselines(path) for path, _ in _arguments(session)}
    return sorted(folders)


def _stored_here(gate: Gate, folder: Path) -> list[BaselineFile]:
    from pytest_accel.baseline.store import suites_in

    found = []
    for name in suites_in(folder, gate.machine.probe.slug):
        stored = gate.baseline(folder, name)
        if stored is not None:
            found.append(stored)
    return found


def _python_keys(gate: Gate, items: Iterable[pytest.Item]) -> set[str]:
    """The keys of tests that may check something; one that no longer asks for the fixtures leaves its entry MISSING."""
    from pytest_accel.gate.python_tests import key_of, uses_accel

    return {key_of(gate, item) for item in items if uses_accel(item)}


def _arguments(session: pytest.Session) -> list[tuple[Path, str]]:
    """The run's arguments as (path, node id inside it)."""
    base = session.config.invocation_params.dir
    split = [str(argument).partition("::") for argument in session.config.args]
    return [(Path(os.path.normpath(base / path)), inner) for path, _, inner in split]


def _asked(session: pytest.Session, path: Path, key: str) -> bool:
    """True where an argument covers ``path``, wholly or by a node id that the key begins with."""
    for argument, inner in _arguments(session):
        if path == argument or argument in path.parents:
            if not inner:
                return True
            own = key.partition("::")[2] if key.startswith(f"{PYTHON_SUITE}:") else key
            if own == inner or own.startswith((f"{inner}[", f"{inner}::")):
                return True
    return False


def may_hold_entries(config: pytest.Config) -> bool:
    """A cheap look, without a probe, whether any baselines folder lies beside the run's arguments."""
    from pytest_accel.baseline.store import looks_like_baselines

    base = config.invocation_params.dir
    named = config.getoption("accel_baselines", None) or config.getini("accel_baselines")
    folders = {
        default_baselines(Path(os.path.normpath(base / str(argument).partition("::")[0]))) for argument in config.args
    }
    if named:
        folders.add(Path(os.path.normpath(base / str(named))))
    return any(looks_like_baselines(folder) for folder in folders)
