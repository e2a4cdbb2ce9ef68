"""Suite files and their variants as pytest sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.gate.context import Gate, LoadedSuite, gate_of
from pytest_accel.gate.dry import is_dry

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from pytest_accel.report.types import CaseResult
    from pytest_accel.suite.types import Variant

SUFFIXES = (".accel.yaml", ".accel.yml")


class AccelFailure(Exception):
    """A verdict that fails its item; the text is the report."""


class AccelFile(pytest.File):
    """A suite file. Collecting it loads, expands and matches against the baseline; it touches no device."""

    def collect(self) -> Iterator[AccelItem]:
        """The variants that are asked for here, then the baseline's entries that no variant stands for any more."""
        gate = gate_of(self.config)
        try:
            if gate.machine.unfit is None and not (gate.problems or gate.options.in_process or is_dry(self.config)):
                gate.devices.start()  # now, so that loading torch overlaps collection; ended where it turns out not to be needed
            from pytest_accel.gate.loading import load_file
            from pytest_accel.gate.missing import entries_without_variant

            suite = load_file(gate, self.path)
            ghosts = entries_without_variant(gate, suite)
        except ConfigError as error:
            gate.problems.extend(error.problems)
            return
        for variant in suite.variants:
            yield AccelItem.from_parent(self, name=variant.key, variant=variant, suite=suite)
        for key, entry in ghosts:
            yield GhostItem.from_parent(self, name=key, suite=suite, entry=entry)


class AccelItem(pytest.Item):
    """One variant. It is measured and judged by ``gate.flow``; ``runtest`` only says the outcome."""

    def __init__(self, *, variant: Variant | None = None, suite: LoadedSuite, **kwargs: Any) -> None:
        # Given as text, pytest reads it as it reads ids from files (--lf, --sw): the part in brackets apart.
        super().__init__(nodeid=f"{kwargs['parent'].nodeid}::{kwargs['name']}", **kwargs)
        self.variant = variant
        self.suite = suite
        self.result: CaseResult | None = None
        self.stdout = ""
        self.stderr = ""
        self.detail = ""
        self.own_skip = False

    @property
    def key(self) -> str:
        """The variant's key in baselines and results."""
        return self.name

    @property
    def tier(self) -> str:
        """The tier by which the item was selected."""
        assert self.variant is not None
        return self.variant.tier

    @property
    def stored_path(self) -> str:
        """The suite file as baselines name it."""
        return self.suite.stored_path

    def runtest(self) -> None:
        """Say the outcome of the verdict that the flow reached."""
        from pytest_accel.gate.outcome import is_failure

        assert self.result is not None, "an item is measured before its outcome is said"
        if self.own_skip:
            pytest.skip(self.result.reason)
        if is_failure(self.result, gate_of(self.config).options):
            raise AccelFailure(self.result.reason)

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        """The verdict's report in place of a traceback; a defect of the plugin's own keeps its traceback."""
        if isinstance(excinfo.value, AccelFailure) and self.result is not None:
            from pytest_accel.gate.outcome import failure_repr

            return failure_repr(self.result, self.detail, str(self.path), self.line)
        return super().repr_failure(excinfo)

    @property
    def line(self) -> int:
        """The case's line in the suite file, from 1."""
        return self.variant.line if self.variant is not None else 1

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the case stands, for pytest's own lines."""
        return self.path, max(self.line - 1, 0), self.name


class GhostItem(AccelItem):
    """A baseline entry without a variant (MISSING): collected so that ``-k``, paths and tiers select it like any other."""

    def __init__(self, *, entry: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.entry = entry

    @property
    def tier(self) -> str:
        """The tier that the entry was stored with."""
        return str(self.entry.tier)

    @property
    def stored_path(self) -> str:
        """The suite file as the entry names it."""
        return str(self.entry.path)


def is_suite_file(name: str) -> bool:
    """True for file names that are collected wherever pytest looks."""
    return name.endswith(SUFFIXES)


def collects(gate: Gate, path: Path) -> bool:
    """True for a suite file by name, or one that ini ``accel_suites`` lists."""
    return is_suite_file(path.name) or str(path) in gate.options.suites
