"""Locks between processes: exclusive, shared, fair to those who wait, and released by death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_accel import locks
from pytest_accel.locks import DeviceLock, LockTimeout, exclusive

HOLDER = """
import sys, time, pathlib
from pytest_accel.locks import DeviceLock, exclusive
kind, where = sys.argv[1:]
if kind == "device":
    lock = DeviceLock("gpu", pathlib.Path(where)); assert lock.acquire(True, 5)
else:
    held = exclusive(where, 5); held.__enter__()
print("held", flush=True)
time.sleep(60)
"""


def holder(kind: str, where: Path) -> subprocess.Popen[str]:
    """A process that holds a lock, and has said so."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, kind, str(where)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_folder_is_held_by_one_and_no_file_is_left_in_it(tmp_path: Path) -> None:
    with exclusive(tmp_path, 1), pytest.raises(LockTimeout, match="held by another"), exclusive(tmp_path, 0.05):
        pass
    with exclusive(tmp_path, 0.05):
        assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_refuses_locks_on_folders_gets_a_lock_file_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = locks.fcntl.flock

    def refuse(fd: int, operation: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(9, "Bad file descriptor")
        real(fd, operation)

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "machine_folder", lambda: locks._prepared(tmp_path / "locks"))
    folder = tmp_path / "baselines"
    folder.mkdir()
    with exclusive(folder, 1), pytest.raises(LockTimeout), exclusive(folder, 0.05):
        pass
    assert list(folder.iterdir()) == []
    assert len(list((tmp_path / "locks").iterdir())) == 1


def test_a_killed_holder_releases(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for kind, where in (("device", tmp_path / "locks"), ("folder", folder)):
        process = holder(kind, where)
        try:
            if kind == "device":
                assert not DeviceLock("gpu", where).acquire(False, 0.05)
            else:
                with pytest.raises(LockTimeout), exclusive(where, 0.05):
                    pass
        finally:
            kill(process)
    assert DeviceLock("gpu", tmp_path / "locks").acquire(True, 1)
    with exclusive(folder, 1):
        assert folder.is_dir()


def test_sharers_hold_together_and_one_alone_keeps_them_out(tmp_path: Path) -> None:
    first, second, alone = (DeviceLock("gpu", tmp_path) for _ in range(3))
    with first, second, alone:
        assert first.acquire(False, 1)
        assert second.acquire(False, 1)
        assert not alone.acquire(True, 0.05)
        first.release()
        second.release()
        assert alone.acquire(True, 1)
        assert not first.acquire(False, 0.05)
        with pytest.raises(RuntimeError, match="held already"):
            alone.acquire(True, 1)
    assert not alone.held
    assert DeviceLock("other", tmp_path).acquire(True, 0.05)


def test_a_stream_of_sharers_does_not_starve_one_who_wants_it_alone(tmp_path: Path) -> None:
    stop = threading.Event()

    def share() -> None:
        lock = DeviceLock("gpu", tmp_path)
        while not stop.is_set():
            if lock.acquire(False, 0.2):
                time.sleep(0.02)
                lock.release()

    threads = [threading.Thread(target=share) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.1)
        with DeviceLock("gpu", tmp_path) as alone:
            assert alone.acquire(True, 5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_lock_files_are_open_to_all_users_and_named_by_hash(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        with DeviceLock("GPU-8932f937/..", tmp_path / "locks") as lock:
            assert lock.acquire(True, 1)
    finally:
        os.umask(old)
    folder = tmp_path / "locks"
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666}
    assert all("GPU" not in path.name for path in folder.iterdir())


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = DeviceLock("gpu", tmp_path)
    assert lock.acquire(True, 1)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], close_fds=False)
    try:
        lock.release()
        assert DeviceLock("gpu", tmp_path).acquire(True, 0.5)
    finally:
        child.kill()
        child.wait()
