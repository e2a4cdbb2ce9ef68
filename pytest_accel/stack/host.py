"""The only access to the machine: files, commands, environment, vendor libraries, installed distributions."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_LIMIT = 4 * 2**20  # bytes; the files of /proc and /sys that are asked for are far smaller
LINKS_LIMIT = 40  # as Linux: more symbolic links than this in one path are a loop
TIMED_OUT = 124  # the code that ``timeout(1)`` gives
CANNOT_RUN = 126  # the code that a shell gives for a file that is no program


@dataclass(frozen=True)
class CommandResult:
    """What a command left: its exit code and its two streams as text."""

    rc: int
    out: str
    err: str


Runner = Callable[[Sequence[str]], CommandResult | None]


class Host:
    """The machine that this process runs on, its files read below ``root``.

    ``root`` serves a container that mounts its host's root: absolute paths, symbolic links included, stay below it, while
    commands and vendor libraries are the container's own. ``env`` stands for ``os.environ``, ``run`` for the running of
    commands; ``timeout`` is in seconds, for one command.
    """

    def __init__(
        self,
        root: str | Path = "/",
        env: Mapping[str, str] | None = None,
        timeout: float = 15.0,
        run: Runner | None = None,
    ) -> None:
        self.root = Path(root)
        self.env: Mapping[str, str] = os.environ if env is None else env
        self.timeout = timeout
        self.library_errors: dict[str, str] = {}
        self._run = run

    # --- files ---------------------------------------------------------------------------------------------------------
    def read(self, path: str) -> str | None:
        """The text of a file (bytes that are no UTF-8 replaced), or None where it is absent or may not be read."""
        try:
            with open(self._below_root(path), "rb") as stream:
                return stream.read(READ_LIMIT).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def exists(self, path: str) -> bool:
        """True where something is at ``path``."""
        return os.path.exists(self._below_root(path))

    def listdir(self, path: str) -> list[str]:
        """The sorted names in a folder; empty where it is absent or may not be read."""
        try:
            return sorted(os.listdir(self._below_root(path)))
        except OSError:
            return []

    def access(self, path: str, mode: int = os.R_OK) -> bool:
        """True where this process may use ``path`` so (``os.R_OK``, ``os.W_OK``)."""
        return os.access(self._below_root(path), mode)

    def group(self, path: str) -> int | None:
        """The number of the group that owns ``path``; None where nothing is there. Names differ between containers."""
        try:
            return os.stat(self._below_root(path)).st_gid
        except OSError:
            return None

    def _below_root(self, path: str) -> str:
        if str(self.root) == "/":
            return path
        todo = [part for part in path.split("/") if part]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = done[:-1]
            elif part != ".":
                here = self.root.joinpath(*done, part)
                target = os.readlink(here) if links < LINKS_LIMIT and here.is_symlink() else None
                if target is None:
                    done.append(part)
                    continue
                links += 1
                todo = [piece for piece in target.split("/") if piece] + todo
                if target.startswith("/"):
                    done = []
        return str(self.root.joinpath(*done))

    # --- commands ------------------------------------------------------------------------------------------------------
    def run(self, argv: Sequence[str]) -> CommandResult | None:
        """Run a tool in the C locale; None where it is absent. A time-out is a result: code 124, and words in ``err``."""
        if self._run is not None:
            return self._run(argv)
        tool = shutil.which(argv[0], path=self.env.get("PATH"))
        if tool is None:
            return None
        try:
            process = subprocess.Popen(
                [tool, *argv[1:]],
                env={**self.env, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return CommandResult(CANNOT_RUN, "", str(error))
        try:
            out, err = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # A tool that hangs inside the driver does not even die of SIGKILL; it is not waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=1.0)
            return CommandResult(TIMED_OUT, "", f"{argv[0]} did not answer within {self.timeout:g} s")
        return CommandResult(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    # --- libraries and distributions -----------------------------------------------------------------------------------
    def library(self, name: str) -> Any | None:
        """A vendor's Python module, or None where it cannot be imported; why not is kept in ``library_errors``."""
        try:
            return importlib.import_module(name)
        except Exception as error:  # vendors' modules load C libraries when imported and raise whatever they like
            self.library_errors[name] = f"{type(error).__name__}: {error}"
            return None

    def package_version(self, name: str) -> str | None:
        """The version of an installed distribution, read from its metadata without importing it."""
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    def package_file(self, name: str, relative: str) -> str | None:
        """The text of a file of an installed distribution (``torch/version.py``), or None."""
        try:
            path = importlib.metadata.distribution(name).locate_file(relative)
            return Path(str(path)).read_text(encoding="utf-8", errors="replace")
        except (importlib.metadata.PackageNotFoundError, OSError):
            return None

    # --- the system ----------------------------------------------------------------------------------------------------
    def machine(self) -> str:
        """The machine's architecture as the kernel names it: ``x86_64``, ``aarch64``."""
        return platform.machine()

    def kernel(self) -> str | None:
        """The kernel's release."""
        return (self.read("/proc/sys/kernel/osrelease") or platform.release()).strip() or None

    def hostname(self) -> str:
        """The host's name."""
        return socket.gethostname()

    def cpus(self) -> frozenset[int]:
        """The logical processors that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return frozenset(os.sched_getaffinity(0))
        return frozenset(range(os.cpu_count() or 1))
