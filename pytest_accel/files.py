"""Reading and writing the plugin's text files: strict JSON in, strict JSON out, whole files only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pytest_accel.errors import ConfigError
from pytest_accel.places import MOST_DIGITS, faults, line_of

__all__ = ["RESTORE", "decode", "dump_json", "dumps", "encode", "line_of", "parse_json", "read_text", "write_whole"]

RESTORE = "restore the file from version control, or delete it on purpose and record or write it again"
_BOMS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_MARKER = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?: .*)?\r?$", re.MULTILINE)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, a byte order mark left out.

    Raises ConfigError where the file cannot be read, or is in another encoding (named, with the offset in bytes).
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise ConfigError.at(path, None, what, "check the path and its rights") from error
    for mark, name in _BOMS:
        if data.startswith(mark):
            raise ConfigError.at(path, 1, f"is {name}, not UTF-8 (byte order mark at offset 0)", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        line = data.count(b"\n", 0, at) + 1
        what = f"is not UTF-8: byte 0x{data[at]:02X} at offset {at} (Latin-1 or another 8-bit encoding?)"
        raise ConfigError.at(path, line, what, "save it as UTF-8") from error


def parse_json(text: str, path: str | Path) -> Any:
    """The value of strict JSON text; ``path`` is for messages only.

    Raises ConfigError with path and line for a duplicate key (both lines named), NaN, Infinity, a number too large for
    a float, trailing data, a NUL, merge-conflict markers, and an empty or cut file.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_whole
        )
    except (ValueError, RecursionError) as error:
        _explain(text, path, error)


def encode(value: Any) -> Any:
    """Plain data for strict JSON: a non-finite float, at any depth, is ``{"nonfinite": "nan" | "inf" | "-inf"}``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nonfinite": str(float(value))}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(value: Any) -> Any:
    """The inverse of ``encode``."""
    if isinstance(value, Mapping):
        if list(value) == ["nonfinite"] and value["nonfinite"] in ("nan", "inf", "-inf"):
            return float(value["nonfinite"])
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def dump_json(value: Any) -> str:
    """Strict JSON text: sorted keys, one trailing newline; non-finite floats are encoded (see ``encode``)."""
    return dumps(encode(value), indent=1) + "\n"


def dumps(value: Any, indent: int | None = None) -> str:
    """Strict JSON with sorted keys; only where UTF-8 cannot carry the text (a lone surrogate) is it escaped.

    Raises ValueError for a non-finite float.
    """
    text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, indent=indent)
    return text


def write_whole(path: str | Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old text or the new, never a part.

    The text goes to a hidden file of a fixed name beside the target, is synced, then takes the target's place. Writers
    of one target queue on that file, so a shared name is safe; a killed writer leaves at most it, and the next one uses
    it up. Missing folders are made; a link is followed; no regular file (a pipe, /dev/stdout) is written straight.
    Raises ConfigError where it cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with open(path, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, text.encode("utf-8"))
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise ConfigError.at(path, None, what, "give a place that you may write to") from error


def _replace(target: Path, data: bytes) -> None:
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]  # short, however long the target's name is
    temporary = target.with_name(f".{name}.tmp")
    fd = _own(temporary)
    try:
        os.ftruncate(fd, 0)
        with open(fd, "wb", closefd=False) as stream:
            stream.write(data)
        if target.exists():
            with contextlib.suppress(PermissionError):  # a left-over of another user's: its mode then stands
                os.fchmod(fd, stat.S_IMODE(target.stat().st_mode))
        os.fsync(fd)
        os.replace(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):  # some network file systems refuse to sync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _own(temporary: Path) -> int:
    """Open the temporary file and hold its lock; waits for another writer of the same target, who is soon done."""
    while True:
        try:
            fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except PermissionError:
            if not os.path.lexists(temporary):
                raise
            os.unlink(temporary)  # a killed writer of another user left it
            continue
        try:
            with contextlib.suppress(OSError):  # no locks on this file system: the baseline folder's lock must do
                fcntl.flock(fd, fcntl.LOCK_EX)
            held, there = os.fstat(fd), os.stat(temporary)
            if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
                return fd
        except FileNotFoundError:
            pass  # the writer before us has just renamed it into place
        os.close(fd)


class _Bad(ValueError):
    """A value that the JSON parser takes and we do not."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Bad("duplicate key")
    return found


def _refuse(word: str) -> NoReturn:
    raise _Bad(word)


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise _Bad(word)
    return number


def _whole(word: str) -> int:
    if len(word.lstrip("-")) > MOST_DIGITS:
        raise _Bad(word)
    return int(word)


def _explain(text: str, path: str | Path, error: Exception) -> NoReturn:
    """Raise the ConfigError that says what is wrong with text that is not strict JSON."""
    line: int | None = 1
    what, mend = f"is not JSON: {error}", RESTORE
    marker = _MARKER.search(text)
    if not text.strip():
        what = "is empty (a run that was cut off while writing?)"
    elif "\0" in text:
        at = text.index("\0")
        line, what = text.count("\n", 0, at) + 1, f"carries a NUL byte at offset {at}"
    elif marker:
        line = text.count("\n", 0, marker.start()) + 1
        what, mend = "carries the markers of a merge conflict", "resolve the conflict, then run again"
    elif isinstance(error, RecursionError):
        what = "is nested too deeply"
    elif isinstance(error, json.JSONDecodeError):
        line = error.lineno
        if error.msg == "Extra data":
            what = f"carries more text after its end, from offset {error.pos} (two documents joined?)"
        elif error.msg.startswith("Unterminated string") or not text[error.pos :].strip():
            line = text.rstrip().count("\n") + 1
            what = f"is cut: it ends at offset {len(text)} in the middle of a value"
        else:
            what = f"is not JSON: {error.msg} at column {error.colno} (offset {error.pos})"
            line, what = next(iter(faults(text)), (line, what))
    else:
        line, what = next(iter(faults(text)), (line, what))
        mend = "write a finite number, or take the entry out" if "finite" in what else "take one of the two out"
    raise ConfigError.at(path, line, what, mend) from error
