"""The memory of this process as the kernel and the C library count it: no torch, no psutil.

Four counts, all bytes. *Live*: what ``malloc`` gave and did not get back, to the byte (glibc's ``mallinfo2``; torch's host
tensors and all but the smallest Python objects come from it). *Committed*: private writable memory that the kernel has
promised (``VmData``), which grows by whole steps and counts a cache allocated ahead at once. *Resident*: what really lies
in memory. *Peak*: the most that was resident since the last reset.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from pathlib import Path
from types import TracebackType

COMMIT_STEP = 2**20  # Python's small-object allocator takes 1 MiB at a time, malloc's heap 132 KiB
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_PROBE = 2**20
_SWITCH = 1e-4  # seconds that Python code may keep the interpreter from the looking thread


class _Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


@functools.cache
def _libc() -> ctypes.CDLL | None:
    """The C library where its ``mallinfo2`` counts what ``malloc`` gives; None elsewhere, or under another allocator."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2") or not hasattr(libc, "malloc_trim"):
        return None
    libc.mallinfo2.restype = _Counts
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    before = _live(libc)
    block = libc.malloc(_PROBE)
    grown = _live(libc) - before
    libc.free(block)
    return libc if grown >= _PROBE else None  # a preloaded allocator (jemalloc, tcmalloc) gave it


def _live(libc: ctypes.CDLL) -> int:
    counts = libc.mallinfo2()
    return int(counts.uordblks + counts.hblkhd)


def live_bytes() -> int | None:
    """Bytes that ``malloc`` gave and did not get back; None where nobody counts them."""
    libc = _libc()
    return _live(libc) if libc is not None else None


def held_bytes() -> int | None:
    """Bytes that ``malloc`` holds from the kernel, live ones included; None where nobody counts them."""
    libc = _libc()
    if libc is None:
        return None
    counts = libc.mallinfo2()
    return int(counts.arena + counts.hblkhd)


def committed_bytes() -> int | None:
    """Private writable memory of this process; None where /proc does not tell."""
    return _status("VmData")


def resident_bytes() -> int | None:
    """What of this process lies in memory; None where /proc does not tell."""
    return _status("VmRSS")


def peak_resident_bytes() -> int | None:
    """The most that was resident since the process began, or since ``reset_peak``; None where /proc does not tell."""
    return _status("VmHWM")


def reset_peak() -> bool:
    """Give free memory back to the kernel and start the peak anew; False where the kernel does not let this process."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)  # else freed pages of earlier work would be used again and not be seen
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


class LivePeak:
    """The most bytes that were live while the block ran, as a thread saw them that looks without pause.

    Kernels release the interpreter, so the thread looks between and within them; what lives for less than some
    microseconds can be missed. ``bytes`` holds the peak after the block.
    """

    def __enter__(self) -> LivePeak:
        self.bytes = live_bytes() or 0
        self._end = threading.Event()
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._end.is_set():
            self.bytes = max(self.bytes, live_bytes() or 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)


def _status(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for row in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if row.startswith(f"{name}:"):
                return int(row.split()[1]) * 1024
    return None
