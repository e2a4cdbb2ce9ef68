"""A host that was recorded: files, commands and libraries from dictionaries, so that machines can be tested without them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from pytest_accel.stack.host import CommandResult, Host


class RecordedHost(Host):
    """``files`` maps absolute paths to text, or to None for a file that is there and may not be read.

    ``commands`` maps a whole command line, or only the tool's name, to its result; a tool that is in neither is absent.
    ``packages`` maps distributions to versions, ``package_files`` pairs (distribution, path) to text.
    """

    def __init__(
        self,
        files: Mapping[str, str | None] | None = None,
        commands: Mapping[str, CommandResult] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        libraries: Mapping[str, ModuleType | SimpleNamespace] | None = None,
        packages: Mapping[str, str] | None = None,
        package_files: Mapping[tuple[str, str], str] | None = None,
        machine: str = "x86_64",
        kernel: str = "6.8.0-79-generic",
        cpus: frozenset[int] = frozenset({0, 1}),
        groups: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(env=env or {}, run=self._recorded)
        self.files = dict(files or {})
        self.commands = dict(commands or {})
        self.ran: list[tuple[str, ...]] = []
        self._libraries = dict(libraries or {})
        self._packages = dict(packages or {})
        self._package_files = dict(package_files or {})
        self._groups = dict(groups or {})
        self._system = (machine, kernel, cpus)

    def _recorded(self, argv: Sequence[str]) -> CommandResult | None:
        self.ran.append(tuple(argv))
        return self.commands.get(" ".join(argv), self.commands.get(argv[0]))

    def read(self, path: str) -> str | None:
        """The recorded text, or None."""
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        """True for a recorded file and for every folder above one."""
        return path in self.files or any(name.startswith(path.rstrip("/") + "/") for name in self.files)

    def listdir(self, path: str) -> list[str]:
        """The recorded names below ``path``."""
        start = path.rstrip("/") + "/"
        return sorted({name[len(start) :].split("/")[0] for name in self.files if name.startswith(start)})

    def access(self, path: str, mode: int = os.R_OK) -> bool:
        """True for a recorded file with a text."""
        return self.files.get(path) is not None

    def group(self, path: str) -> int | None:
        """The recorded group's number, or None."""
        return self._groups.get(path)

    def library(self, name: str) -> Any | None:
        """The recorded library, or None."""
        return self._libraries.get(name)

    def package_version(self, name: str) -> str | None:
        """The recorded version, or None."""
        return self._packages.get(name)

    def package_file(self, name: str, relative: str) -> str | None:
        """The recorded text, or None."""
        return self._package_files.get((name, relative))

    def machine(self) -> str:
        """The recorded architecture."""
        return self._system[0]

    def kernel(self) -> str | None:
        """The recorded kernel release."""
        return self._system[1]

    def hostname(self) -> str:
        """A fixed name."""
        return "recorded"

    def cpus(self) -> frozenset[int]:
        """The recorded logical processors."""
        return self._system[2]
