"""Where a measuring process's output goes: files without a name, so that a crash loses nothing and a kill leaves nothing."""

from __future__ import annotations

import fcntl
import os
import tempfile

SHOWN = 64 * 1024
_HEAD = 8 * 1024
_KEEP = 1 << 20


class Crumb:
    """The last thing that a measuring process said it was about to do, which outlives it."""

    def __init__(self) -> None:
        self.fd, path = tempfile.mkstemp(prefix="pytest-accel-")
        os.unlink(path)

    def text(self) -> str:
        """The last line that was written whole."""
        line, end, _ = os.pread(self.fd, SHOWN, 0).partition(b"\n")
        return line.decode("utf-8", "replace") if end else ""

    def close(self) -> None:
        """Give the file back. The second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def leave_crumb(descriptor: int, line: str) -> None:
    """Replace the line in a crumb's file; one system call."""
    os.pwrite(descriptor, line.replace("\n", " ").encode()[: SHOWN - 1] + b"\n", 0)


class Spool:
    """One stream's output. ``mark`` starts a new passage, ``text`` is what came since; both are cheap."""

    def __init__(self) -> None:
        self.fd, path = tempfile.mkstemp(prefix="pytest-accel-")
        os.unlink(path)
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_APPEND)
        self._begin = 0

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self.fd).st_size

    def mark(self) -> None:
        """Start a new passage here. A file that has grown beyond 1 MiB is emptied, so that a long run fills no disk."""
        if self.size() > _KEEP:
            os.ftruncate(self.fd, 0)
        self._begin = self.size()

    def text(self, since: int | None = None) -> str:
        """The passage (or all from byte ``since``): at most 64 KiB, the middle left out where there is more."""
        begin = self._begin if since is None else since
        end = self.size()
        if end - begin <= SHOWN:
            return self._read(begin, end)
        tail = end - (SHOWN - _HEAD)
        return f"{self._read(begin, begin + _HEAD)}\n[... {tail - begin - _HEAD} bytes left out ...]\n{self._read(tail, end)}"

    def _read(self, begin: int, end: int) -> str:
        return os.pread(self.fd, max(end - begin, 0), begin).decode("utf-8", "replace")

    def close(self) -> None:
        """Give the file back. The second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
