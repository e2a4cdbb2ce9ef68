"""The order of things in one process: measure, judge, put suspects aside, confirm them together, say the outcome.

A suspect timing may be called worse only after fresh processes agree. Starting one for each suspect would cost minutes,
so suspects wait until the last variant of this process has been measured, and share at most ``--accel-sessions`` - 1 more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.gate.assess import Assessment, assess, missing, not_judged, refused
from pytest_accel.gate.context import Gate
from pytest_accel.gate.emit import others_take_part, say_outcome
from pytest_accel.gate.items import AccelItem, GhostItem
from pytest_accel.runner.types import Measurement, Request

if TYPE_CHECKING:
    from pytest_accel.suite.types import Variant

DEFAULT_TIMEOUT = 300.0
PROGRESS_EVERY = 10.0
LOOK_AHEAD_FOR = 1.0


@dataclass
class Pending:
    """A suspect and the sessions it has had."""

    item: AccelItem
    sessions: list[Measurement] = field(default_factory=list)


class Flow:
    """Runs the accel items of one process in the order pytest gives them."""

    def __init__(self, gate: Gate, session: pytest.Session) -> None:
        self.gate = gate
        self.session = session
        self.pending: list[Pending] = []
        self.begun: dict[str, int] = {}
        self.late: AccelItem | None = None
        self.alone: set[str] = set()
        self.total = sum(isinstance(item, AccelItem) for item in session.items)
        self.last_word = time.monotonic()
        self.timed: dict[tuple[str, str], bool] = {}
        self.ahead: AccelItem | None = None
        self.lock_since = 0.0
        self.in_full = others_take_part(session.config)

    def take(self, item: AccelItem, following: pytest.Item | None) -> None:
        """Measure and judge one item; when no accel item follows, settle what waits and end the measuring process."""
        if item is self.late:
            say_outcome(item, self.in_full)
            return
        try:
            self._one(item, following)
        except pytest.fail.Exception as error:  # raised into whatever runs, as pytest-timeout does
            if item.result is not None:
                raise
            self._stopped(item, error)
        if not isinstance(following, AccelItem):
            self.settle()
            self.gate.close()

    def _one(self, item: AccelItem, following: pytest.Item | None) -> None:
        gate = self.gate
        if gate.problems:
            self._emit(item, refused("the run has configuration errors"))
        elif isinstance(item, GhostItem):
            self._emit(item, missing(gate, item))
        elif gate.unfit is not None:
            self._emit(item, not_judged("ENV", *gate.unfit))
        elif gate.options.in_process:
            reason = "run in the pytest process for debugging (--accel-in-process), which is no measurement"
            self._emit(item, not_judged("UNMEASURED", "in-process", reason))
        else:
            self._judge(Pending(item, [self._measure(item)]), gate.options.sessions - 1, following)

    def settle(self) -> None:
        """Confirm the suspects together: each round is one fresh process for all that are still in doubt."""
        rounds = self.gate.options.sessions - 1
        for left in range(rounds - 1, -1, -1):
            if not self.pending or self.session.shouldstop or self.session.shouldfail:
                break
            waiting, self.pending = self.pending, []
            self._say(f"accel: {len(waiting)} suspect or spoilt measured again in a fresh process", always=True)
            self.gate.devices.start().new_session()
            for suspect in waiting:
                try:
                    suspect.sessions.append(self._measure(suspect.item))
                except pytest.fail.Exception as error:
                    self._stopped(suspect.item, error, late=True)
                    continue
                self._judge(suspect, left)

    def _stopped(self, item: AccelItem, error: BaseException, late: bool = False) -> None:
        """Another plugin ended the measurement: say so of this item, and measure the next ones in a fresh process."""
        self.pending = [suspect for suspect in self.pending if suspect.item is not item]
        self.ahead = None
        self.gate.close()
        why = f"stopped from outside: {error}; the limit of one variant is its `timeout:`, in which waiting does not count"
        self._emit(item, not_judged("UNMEASURED", "stopped", why), late=late)

    def _judge(self, suspect: Pending, sessions_left: int, following: pytest.Item | None = None) -> None:
        try:
            assessment = assess(self.gate, suspect.item, suspect.sessions, sessions_left)
        except ConfigError as error:
            self.gate.problems_later.append(str(error))
            assessment = refused(str(error))
        variant = suspect.item.variant
        if variant is not None and assessment.rules:
            self.timed[variant.suite, variant.case] = any(rule.kind == "timing" for rule in assessment.rules.values())
        self._look_ahead(following)
        if assessment.suspects:
            self.pending.append(suspect)
        else:
            self._emit(suspect.item, assessment, late=len(suspect.sessions) > 1)

    def _measure(self, item: AccelItem) -> Measurement:
        variant = item.variant
        assert variant is not None
        gate = self.gate
        in_lanes = self._in_lanes(item)
        again = ", again" if item.nodeid in self.begun else ""
        number = self.begun.setdefault(item.nodeid, len(self.begun) + 1)
        self._say(f"accel: measuring {item.key} ({number} of {self.total}{again})")
        if gate.journal is not None:
            gate.journal.started(item.nodeid)
        devices = gate.devices
        if in_lanes:
            assert devices.lanes is not None
            return devices.lanes.take(item)
        wide = variant.requires.devices > 1
        if self.ahead is not item:
            if not devices.lock(exclusive=self._is_timed(variant) or wide, wide=wide):
                return Measurement(
                    outcome="unfit",
                    code="device-busy",
                    reason=f"another run held the device for more than {gate.options.lock_wait:g} s (ini accel_lock_wait)",
                )
            self.lock_since = time.monotonic()
        self.ahead = None
        return devices.start(wide).measure(self._request(variant))

    def _request(self, variant: Variant) -> Request:
        allowed = self.gate.platform.settings_allowed
        return Request(
            key=variant.key,
            workload=variant.workload,
            params=variant.params,
            settings={name: value for name, value in variant.settings.items() if name in allowed},
            timeout=variant.timeout or DEFAULT_TIMEOUT,
            setup=variant.setup,
        )

    def _is_timed(self, variant: Variant) -> bool:
        """True where the variant needs the device to itself; of a user's function that is known once a variant was judged."""
        from pytest_accel.workloads.registry import WORKLOADS

        known = WORKLOADS.get(variant.workload)
        return known.timed if known is not None else self.timed.get((variant.suite, variant.case), True)

    def _in_lanes(self, item: pytest.Item | None) -> bool:
        """True where ``item`` is measured by several processes at once; they start where a long enough row of such begins."""
        devices = self.gate.devices
        if devices.lanes is not None and devices.lanes.covers(item):
            return True
        if (
            self.gate.worker_id
            or not isinstance(item, AccelItem)
            or item.nodeid in self.begun
            or item.nodeid in self.alone
        ):
            return False
        row: list[AccelItem] = []
        items = self.session.items
        for following in items[items.index(item) :]:
            if not isinstance(following, AccelItem) or not _takes_lanes(following.variant):
                break
            row.append(following)
        devices.close_lanes()
        if devices.open_lanes(row, lambda each: self._request(each.variant)):  # type: ignore[arg-type]
            return True
        self.alone.update(each.nodeid for each in row or [item])
        return False

    def _look_ahead(self, following: pytest.Item | None) -> None:
        """Let the next variant be measured while this one is reported, where its figures are no timings; else free the device.

        The lock is given back now and then, so that another run's timings get their turn.
        """
        devices = self.gate.devices
        variant = following.variant if isinstance(following, AccelItem) else None
        if self._in_lanes(following):
            return
        if (
            variant is not None
            and not self._is_timed(variant)
            and variant.requires.devices == 1
            and devices.runner is not None
            and time.monotonic() - self.lock_since < LOOK_AHEAD_FOR
        ):
            devices.runner.send_ahead(self._request(variant))
            if devices.runner.is_ahead:
                assert isinstance(following, AccelItem)
                self.ahead = following
                return
        devices.unlock()

    def _emit(self, item: AccelItem, assessment: Assessment, late: bool = False) -> None:
        from pytest_accel.gate.workers import reporting_as

        self.begun.setdefault(item.nodeid, len(self.begun) + 1)
        item.result = assessment.result(self.gate, item)
        item.own_skip = assessment.own_skip
        item.detail = assessment.detail
        for stream, text in (("stdout", assessment.out), ("stderr", assessment.err)):
            if text:
                item.add_report_section("call", stream, text)
        if late:  # once more through the hook: plugins prepare an item for its reports when its protocol begins
            self.late = item
            with reporting_as(self.session, item):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=item)
            self.late = None
        else:
            say_outcome(item, self.in_full)
        if self.gate.journal is not None:
            self.gate.journal.finished(item.nodeid)
        self.last_word = time.monotonic()

    def _say(self, text: str, always: bool = False) -> None:
        reporter = self.session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self.gate.worker_id or self.session.config.option.verbose < 0:
            return
        if always or time.monotonic() - self.last_word > PROGRESS_EVERY:
            reporter.ensure_newline()
            reporter.write_line(text)
            self.last_word = time.monotonic()


def _takes_lanes(variant: Variant | None) -> bool:
    """True for variants of a built-in workload of which several may run on one device at once."""
    from pytest_accel.workloads.registry import WORKLOADS

    known = WORKLOADS.get(variant.workload) if variant is not None else None
    return known is not None and known.lanes and variant is not None and variant.requires.devices == 1
