"""Several measuring processes on one device at once, for variants that measure no time and need little memory.

Each lane is a thread with a runner of its own: it takes the next variant in pytest's order, measures it, and keeps the result
until its turn comes. What is judged and reported, and in which order, is the same as with one process.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_accel.locks import DeviceLock
from pytest_accel.runner.types import Measurement

if TYPE_CHECKING:
    from pytest_accel.gate.context import Gate
    from pytest_accel.gate.items import AccelItem
    from pytest_accel.runner.runner import Runner
    from pytest_accel.runner.types import Request

MOST = 8  # contexts of so many processes fit on any card, and the host's part of the work is spread well enough
WORTH = 60  # variants that pay for one process more: it loads torch and the operator database first, 5 to 10 s
_WAIT = 0.5  # seconds between looks while waiting, so that Ctrl-C is answered
_JOIN = 20.0


def how_many(gate: Gate, variants: int) -> int:
    """How many processes to measure so many variants in: 1 under xdist, which has processes of its own."""
    if gate.worker_id:
        return 1
    limit = gate.options.lanes or min(len(os.sched_getaffinity(0)), MOST)
    return max(1, min(limit, 1 + variants // WORTH))


class Lanes:
    """Measures ``items`` ahead of their turn, each in one of ``runners``; the first runner is the caller's and stays open."""

    def __init__(
        self,
        gate: Gate,
        items: Sequence[AccelItem],
        runners: Sequence[Runner],
        request_of: Callable[[AccelItem], Request],
    ) -> None:
        self._gate = gate
        self._request_of = request_of
        self._runners = list(runners)
        self._waiting = deque(items)
        self._covered = {item.nodeid for item in items}
        self._done: dict[str, Measurement | BaseException] = {}
        self._change = threading.Condition()
        self._stopped = False
        for runner in self._runners[1:]:
            runner.prestart()
        self._threads = [
            threading.Thread(target=self._work, args=(runner,), name=f"accel-lane-{number}", daemon=True)
            for number, runner in enumerate(self._runners)
        ]
        for thread in self._threads:
            thread.start()

    def covers(self, item: object) -> bool:
        """True for an item that is measured here and whose result was not taken yet."""
        return getattr(item, "nodeid", None) in self._covered

    def take(self, item: AccelItem) -> Measurement:
        """The measurement of ``item``, waited for. Raises what its lane raised."""
        with self._change:
            while item.nodeid not in self._done:
                self._change.wait(_WAIT)
            found = self._done.pop(item.nodeid)
            self._covered.discard(item.nodeid)
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        """Stop at once: what runs is killed, what waits is not measured. Does little where all was measured."""
        with self._change:
            self._stopped = True
            left = bool(self._covered)
            self._waiting.clear()
        if left:
            for runner in self._runners:
                runner.abandon()
        for thread in self._threads:
            thread.join(_JOIN)
        for runner in self._runners[1:]:
            runner.close()

    def _work(self, runner: Runner) -> None:
        first = runner is self._runners[0]
        # A device may refuse a second process (an exclusive compute mode): then there are fewer lanes, and no fault.
        if not first and not runner.reachable():
            return
        while True:
            with self._change:
                if self._stopped or not self._waiting:
                    break
                item = self._waiting.popleft()
            try:
                found: Measurement | BaseException = self._measured(runner, item)
            except BaseException as error:  # told in the main thread, at the item's turn
                found = error
            with self._change:
                self._done[item.nodeid] = found
                self._change.notify_all()
        if not first:
            runner.close()

    def _measured(self, runner: Runner, item: AccelItem) -> Measurement:
        wait = self._gate.options.lock_wait
        lock = DeviceLock(self._gate.device_identity())
        if not lock.acquire(exclusive=False, timeout=wait):
            reason = f"another run held the device for more than {wait:g} s (ini accel_lock_wait)"
            return Measurement(outcome="unfit", code="device-busy", reason=reason)
        with lock:
            return runner.measure(self._request_of(item))
