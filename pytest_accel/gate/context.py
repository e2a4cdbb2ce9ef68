"""What one pytest process knows of its run: options, the machine, the suites it loaded, the baselines beside them."""

from __future__ import annotations

import datetime
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.gate.dry import results_target
from pytest_accel.gate.options import Options, read_options

if TYPE_CHECKING:
    from pytest_accel.baseline.types import BaselineFile, StoredEntry
    from pytest_accel.gate.devices import Devices
    from pytest_accel.runner.journal import Journal
    from pytest_accel.runner.process import Surroundings
    from pytest_accel.stack.platform import Platform
    from pytest_accel.stack.types import Device, Finding, Machine
    from pytest_accel.suite.types import Variant
    from pytest_accel.verdict.family import Family
    from pytest_accel.verdict.types import Entry, Rule

MARKERS_OF_A_PROJECT = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", ".git")
GATE = pytest.StashKey["Gate"]()


@dataclass(frozen=True)
class RunFacts:
    """What all processes of one run share: its id, its UTC start (ISO 8601), the folder of its journals."""

    id: str
    started: str
    folder: str | None = None

    @property
    def date(self) -> datetime.date:
        """The UTC start date, against which waivers expire."""
        return datetime.datetime.fromisoformat(self.started).date()


@dataclass
class LoadedSuite:
    """One suite file: its variants for this platform, split by whether they are for this machine and tier."""

    name: str
    path: Path
    baselines: Path
    variants: list[Variant] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    other_tiers: int = 0
    all_keys: set[str] = field(default_factory=set)
    rules: dict[Any, dict[str, Rule]] = field(default_factory=dict)

    @cached_property
    def stored_path(self) -> str:
        """The suite file as baselines name it."""
        return relative_to_root(self.path, self.baselines)


class Gate:
    """The state of the run in this process. Made when the first suite file or accel test is met, never before."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.problems: list[Problem] = []
        self.suites: dict[str, LoadedSuite] = {}
        self.narrowed = False
        self.findings: tuple[Finding, ...] = ()
        self._last_stack: tuple[Mapping[str, Any], str] | None = None
        self.problems_later: list[str] = []
        self.stacks: dict[str, Mapping[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        worker = getattr(config, "workerinput", {}).get("accel")
        self.worker_id: str = getattr(config, "workerinput", {}).get("workerid", "")
        if worker:
            self.options = Options(**{**worker["options"], "suites": tuple(worker["options"]["suites"])})
            self.run = RunFacts(**worker["run"])
        else:
            try:
                self.options = read_options(config)
            except ConfigError as error:
                self.problems.extend(error.problems)
                self.options = Options(report=results_target(config))  # its exit code is written all the same
            now = datetime.datetime.now(datetime.timezone.utc)
            self.run = RunFacts(id=uuid.uuid4().hex[:16], started=now.isoformat(timespec="seconds"))

    # --- the machine ---------------------------------------------------------------------------------------------------
    @cached_property
    def machine(self) -> Machine:
        """The platform to judge on, found without initialising a device, with what doctor's rules say of it.

        A finding of severity error makes the machine unfit: what is measured on it would not be the stack that is meant.
        """
        from pytest_accel.stack.choose import choose
        from pytest_accel.stack.doctor import examine_machine
        from pytest_accel.stack.host import Host

        host = Host()
        machine = choose(self.options.accel, host, self.options.devices)
        self.findings = tuple(examine_machine(machine, host))
        wrong = next((found for found in self.findings if found.severity == "error"), None)
        if machine.unfit is None and wrong is not None:
            mend = f"; to mend it: {wrong.mend}" if wrong.mend else ""
            machine = replace(machine, unfit=(wrong.code, f"{wrong.message}{mend}"))
        return machine

    @cached_property
    def platform(self) -> Platform:
        """The class of the machine's platform."""
        from pytest_accel.stack.registry import platform

        return platform(self.machine.platform)

    @cached_property
    def unfit(self) -> tuple[str, str] | None:
        """Why this machine may not judge at all: (code, sentence), or None."""
        if self.machine.unfit is not None:
            return self.machine.unfit
        from pytest_accel.gate.identity import misplaced

        return misplaced(self.machine, self.options, self.baseline_folders())

    @property
    def cpu_model(self) -> tuple[str, int] | None:
        """CPU model and core count, by which timings on the host's own platform are matched; else None."""
        if self.platform.device_type != "cpu":
            return None
        hardware = self.machine.probe.hardware
        return str(hardware.get("name", "")), int(hardware.get("cores") or 0)

    @property
    def worker_number(self) -> int:
        """The number in this worker's id, 0 without xdist."""
        return int("".join(filter(str.isdigit, self.worker_id)) or 0)

    @property
    def device(self) -> Device | None:
        """The device that this process measures on, as the probe of the whole host saw it."""
        devices = self.machine.probe.devices
        return devices[self.worker_number % len(devices)] if devices else None

    def device_name(self) -> str:
        """What the results call the device: torch's type with its index on the host."""
        kind = self.platform.device_type
        return kind if kind == "cpu" or self.device is None else f"{kind}:{self.device.index}"

    def device_identity(self) -> str:
        """The hashed id of the physical device that timings hold a lock on; on the host's own platform the machine's."""
        return (self.device.identity if self.device else "") or self.machine.machine_id

    # --- baselines -----------------------------------------------------------------------------------------------------
    def baselines_for(self, path: Path) -> Path:
        """The folder of accepted values for a suite or test file, as interface and options say."""
        return Path(self.options.baselines) if self.options.baselines else default_baselines(path)

    def baseline_folders(self) -> set[Path]:
        """Every baselines folder that this run looks into."""
        folders = {suite.baselines for suite in self.suites.values()}
        if not folders:
            folders = {self.baselines_for(Path(self.config.rootpath) / "any")}
        return folders

    def baseline(self, folder: Path, suite: str) -> BaselineFile | None:
        """The file of ``suite`` for this hardware, read once; None where there is none. Raises ConfigError where it is broken."""
        key = (folder, suite)
        if key not in self._files:
            from pytest_accel.baseline.store import load

            self._files[key] = load(folder, self.machine.probe.slug, suite)
        return self._files[key]

    @cached_property
    def _files(self) -> dict[tuple[Path, str], BaselineFile | None]:
        return {}

    def entry_view(
        self, stored: BaselineFile | None, entry: StoredEntry | None, rules: Mapping[str, Rule]
    ) -> Entry | None:
        """The entry as the judge sees it: the sessions that may be compared here."""
        if stored is None or entry is None:
            return None
        from pytest_accel.baseline.match import entry_view

        kinds = {name: rule.kind for name, rule in rules.items()}
        family = self._family(stored) if "timing" in kinds.values() else None
        return entry_view(stored, entry, kinds=kinds, cpu=self.cpu_model, family=family)

    def _family(self, stored: BaselineFile) -> Family:
        """What the timings of a file share, found once for each file."""
        if id(stored) not in self._families:
            from pytest_accel.baseline.match import timing_family

            self._families[id(stored)] = stored, timing_family(stored, self.cpu_model)
        return self._families[id(stored)][1]

    @cached_property
    def _families(self) -> dict[int, tuple[BaselineFile, Family]]:
        return {}

    def stack_id(self, stack: Mapping[str, Any]) -> str:
        """A short name for a stack by its content; the stack itself is kept once, in ``stacks``."""
        from pytest_accel.baseline.store import stack_hash

        if self._last_stack is not None and self._last_stack[0] == stack:
            return self._last_stack[1]
        name = stack_hash(stack)  # a process measures on one stack: hashing it once for each variant would be felt
        self._last_stack = (stack, name)
        if name not in self.stacks:
            self.stacks[name] = json.loads(json.dumps(stack, default=str))  # plain types only: it may cross processes
        return name

    # --- the measuring process -----------------------------------------------------------------------------------------
    @cached_property
    def surroundings(self) -> Surroundings:
        """Where every measuring process of this run runs: where pytest was called, as it was when the first one started."""
        from pytest_accel.runner.process import Surroundings

        return Surroundings.here(str(self.config.invocation_params.dir))

    @cached_property
    def devices(self) -> Devices:
        """The measuring process and the device locks."""
        from pytest_accel.gate.devices import Devices

        return Devices(self)

    def close(self) -> None:
        """End the measuring process, if there is one, and give the device back."""
        if "devices" in self.__dict__:
            self.devices.close()

    @cached_property
    def journal(self) -> Journal | None:
        """Where this worker writes what it starts and finishes, so that its death loses nothing; None without xdist."""
        if self.run.folder is None:
            return None
        from pytest_accel.runner.journal import Journal

        return Journal(Path(self.run.folder) / f"{self.worker_id or 'main'}.jsonl")


def gate_of(config: pytest.Config) -> Gate:
    """The run's state in this process, made at the first call."""
    gate = config.stash.get(GATE, None)
    if gate is None:
        gate = Gate(config)
        config.stash[GATE] = gate
    return gate


def gate_if_any(config: pytest.Config) -> Gate | None:
    """The run's state where one was made, else None: with no accel item nothing is made and nothing is changed."""
    return config.stash.get(GATE, None)


def default_baselines(path: Path) -> Path:
    """``baselines`` beside the nearest project file above ``path``; where there is none, beside ``path`` itself."""
    for folder in _above(path):
        if any((folder / name).exists() for name in MARKERS_OF_A_PROJECT):
            return folder / "baselines"
    return path.parent / "baselines"


def _above(path: Path) -> Iterator[Path]:
    yield path if path.is_dir() else path.parent
    yield from (path if path.is_dir() else path.parent).parents


def relative_to_root(path: Path, baselines: Path) -> str:
    """``path`` as baselines store it: POSIX, relative to the folder that holds the baselines folder."""
    return Path(os.path.relpath(path, baselines.parent)).as_posix()
