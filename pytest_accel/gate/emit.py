"""Saying an item's outcome through pytest's own hooks, at the price of a plain test or less.

An accel item has no fixtures and nothing to set up: it was measured in another process before its outcome is said. Where no
other plugin and no conftest has a hook for setup, call or teardown, those phases are reported without being run.
"""

from __future__ import annotations

import pytest

# Plugins whose setup, call and teardown hooks do nothing to an item that is no Python function.
_NEUTRAL = (
    "_pytest.",
    "pytest_accel.",
    "_hypothesis_pytestplugin",
    "pytest_rerunfailures",
    "pytest_benchmark.",
    "xdist.",
)
_PHASES = ("pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown")


def say_outcome(item: pytest.Item, in_full: bool) -> None:
    """Report the item's setup, call and teardown; ``in_full`` runs all hooks of each phase as pytest does for a test."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if in_full:
        from _pytest.runner import runtestprotocol

        runtestprotocol(item, log=True, nextitem=None)
    else:
        _report(item)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def others_take_part(config: pytest.Config) -> bool:
    """True where somebody else has a hook for a phase of a test: then the phases are run in full."""
    for name in _PHASES:
        for implementation in getattr(config.hook, name).get_hookimpls():
            module = getattr(implementation.function, "__module__", "") or ""
            if not (module + ".").startswith(_NEUTRAL):
                return True
    return bool(config.getoption("setupshow", False))


def _report(item: pytest.Item) -> None:
    hook = item.ihook
    for when, work in (("setup", _nothing), ("call", item.runtest), ("teardown", _nothing)):
        call: pytest.CallInfo[None] = pytest.CallInfo.from_call(work, when=when)  # type: ignore[arg-type]
        report = hook.pytest_runtest_makereport(item=item, call=call)
        hook.pytest_runtest_logreport(report=report)
        if call.excinfo is not None and report.failed:
            hook.pytest_exception_interact(node=item, call=call, report=report)


def _nothing() -> None:
    """What there is to set up and to tear down."""
