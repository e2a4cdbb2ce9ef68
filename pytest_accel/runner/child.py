"""The measuring process: pytest's import path, working directory and environment, never its conftest files.

Four descriptors are given by number: the pipe it reads, the pipe it writes, the pipe whose end tells that pytest is gone, and the
file where it leaves what it is about to do.
Its standard output and error are files, so that what it said outlives it.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError
from pytest_accel.runner.capture import leave_crumb
from pytest_accel.runner.execute import Bench, sentence
from pytest_accel.runner.protocol import Channel, Closed, Hello, Quit, Result, SetUp, Start
from pytest_accel.runner.types import Request
from pytest_accel.runner.watcher import die_with_parent, start_watcher

if TYPE_CHECKING:
    from pytest_accel.stack.platform import Platform
    from pytest_accel.stack.types import Stack, Telemetry


class Output:
    """Keeps descriptors 1 and 2 on their files, whatever a workload did to them."""

    def __init__(self) -> None:
        # High numbers, so that a workload which closes the low ones does not close these.
        self.out, self.err = (_high_copy(number) for number in (1, 2))
        self._libc = _c_library()

    def restore(self) -> None:
        """Write out what is buffered, and put both streams back where they belong."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                continue  # closed or replaced by the workload: mended below
        if self._libc is not None:
            self._libc.fflush(None)
        os.dup2(self.out, 1)
        os.dup2(self.err, 2)
        if sys.stdout is not sys.__stdout__ or sys.stdout is None or sys.stdout.closed:
            sys.stdout = sys.__stdout__ = _stream(1)  # type: ignore[misc]
        if sys.stderr is not sys.__stderr__ or sys.stderr is None or sys.stderr.closed:
            sys.stderr = sys.__stderr__ = _stream(2)  # type: ignore[misc]

    def stderr_text(self) -> str:
        """What this process wrote to its standard error, since pytest last emptied the file."""
        return os.pread(self.err, os.fstat(self.err).st_size, 0).decode("utf-8", "replace")


def _high_copy(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)


def _stream(descriptor: int) -> Any:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def main() -> None:
    """Run until told to quit or until pytest is gone."""
    reading, writing, liveness, crumb = (int(number) for number in sys.argv[-4:])
    sys.argv[:] = ["pytest-accel-measuring-process"]
    for descriptor in (reading, writing, liveness, crumb):
        os.set_inheritable(descriptor, False)
    channel = Channel(reading, writing)
    try:
        start = channel.receive()
    except Closed:
        return
    assert isinstance(start, Start)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # the watcher kills this group: it must hold nobody else
    watcher = start_watcher(liveness, start.parent, (reading, writing))
    os.close(liveness)
    if start.follow_parent:
        die_with_parent()
    output = Output()
    faulthandler.enable(file=output.err)
    faulthandler.register(signal.SIGUSR1, file=output.err)  # pytest asks where a variant hangs before it kills
    sys.path[:] = start.sys_path
    sys.dont_write_bytecode = start.dont_write_bytecode
    own = os.getpid()
    bench, hello = _prepare(start, output.stderr_text, lambda line: leave_crumb(crumb, line))
    try:
        channel.send(hello)
        while bench is not None:
            message = channel.receive()
            if isinstance(message, Quit):
                break
            result = _answer(bench, message)
            if os.getpid() != own:  # a workload forked, and the child came back here instead of ending
                os._exit(0)
            output.restore()
            _send(channel, result)
    except Closed:
        pass  # pytest is gone, or wants no more
    _leave(watcher, output)


def _answer(bench: Bench, message: object) -> Result:
    if isinstance(message, SetUp):
        return bench.set_up(message.function)
    assert isinstance(message, Request)
    return bench.measure(message)


def _send(channel: Channel, result: Result) -> None:
    try:
        channel.send(result)
    except (TypeError, ValueError) as error:
        channel.send(Result({"outcome": "config", "code": "config", "reason": f"a note or metric is no JSON: {error}"}))


def _prepare(start: Start, stderr_text: Callable[[], str], crumb: Callable[[str], None]) -> tuple[Bench | None, Hello]:
    """Import torch, see that the device answers, and read the stack; or say why this process cannot measure."""
    from pytest_accel.stack.registry import platform as platform_of
    from pytest_accel.stack.types import Stack

    pid = os.getpid()
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return None, _unable(pid, "torch-broken", "torch is installed and cannot be imported", error)
        torch = None
    except Exception as error:
        return None, _unable(pid, "torch-broken", "torch is installed and cannot be imported", error)
    try:
        platform = platform_of(start.platform)
    except ConfigError as error:
        return None, _unable(pid, "start-failed", "the platform cannot be used", error)
    stack = Stack(start.platform, **start.probe_part)
    if torch is not None:
        try:
            platform.check(start.index)
        except Exception as error:
            return None, _unable(pid, "device-lost", f"device {start.index} does not answer", error)
        try:
            from pytest_accel.stack.loaded import loaded_stack

            stack = loaded_stack(platform, start.index, start.probe_part)
        except Exception as error:
            return None, _unable(pid, "start-failed", "the stack cannot be read", error)
    bench = Bench(
        platform,
        start.index,
        stack,
        with_torch=torch is not None,
        watch=_telemetry(platform, start),
        stderr_text=stderr_text,
        crumb=crumb,
    )
    return bench, Hello(pid, str(torch.__version__) if torch is not None else None, _plain(stack))


def _telemetry(platform: Platform, start: Start) -> Callable[[], Telemetry] | None:
    if start.device is None:
        return None
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.types import Device

    fields = dict(start.device)
    if fields.get("capability") is not None:
        fields["capability"] = tuple(fields["capability"])
    host, device = Host(), Device(**fields)
    return lambda: platform.telemetry(host, device)


def _unable(pid: int, code: str, what: str, error: BaseException) -> Hello:
    text = "".join(traceback.format_exception(error))
    return Hello(pid, problem=f"{what}: {sentence(error)}", code=code, detail=text)


def _plain(stack: Stack) -> dict[str, Any]:
    return {name: dict(getattr(stack, name)) for name in ("hardware", "settings", "versions")}


def _c_library() -> Any:
    """The C library, its standard output written line by line: what a crash leaves in a buffer is lost. None outside Linux."""
    if sys.platform != "linux":
        return None
    import ctypes

    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, ctypes.c_size_t(0))
    return libc


def _leave(watcher: int, output: Output) -> None:
    """Run the exit functions, end the watcher, and go without tearing libraries down: their teardown may hang or crash."""
    atexit._run_exitfuncs()
    output.restore()
    os.kill(watcher, signal.SIGKILL)
    try:
        os.waitpid(watcher, 0)
    except ChildProcessError:
        pass  # a workload has waited for all children
    os._exit(0)


if __name__ == "__main__":
    main()
