"""Locks between processes of one machine, held by ``flock``: a holder that dies, however it dies, releases.

A lock is bound to an open file, and its descriptor is closed on exec, so no child process keeps a lock alive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import random
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from pytest_accel.errors import ConfigError

_REFUSED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS}
_BUSY = {errno.EWOULDBLOCK, errno.EACCES}
_PAUSE = (0.002, 0.02)  # seconds between tries; drawn, so that waiters do not march in step


class LockTimeout(TimeoutError):
    """A lock was not free within the given time."""


def machine_folder() -> Path:
    """The folder of this machine's lock files, shared by all its users (made if absent, mode 1777).

    It lies below /tmp even where TMPDIR names a folder of one job's: two jobs that share a device must meet at one
    lock.
    """
    shared = Path("/tmp")
    base = shared if shared.is_dir() and os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    return _prepared(base / "pytest-accel-locks")


def _prepared(folder: Path) -> Path:
    with contextlib.suppress(FileExistsError):
        os.makedirs(folder)
        os.chmod(folder, 0o1777)  # not left to mkdir's mode: the umask would take bits away
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise ConfigError.at(folder, None, "must be a folder, for lock files, and is none", "take it away")
    return folder


def _name(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _open(path: Path) -> int:
    """Open a lock file that may be another user's.

    Linux refuses O_CREAT on another user's file in a sticky folder (fs.protected_regular), so a file that exists is
    opened without it, and for reading where writing is not allowed: ``flock`` asks for no more.
    """
    common = os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(50):
        for flags in (os.O_RDWR, os.O_RDONLY):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                return os.open(path, flags | common)
        with contextlib.suppress(FileExistsError, PermissionError):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | common, 0o666)
            os.fchmod(fd, 0o666)
            return fd
        time.sleep(0.005)  # another user is just making the file or the folder; the next call there opens it to all
    raise ConfigError.at(path, None, "the lock file cannot be opened", "take it away, or ask its owner to")


def _take(fd: int, exclusive: bool, deadline: float) -> bool:
    """Take the lock of an open file, trying at least once; False when the deadline (monotonic seconds) has passed."""
    operation = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    while True:
        try:
            fcntl.flock(fd, operation)
            return True
        except OSError as error:
            if error.errno not in _BUSY:
                raise
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, random.uniform(*_PAUSE)))


@contextlib.contextmanager
def exclusive(path: str | Path, timeout: float) -> Iterator[None]:
    """Hold a path for this process alone; ``timeout`` in seconds.

    A folder is locked by its own descriptor, which leaves no file in it; any other path, and a folder on a file system
    that refuses that, by a file in the machine's lock folder. Raises LockTimeout.
    """
    path = Path(os.path.realpath(path))
    deadline = time.monotonic() + timeout
    fd = -1
    try:
        taken = False
        if path.is_dir():
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                taken = _take(fd, True, deadline)
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise
                os.close(fd)
                fd = -1
        if fd < 0:
            fd = _open(machine_folder() / f"{_name(str(path))}.lock")
            taken = _take(fd, True, deadline)
        if not taken:
            raise LockTimeout(f"{path} is held by another process; waited {timeout:g} s for it")
        yield
    finally:
        if fd >= 0:
            os.close(fd)


class DeviceLock:
    """The lock of one device, shared or exclusive, between all processes and users of this machine.

    Whoever wants it goes through a turnstile and keeps that while waiting, so that a stream of sharers cannot starve
    one who wants it alone. ``name`` is any text that names the physical device. One object is held once at a time.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self._folder = folder
        self._fd = -1

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._fd >= 0

    def acquire(self, exclusive: bool, timeout: float) -> bool:
        """Take the lock; False where ``timeout`` seconds did not suffice. Raises RuntimeError where this holds it."""
        if self.held:
            raise RuntimeError(f"the lock of {self.name} is held already")
        deadline = time.monotonic() + timeout
        folder = _prepared(self._folder) if self._folder else machine_folder()
        turnstile = _open(folder / f"{_name(self.name)}.turn")
        try:
            if not _take(turnstile, True, deadline):
                return False
            fd = _open(folder / f"{_name(self.name)}.lock")
            taken = False
            try:
                taken = _take(fd, exclusive, deadline)
            finally:
                if not taken:
                    os.close(fd)
            if taken:
                self._fd = fd
            return taken
        finally:
            os.close(turnstile)

    def release(self) -> None:
        """Give the lock back; does nothing where it is not held."""
        if self.held:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __enter__(self) -> DeviceLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
