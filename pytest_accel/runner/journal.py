"""What a worker was asked for, started and finished, one JSON line each, so that its death loses nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Appends records to a file. Each is one write to a descriptor in append mode: lines of several writers stay whole."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def asked(self, names: Iterable[str]) -> None:
        """Everything that this worker may be given."""
        self._write({"record": "asked", "names": list(names)})

    def started(self, name: str) -> None:
        """``name`` is about to be measured."""
        self._write({"record": "started", "name": name})

    def finished(self, name: str) -> None:
        """``name`` has its verdict."""
        self._write({"record": "finished", "name": name})

    def _write(self, record: Mapping[str, Any]) -> None:
        os.write(self._fd, json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file. The second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The records of a journal in order; a line that its writer's death cut short is left out."""
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def asked(path: Path) -> list[str]:
    """The names that the journal's writer was asked for."""
    return [
        str(name) for record in records(path) if record.get("record") == "asked" for name in record.get("names", ())
    ]


def unfinished(path: Path) -> list[str]:
    """The names that were started and never finished, in the order of their starts."""
    running: dict[str, None] = {}
    for record in records(path):
        if record.get("record") == "started":
            running[str(record.get("name"))] = None
        elif record.get("record") == "finished":
            running.pop(str(record.get("name")), None)
    return list(running)
