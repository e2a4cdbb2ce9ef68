"""The rules of measuring on one device: one process at a time, one retry, and no trust in a process that something broke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_accel.runner.process import START_TIMEOUT, Launch, MeasuringProcess, NotReady, Surroundings
from pytest_accel.runner.types import Measurement, Request

if TYPE_CHECKING:
    from pytest_accel.stack.types import Device

_DEATHS = ("crash", "timeout")
_FAULTS = ("crash", "timeout", "error", "import-failed")
POISONED = "poisoned"


class Runner:
    """Measures variants on one device, in at most one process at a time.

    ``probe_part`` is what the probe knows of the stack (``hardware``, ``settings``, ``versions``); ``env`` is laid over
    pytest's environment (the variable that narrows which devices are seen); ``start_timeout`` in seconds, for a process to
    come up and for a set-up function; ``device``: watch its telemetry around timings;
    ``surroundings``: working directory, environment and import path of all its processes.
    """

    def __init__(
        self,
        platform_name: str,
        index: int,
        *,
        probe_part: Mapping[str, Mapping[str, Any]] | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float = START_TIMEOUT,
        device: Device | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._launch = Launch(platform_name, index, probe_part or {}, env or {}, start_timeout, device, surroundings)
        self._process: MeasuringProcess | None = None
        self._gone: Measurement | None = None

    def prestart(self) -> None:
        """Start the process without waiting for it, so that its imports overlap with whatever pytest does next."""
        if self._process is None and self._gone is None:
            self._process = MeasuringProcess(self._launch)

    def measure(self, request: Request, *, fresh: bool = False) -> Measurement:
        """Measure one variant, in a process where nothing ran before where ``fresh`` is true.

        A variant whose process dies, hangs or is poisoned, or that raises in a process where others ran before it, is tried
        once more in a fresh process. What the second try gives is the result, except that a crash stays a crash. Where a
        fresh process cannot reach the device, this and every later variant is ``device-lost`` (or ``device-stuck``).
        """
        if fresh:
            self.new_session()
        first, doubtful = self._try(request)
        if not doubtful:
            return first
        self._retire()
        second, _ = self._try(request)
        return _of_two(first, second)

    def send_ahead(self, request: Request) -> None:
        """Let the running process measure ``request`` before its turn; ``measure`` must be asked for it next.

        For work whose figures do not depend on what else the machine does. Does nothing where no process is idle and trusted.
        """
        if self._process is not None and self._gone is None:
            self._process.send_ahead(request)

    @property
    def is_ahead(self) -> bool:
        """True while a variant that was sent ahead waits to be asked for."""
        return self._process is not None and self._process.ahead is not None

    def reachable(self) -> bool:
        """Wait for a process that can measure; False where there can be none."""
        return self._ready() is not None

    def abandon(self) -> None:
        """Called from another thread: end what is measured now by SIGKILL, and measure nothing any more."""
        self._gone = Measurement("device-lost", code="stopped-early", reason="the run was stopped")
        process = self._process
        if process is not None:
            process.interrupt()

    def new_session(self) -> None:
        """Let the next variant be measured in a fresh process (one that has measured nothing yet is fresh)."""
        if self._process is not None and self._process.used:
            self._retire()

    def close(self) -> None:
        """End the process, if there is one. The runner may be used again."""
        self._retire()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _try(self, request: Request) -> tuple[Measurement, bool]:
        """One try, and whether it must be tried again: it died, was poisoned, or others before it may be to blame."""
        if self._process is not None and self._process.ahead not in (None, request):
            self._retire()  # it measures something that is no longer wanted
        process = self._ready()
        if process is None:
            assert self._gone is not None
            return self._gone, False
        shared = process.used > (0 if process.ahead is None else 1)
        try:
            measurement = process.request(request)
        except (TypeError, ValueError) as error:
            self._retire()
            reason = f"the params or settings cannot be sent to a measuring process: {error}"
            return Measurement("config", code="config", reason=reason), False
        if process.stuck:
            self._gone = replace(measurement, seconds=0.0)
        fault = measurement.outcome in ("error", "import-failed")
        doubtful = (
            measurement.outcome in _DEATHS or measurement.code == POISONED or (fault and shared and process.spoiled)
        )
        if process.spoiled:
            self._retire()
        return measurement, doubtful

    def _ready(self) -> MeasuringProcess | None:
        """A process that can measure; None, with the reason kept for all that follow, where there can be none."""
        for last in (False, True):
            if self._gone is not None:
                return None
            known = self._process
            if known is not None and known.hello is not None and known.ahead is None and not known.alive:
                self._retire()  # it died while nothing was asked of it
            self.prestart()
            process = self._process
            if process is None:
                return None
            try:
                process.ready()
                return process
            except NotReady as problem:
                stuck = process.stuck
                self._retire()
                if self._gone is None and (last or not problem.died):
                    self._gone = _lost(problem, process.pid)
                if stuck:
                    return None
        return None

    def _retire(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.close()
        if process.stuck and self._gone is None:
            self._gone = Measurement("device-stuck", code="device-stuck", reason=process.stuck_reason, pid=process.pid)


def _of_two(first: Measurement, second: Measurement) -> Measurement:
    """The result of a variant that was tried twice."""
    if second.outcome in ("device-lost", "device-stuck"):
        return replace(second, retried=first.reason, detail=second.detail or first.detail, out=first.out, err=first.err)
    crash = first.outcome == "crash"
    if second.outcome in _FAULTS:
        if crash and second.outcome != "crash":
            return replace(first, reason=f"{first.reason}; tried again in a fresh process: {second.reason}")
        return replace(second, retried=first.reason)
    if crash:
        reason = "it crashed, which passing on retry in a fresh process does not cure"
        return replace(first, reason=reason, retried=first.reason)
    return replace(second, retried=first.reason)


def _lost(problem: NotReady, pid: int) -> Measurement:
    return Measurement(
        "device-lost",
        code=problem.code,
        reason=problem.reason,
        detail=problem.detail,
        out=problem.out,
        err=problem.err,
        pid=pid,
    )
