"""One measuring process as pytest sees it: start it, ask it, limit its time, and leave nothing of it behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.runner.capture import Crumb, Spool
from pytest_accel.runner.protocol import Channel, Closed, Hello, Late, Message, Quit, Result, SetUp, Start
from pytest_accel.runner.types import Measurement, Outcome, Request
from pytest_accel.runner.watcher import open_pidfd

if TYPE_CHECKING:
    from pytest_accel.stack.types import Device

START_TIMEOUT = 180.0
QUIT_WAIT = 5.0
KILL_WAIT = 10.0
_GROUP_WAIT = 0.3
_DUMP_WAIT = 0.5
_DYING_WAIT = 1.0
_POLL_WITHOUT_PIDFD = 0.05
_IMPORT = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; sys.path.append(sys.argv[1]); "
    "from pytest_accel.runner.child import main; main()"
)


@dataclass(frozen=True)
class Surroundings:
    """Where processes run: working directory, environment, import path. Taken once, so that what tests and conftest files
    change while pytest runs makes no two sessions of a variant differ."""

    cwd: str
    environ: Mapping[str, str]
    sys_path: Sequence[str]

    @classmethod
    def here(cls, cwd: str | None = None) -> Surroundings:
        """Those of this process now, or in another working directory."""
        folder = cwd or os.getcwd()
        return cls(folder, dict(os.environ), [entry or folder for entry in sys.path])


@dataclass(frozen=True)
class Launch:
    """How the measuring processes of a device are started. ``start_timeout`` in seconds; ``env`` is laid over the
    environment of ``surroundings`` (pytest's at the start of each process, where there are none).

    ``probe_part`` holds ``hardware``, ``settings`` and ``versions`` as the probe saw them; ``device`` is given where its
    telemetry shall be watched around timings.
    """

    platform: str
    index: int
    probe_part: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    start_timeout: float = START_TIMEOUT
    device: Device | None = None
    surroundings: Surroundings | None = None


class NotReady(Exception):
    """The process came up without reaching its device, or not at all. ``died`` says that it ended by itself."""

    def __init__(self, code: str, reason: str, detail: str, out: str, err: str, died: bool) -> None:
        super().__init__(reason)
        self.code, self.reason, self.detail, self.out, self.err, self.died = code, reason, detail, out, err, died


class MeasuringProcess:
    """A process that measures variants one after another.

    ``used`` counts the variants it was given; ``spoiled`` says that no other should trust it; ``stuck`` that it outlived
    SIGKILL. Not for use by several threads.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.used = 0
        self.spoiled = False
        self.stuck = False
        self.hello: Hello | None = None
        self._setups: dict[str, Measurement] = {}
        self._ahead: tuple[Request, float] | None = None
        self._closed = False
        self._out, self._err, self._crumb = Spool(), Spool(), Crumb()
        self._started = time.monotonic()
        requests, send_requests = os.pipe()
        read_results, results = os.pipe()
        liveness, self._liveness = os.pipe()
        given = (requests, results, liveness)
        self._around = launch.surroundings or Surroundings.here()
        folder = str(Path(__file__).resolve().parents[2])
        try:
            # -c and not -m: with -m, a user's file named like a module of Python would be imported in its place.
            self._popen = subprocess.Popen(
                [sys.executable, "-u", "-c", _IMPORT, folder, *map(str, (*given, self._crumb.fd))],
                stdin=subprocess.DEVNULL,
                stdout=self._out.fd,
                stderr=self._err.fd,
                env={**self._around.environ, **launch.env},
                cwd=self._around.cwd,
                pass_fds=(*given, self._crumb.fd),
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (send_requests, read_results, self._liveness):
                os.close(descriptor)
            self._out.close()
            self._err.close()
            self._crumb.close()
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)
        self.pid = self._popen.pid
        self._pidfd = open_pidfd(self.pid)
        self._channel = Channel(read_results, send_requests, self._pidfd)
        try:
            with suppress(Closed, Late):  # it is dead or hangs already: ready() will say so
                self._channel.send(self._start_message(), self._started + launch.start_timeout)
        except BaseException:
            self.close()
            raise

    def _start_message(self) -> Start:
        launch = self.launch
        return Start(
            sys_path=list(self._around.sys_path),
            platform=launch.platform,
            index=launch.index,
            probe_part=launch.probe_part,
            parent=os.getpid(),
            follow_parent=threading.current_thread() is threading.main_thread(),
            dont_write_bytecode=sys.dont_write_bytecode,
            device=vars(launch.device) if launch.device is not None else None,
        )

    def ready(self) -> Hello:
        """Wait until the process can measure. Raises NotReady, the process being killed then, where it cannot."""
        if self.hello is not None:
            return self.hello
        limit = self.launch.start_timeout
        try:
            hello = self._receive(self._started + limit)
        except Closed:
            how = self._bury()
            raise self._not_ready(
                "start-failed", f"a new measuring process {how} before it reached its device", True
            ) from None
        except Late:
            self._dump_stacks()
            self.kill()
            reason = f"a new measuring process did not reach its device within {limit:g} s"
            raise self._not_ready("device-lost", reason, False) from None
        except BaseException:
            self.kill()
            raise
        assert isinstance(hello, Hello)
        if hello.problem:
            self.kill()
            raise self._not_ready(hello.code, hello.problem, False, hello.detail)
        self.hello = hello
        return hello

    def _not_ready(self, code: str, reason: str, died: bool, detail: str = "") -> NotReady:
        out, err = self._out.text(), self._err.text()
        return NotReady(code, reason, detail or _fatal(err), out, err, died)

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        if self._closed:
            return False
        if self._pidfd is None:
            return self._popen.poll() is None
        return not _readable(self._pidfd, 0.0)

    def request(self, request: Request) -> Measurement:
        """Measure one variant within its time limit (its set-up, where it is the first to need it, has ``start_timeout``).

        Never raises for what the workload does: death, hang and exceptions are outcomes. Raises NotReady where the process
        has not come up, and TypeError or ValueError for params that JSON cannot hold.
        """
        hello = self.ready()
        sent, self._ahead = self._ahead, None
        if sent is None:
            self._out.mark()
            self._err.mark()
            self.used += 1
        begin = time.monotonic() if sent is None else sent[1]
        try:
            measurement = self._set_up(request.setup) if sent is None else Measurement("measured")
            if measurement.outcome == "measured":
                measurement = self._ask(request if sent is None else None, request.timeout, "")
        except BaseException:
            self.kill()
            raise
        stack = {**hello.stack, **measurement.stack}
        return replace(
            measurement,
            stack=stack,
            out=self._out.text(),
            err=self._err.text().removesuffix(measurement.detail),
            seconds=measurement.seconds or time.monotonic() - begin,
            pid=self.pid,
        )

    def send_ahead(self, request: Request) -> None:
        """Send a variant before its turn, so that it is measured while pytest does something else.

        The next ``request`` must be the same. Does nothing where the process is not idle and trusted, or needs a set-up first.
        """
        if self.hello is None or self.spoiled or self._ahead is not None or not self.alive:
            return
        if request.setup is not None and request.setup not in self._setups:
            return
        self._out.mark()
        self._err.mark()
        with suppress(Closed, Late):  # it died just now: the answer that is waited for next will say so
            self._channel.send(request, time.monotonic() + request.timeout)
        self._ahead = (request, time.monotonic())
        self.used += 1

    @property
    def ahead(self) -> Request | None:
        """The variant that was sent before its turn and not asked for yet."""
        return self._ahead[0] if self._ahead is not None else None

    def _set_up(self, name: str | None) -> Measurement:
        """Call the set-up where this process has not done so; what came of it holds for all variants that need it."""
        if name is None:
            return Measurement("measured")
        if name not in self._setups:
            self._setups[name] = self._ask(SetUp(name), self.launch.start_timeout, f"set-up {name}: ")
        return self._setups[name]

    def _ask(self, message: SetUp | Request | None, limit: float, where: str) -> Measurement:
        """Send a message (None: it was sent ahead) and wait for its result."""
        deadline = time.monotonic() + limit
        try:
            if message is not None:
                self._channel.send(message, deadline)
            result = self._receive(deadline)
        except Closed:
            how = self._bury()
            return self._ended("crash", f"{where}the measuring process {how}", _fatal(self._err.text()))
        except Late:
            before = self._err.size()
            self._dump_stacks()
            self.kill()
            return self._ended("timeout", f"{where}no result after {limit:g} s, its time limit", self._err.text(before))
        assert isinstance(result, Result)
        self.spoiled = self.spoiled or result.spoiled
        return Measurement(**result.fields)

    def _ended(self, outcome: Outcome, reason: str, detail: str) -> Measurement:
        self.spoiled = True
        if self.stuck:
            return Measurement(
                "device-stuck", code="device-stuck", reason=f"{reason}; {self.stuck_reason}", detail=detail
            )
        at, notes = _left(self._crumb.text())
        return Measurement(outcome, code=outcome, reason=reason + at, detail=detail, notes=notes)

    @property
    def stuck_reason(self) -> str:
        """The sentence for a process that does not die."""
        return (
            f"process {self.pid} is still there {KILL_WAIT:g} s after SIGKILL, so its device cannot be used; "
            "see the kernel log, and reset the device or restart the machine"
        )

    def _receive(self, deadline: float) -> Message:
        if self._pidfd is not None:
            return self._channel.receive(deadline)
        while True:  # no pidfd: a copied pipe end may hide a death, so look now and then
            step = min(deadline, time.monotonic() + _POLL_WITHOUT_PIDFD)
            try:
                return self._channel.receive(step)
            except Late:
                if self._popen.poll() is not None:
                    raise Closed from None
                if step >= deadline:
                    raise

    def _dump_stacks(self) -> None:
        """Let the process write where it hangs: its fault handler answers SIGUSR1 even while C code runs."""
        before = self._err.size()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        until = time.monotonic() + _DUMP_WAIT
        size = before
        while self.alive and time.monotonic() < until:
            time.sleep(0.02)
            last, size = size, self._err.size()
            if size > before and size == last:
                break

    def _bury(self) -> str:
        """The process closed its pipe: wait for its end, kill what is left of it, and say how it ended."""
        if self._pidfd is not None:
            _readable(self._pidfd, _DYING_WAIT)
        else:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(_DYING_WAIT)
        natural = not self.alive
        self.kill()
        code = self._popen.returncode
        if not natural or code is None:
            return "closed its connection to pytest and did not end"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = " (killed from outside; by the kernel, where memory ran out)" if -code == signal.SIGKILL else ""
        return f"died by {name}{hint}"

    def interrupt(self) -> None:
        """SIGKILL the group from another thread; who waits for an answer sees the death and cleans up."""
        if not self._closed:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process: politely where it is idle, by SIGKILL otherwise. Its children end with it. May be called again."""
        try:
            if self.hello is not None and not self.spoiled and self._ahead is None and self.alive:
                with suppress(Closed, Late):
                    self._channel.send(Quit(), time.monotonic() + QUIT_WAIT)
                    self._receive(time.monotonic() + QUIT_WAIT)
        finally:
            self.kill()
            self._out.close()
            self._err.close()
            self._crumb.close()

    def kill(self) -> bool:
        """SIGKILL the whole process group and wait. False, with ``stuck`` set, where the process outlives it by 10 s."""
        if self._closed:
            return not self.stuck
        self._closed = True
        try:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            try:
                self._popen.wait(KILL_WAIT)
            except subprocess.TimeoutExpired:
                self.stuck = True
            else:
                self._await_group()
        finally:
            self._channel.close()
            os.close(self._liveness)
            if self._pidfd is not None:
                os.close(self._pidfd)
        return not self.stuck

    def _await_group(self) -> None:
        """Wait a little for killed children of the process: they may still hold the device's memory."""
        until = time.monotonic() + _GROUP_WAIT
        while time.monotonic() < until:
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.005)


def _left(crumb: str) -> tuple[str, dict[str, Any]]:
    """What a dead process was about to do, in words, and its notes: how to do the same by hand."""
    try:
        said = json.loads(crumb) if crumb.strip() else {}
    except ValueError:
        return "", {}
    at = said.pop("at", "")
    return (f", at {at}" if at else ""), {name: value for name, value in said.items() if value}


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _fatal(text: str) -> str:
    """The fault handler's part of what a dead process wrote."""
    begin = text.rfind("Fatal Python error")
    return text[begin:] if begin >= 0 else ""
