"""A tiny process beside each measuring process, which ends the whole group when pytest is gone, however it went.

Forked before torch is imported, so that it is small and holds no device.
"""

from __future__ import annotations

import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when process ``pid`` dies; None where the system has none, or it is gone."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def die_with_parent() -> None:
    """Ask the kernel (Linux) to kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start_watcher(liveness: int, parent: int, unwanted: tuple[int, ...]) -> int:
    """Fork the watcher and return its process id.

    It waits until ``liveness`` (a pipe whose other end pytest alone holds) reaches its end, or ``parent`` dies, and then
    kills its process group. ``unwanted`` are descriptors that it must not keep open.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        _watch(liveness, parent, unwanted)
    finally:
        os.killpg(0, signal.SIGKILL)
    return 0


def _watch(liveness: int, parent: int, unwanted: tuple[int, ...]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in unwanted:
        os.close(descriptor)
    os.chdir("/")
    poll = select.poll()
    poll.register(liveness, select.POLLIN)
    # A process that pytest forked without exec holds a copy of the pipe's other end: then only the pidfd tells.
    pidfd = open_pidfd(parent)
    if pidfd is not None:
        poll.register(pidfd, select.POLLIN)
    poll.poll()
