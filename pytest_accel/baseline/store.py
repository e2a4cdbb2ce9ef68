"""Baseline files on disk: ``<baselines>/<hardware>/<suite>.json``; read checked, written whole under a lock."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_accel.baseline.schema import PARTS, parse, to_text
from pytest_accel.baseline.types import BaselineFile
from pytest_accel.errors import ConfigError
from pytest_accel.files import dumps, encode, parse_json, read_text, write_whole
from pytest_accel.locks import LockTimeout, exclusive

LOCK_WAIT = 60.0  # seconds; a writer holds the lock for the time of one read and one write
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


def file_of(root: Path, hardware: str, suite: str) -> Path:
    """Where the file of a suite lies; a name that is no file name everywhere is shortened, with a hash of the whole."""
    name = suite
    if not _PLAIN.fullmatch(suite):
        mark = hashlib.sha256(suite.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9_+-]+", "-", suite).strip("-")[:60] + f"-{mark}"
    return Path(root) / hardware / f"{name}.json"


def load(root: Path, hardware: str, suite: str) -> BaselineFile | None:
    """The baseline of a suite on a hardware; None only where there is no file. Raises ConfigError for a broken one."""
    path = file_of(root, hardware, suite)
    if not os.path.lexists(path):
        return None
    return parse(read_text(path), path, hardware, suite)


def load_path(path: Path) -> BaselineFile:
    """The baseline in a file whose suite is not known yet. Raises ConfigError for a broken one."""
    return parse(read_text(path), path, path.parent.name)


def files_in(root: Path, hardware: str) -> list[Path]:
    """The baseline files of a hardware, sorted."""
    return sorted(path for path in (Path(root) / hardware).glob("*.json") if not path.name.startswith("."))


def suites_in(root: Path, hardware: str) -> list[str]:
    """The suites that have a file for this hardware, sorted. Raises ConfigError for a broken file."""
    return sorted(load_path(path).suite for path in files_in(root, hardware))


def hardware_in(root: Path) -> list[str]:
    """The hardware folders that hold a baseline file, sorted."""
    if not Path(root).is_dir():
        return []
    folders = sorted(path for path in Path(root).iterdir() if path.is_dir() and not path.name.startswith("."))
    return [folder.name for folder in folders if files_in(root, folder.name)]


def looks_like_baselines(root: Path) -> bool:
    """A cheap look: True where some folder below holds JSON files as baselines lie there, whatever is in them."""
    return bool(hardware_in(root))


def stack_hash(stack: Mapping[str, Any]) -> str:
    """A short name for a stack by its content, the same on every machine."""
    content = dumps(encode({part: dict(stack.get(part) or {}) for part in PARTS}))
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:16]


def plain_stack(stack: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A stack as the file holds it: its three parts, as strict JSON carries them."""
    data = encode({part: dict(stack.get(part) or {}) for part in PARTS})
    found: dict[str, dict[str, Any]] = parse_json(dumps(data), "stack")
    return found


def newest(content: BaselineFile) -> tuple[str, Mapping[str, Any]] | None:
    """When the newest session started, and its stack; None where there is no session."""
    sessions = [session for entry in content.entries.values() for session in entry.sessions]
    last = max(sessions, key=lambda session: session.started, default=None)
    return (last.started, content.stacks[last.stack]) if last else None


def update(root: Path, hardware: str, suite: str, change: Callable[[BaselineFile], BaselineFile]) -> Path | None:
    """Change a baseline file: read under the lock, changed, written whole, so that writers at once lose nothing.

    The bytes stay as they are where ``change`` changes nothing. Returns the path where it was written, else None.
    Raises ConfigError for a broken file, a folder that cannot be written, and a lock held too long.
    """
    path = file_of(root, hardware, suite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(path.parent, LOCK_WAIT):
            before = load(root, hardware, suite) or BaselineFile(hardware, suite)
            after = change(before)
            if after == before:
                return None
            text = to_text(after)
            parse(text, path, hardware, suite)  # what we could not read again is never written
            write_whole(path, text)
            return path
    except LockTimeout as error:
        raise ConfigError.at(path.parent, None, str(error), "wait for the other run, or end it") from error
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise ConfigError.at(path.parent, None, what, "name a folder that you may write to") from error
