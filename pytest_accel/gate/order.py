"""Which items are ours, and in which order they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.gate.context import gate_if_any

if TYPE_CHECKING:
    from pytest_accel.gate.context import Gate

_CONCERNS = pytest.StashKey[bool]()


def concerns(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """True where a suite file was met, a Python test uses the accelerator, or a baselines folder lies beside the arguments."""
    from pytest_accel.gate.missing import may_hold_entries
    from pytest_accel.gate.python_tests import uses_accel

    found = gate_if_any(config) is not None or any(uses_accel(item) for item in items) or may_hold_entries(config)
    config.stash[_CONCERNS] = found
    return found


def concerned(config: pytest.Config, session: pytest.Session) -> bool:
    """What ``concerns`` said, narrowed to what is still selected; True also where a suite file holds nothing for this machine."""
    gate = gate_if_any(config)
    if gate is None or not config.stash.get(_CONCERNS, False):
        return False
    return bool(gate.problems) or any(is_ours(item) for item in session.items) or not session.items


def is_ours(item: pytest.Item) -> bool:
    """True for a suite variant, a missing entry, or a Python test that uses the accelerator."""
    from pytest_accel.gate.items import AccelItem
    from pytest_accel.gate.python_tests import uses_accel

    return isinstance(item, AccelItem) or uses_accel(item)


def arrange(gate: Gate, session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add orphans, check markers, then: suites (several-device variants last), everybody's tests, accel Python tests.

    Suites come first so that no test of anybody's holds the device while they are measured, accel Python tests last so that
    measuring processes have ended when they run; the order within each group is pytest's.
    """
    from pytest_accel.gate.items import AccelItem
    from pytest_accel.gate.missing import orphans
    from pytest_accel.gate.python_tests import marker_problems, uses_accel

    for item in items:
        if uses_accel(item):
            gate.problems.extend(marker_problems(item))
    gate.problems.extend(_shared_keys(gate, items))
    try:
        added = orphans(gate, session, items)
    except ConfigError as error:
        gate.problems.extend(error.problems)
        added = []
    if added:
        kept, deselected = _select(session, added)
        items.extend(kept)
        if deselected:
            session.config.hook.pytest_deselected(items=deselected)

    def place(item: pytest.Item) -> int:
        if isinstance(item, AccelItem):
            return 1 if item.variant is not None and item.variant.requires.devices > 1 else 0
        return 3 if uses_accel(item) else 2

    items.sort(key=place)


def _shared_keys(gate: Gate, items: list[pytest.Item]) -> list[Problem]:
    """Tests that have no key, and two that check under one key: the one's values would be judged against the other's."""
    from pytest_accel.gate.python_tests import key_of

    known: dict[str, str] = {}
    problems: list[Problem] = []
    for item in items:
        if not isinstance(item, pytest.Function) or not {"accel_check", "benchmark"} & set(item.fixturenames):
            continue
        if "accel_check" not in item.fixturenames and item.get_closest_marker("accel") is None:
            continue  # a benchmark is judged where it is marked
        try:
            key = key_of(gate, item)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        other = known.setdefault(key, item.nodeid)
        if other != item.nodeid:
            path, line, _ = item.reportinfo()
            what = f"{other} and {item.nodeid} have one baseline key, {key}: their parameters have the same values"
            problems.append(Problem(what, "give each set of parameters a value of its own", str(path), (line or 0) + 1))
    return problems


def _select(session: pytest.Session, items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Apply pytest's own ``-k``, ``-m`` and ``--deselect`` to items that were added after it had selected."""
    from _pytest.mark import deselect_by_keyword, deselect_by_mark

    kept = list(items)
    deselect_by_keyword(kept, session.config)
    deselect_by_mark(kept, session.config)
    prefixes = tuple(session.config.getoption("deselect") or ())
    if prefixes:
        kept = [item for item in kept if not item.nodeid.startswith(prefixes)]
    names = {item.nodeid for item in kept}
    return kept, [item for item in items if item.nodeid not in names]


def asked_record(gate: Gate, item: pytest.Item) -> dict[str, Any]:
    """What the ledger must know of an asked-for item, also where the process that ran it died."""
    from pytest_accel.gate.context import relative_to_root
    from pytest_accel.gate.items import AccelItem
    from pytest_accel.gate.python_tests import SUITE, key_of

    if isinstance(item, AccelItem):
        variant = item.variant
        return {
            "nodeid": item.nodeid,
            "key": item.key,
            "suite": item.suite.name,
            "case": variant.case if variant else getattr(item, "entry").case,  # noqa: B009
            "params": {**variant.params, **variant.settings} if variant else {},
            "tier": item.tier,
            "path": item.stored_path,
            "baselines": str(item.suite.baselines),
        }
    folder = gate.baselines_for(item.path)
    key = key_of(gate, item)
    stored = gate.baseline(folder, SUITE)
    return {
        "nodeid": item.nodeid,
        "key": key,
        "suite": SUITE,
        "case": getattr(item, "originalname", item.name),
        "params": {},
        "tier": "gate",
        "path": relative_to_root(item.path, folder),
        "baselines": str(folder),
        # a marked test that checks nothing is an ordinary test; one that the baseline knows must answer
        "optional": stored is None or key not in stored.entries,
    }
