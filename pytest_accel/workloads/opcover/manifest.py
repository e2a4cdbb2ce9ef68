"""Which operators, variants and dtypes a torch release has, read without importing torch.

A manifest is frozen for each minor release that this package knows, and shipped with it, so that coverage cannot shrink
unseen. For any other torch (a nightly) one is made in a child process and kept by torch's full version, so that every process
of every run reads the same file.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.types import Generated, Json

SCHEMA = "pytest-accel/operators/1"
FOLDER = Path(__file__).with_name("manifests")
FLOATS = ("float32", "float16", "bfloat16")
CENSUS_TIMEOUT = 600.0  # seconds; importing the database takes 5 to 20


@dataclass(frozen=True)
class Entry:
    """One operator: ``forward`` maps each dtype to how many samples the database makes of it (0: not counted)."""

    op: str
    variant: str
    forward: Mapping[str, int]
    backward: frozenset[str]


@dataclass(frozen=True)
class Manifest:
    """The operators of one torch; ``minor`` is such as ``2.13``."""

    torch: str
    entries: Mapping[tuple[str, str], Entry]

    @property
    def minor(self) -> str:
        """The release without its last part."""
        return minor_of(self.torch)

    def has(self, op: str, variant: str, dtype: str, backward: bool) -> bool:
        """True where this torch declares the operator in this dtype and direction."""
        entry = self.entries.get((op, variant))
        return entry is not None and dtype in (entry.backward if backward else entry.forward)


# --- what suites name in `params_from` ------------------------------------------------------------------------------------
def forward() -> Generated:
    """Every operator in float32, float16 and bfloat16, where it declares them."""
    return _variants(FLOATS, backward=False)


def other_dtypes() -> Generated:
    """Every operator in every other dtype that it declares: whole numbers, bool, complex, float64, small floats."""
    return _variants(None, backward=False)


def backward() -> Generated:
    """The gradients of every operator that has some, in float32, float16 and bfloat16."""
    return _variants(FLOATS, backward=True)


def backward_other_dtypes() -> Generated:
    """The same in float64 and the complex dtypes."""
    return _variants(None, backward=True)


def _variants(wanted: Iterable[str] | None, backward: bool) -> Generated:
    now = installed()
    params = [dict(key) for key in _keys(now, wanted, backward)]
    known = {tuple(sorted(each.items())) for each in params}
    gone: dict[tuple[tuple[str, str], ...], str] = {}
    for other in shipped():
        for key in _keys(other, wanted, backward):
            if key not in known:
                gone[key] = _why_gone(now, other, dict(key))
    return Generated([dict(each) for each in params], [(dict(key), why) for key, why in gone.items()])


def _keys(manifest: Manifest, wanted: Iterable[str] | None, backward: bool) -> list[tuple[tuple[str, str], ...]]:
    found = []
    for entry in manifest.entries.values():
        dtypes = entry.backward if backward else entry.forward
        for dtype in sorted(dtypes):
            if (dtype in FLOATS) if wanted is None else (dtype not in wanted):
                continue
            values = {"op": entry.op, "dtype": dtype} | ({"variant": entry.variant} if entry.variant else {})
            found.append(tuple(sorted(values.items())))
    return found


def _why_gone(now: Manifest, other: Manifest, values: Mapping[str, str]) -> str:
    op, variant = values["op"], values.get("variant", "")
    what = "it" if (op, variant) not in now.entries else f"{values['dtype']} for it"
    if _order(other.torch) < _order(now.torch):
        return f"removed in torch {now.torch}, whose operator database no longer has {what} (torch {other.torch} has)"
    return f"torch {now.torch} does not have {what} in its operator database yet (torch {other.torch} has)"


# --- manifests -------------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=1)
def shipped() -> tuple[Manifest, ...]:
    """The frozen manifests, oldest torch first."""
    found = [_read(path) for path in FOLDER.glob("torch-*.json")]
    return tuple(sorted(found, key=lambda manifest: _order(manifest.torch)))


@functools.lru_cache(maxsize=1)
def installed() -> Manifest:
    """The manifest of the torch that is installed here; without one, the newest that is shipped.

    Raises ConfigError where it had to be made and could not be.
    """
    version = _installed_version()
    if version is None:
        return shipped()[-1]
    for manifest in shipped():
        if manifest.minor == minor_of(version):
            return manifest
    path = cache_folder() / f"torch-{version}.json"
    if not path.is_file():
        _make(path)
    return _read(path)


def is_known(op: str, variant: str) -> bool:
    """True for an operator that any shipped manifest has."""
    return any((op, variant) in manifest.entries for manifest in shipped())


def frozen(version: str) -> Manifest | None:
    """The shipped manifest for this torch version, or None."""
    return next((manifest for manifest in shipped() if manifest.minor == minor_of(version)), None)


def _installed_version() -> str | None:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def cache_folder() -> Path:
    """Where made manifests are kept: ``$PYTEST_ACCEL_CACHE``, else the user's cache folder."""
    named = os.environ.get("PYTEST_ACCEL_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-accel"


def _make(path: Path) -> None:
    """Make the manifest of the installed torch in a child process that sees no device; one process at a time does."""
    from pytest_accel.locks import exclusive
    from pytest_accel.stack.registry import names, platform

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError.at(
            path.parent, None, f"the folder cannot be made: {error.strerror}", "set PYTEST_ACCEL_CACHE"
        ) from None
    with exclusive(path, CENSUS_TIMEOUT):
        if path.is_file():
            return
        hidden = {name: "" for word in names() for name in platform(word).visible_env}
        command = [sys.executable, "-m", "pytest_accel.workloads.opcover.census", str(path)]
        search = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **hidden, "PYTHONPATH": search},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=CENSUS_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            what = f"reading torch's operator database took more than {CENSUS_TIMEOUT:g} s"
            raise ConfigError(
                Problem(what, "run `python -m pytest_accel.workloads.opcover.census FILE` to see why")
            ) from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            mend = "pip install 'pytest-accel[operators]', or deselect the suites that ask for the whole database"
            raise ConfigError(Problem(f"torch's operator database cannot be read: {last}", mend))


# --- files -----------------------------------------------------------------------------------------------------------------
def as_text(version: str, entries: Iterable[Entry]) -> str:
    """A manifest's file: JSON, one operator a line, dtypes grouped by the number of their samples."""
    lines = []
    for entry in sorted(entries, key=lambda each: (each.op, each.variant)):
        groups: dict[int, list[str]] = {}
        for dtype, count in sorted(entry.forward.items()):
            groups.setdefault(count, []).append(dtype)
        record: dict[str, Json] = {"op": entry.op}
        if entry.variant:
            record["variant"] = entry.variant
        record["forward"] = {str(count): " ".join(dtypes) for count, dtypes in sorted(groups.items())}
        if entry.backward:
            record["backward"] = " ".join(sorted(entry.backward))
        lines.append(json.dumps(record, separators=(",", ":")))
    head = f'{{"schema": "{SCHEMA}", "torch": "{version.split("+")[0]}", "operators": [\n'
    return head + ",\n".join(lines) + "\n]}\n"


def _read(path: Path) -> Manifest:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}")
        entries = {}
        for record in document["operators"]:
            counts = {d: int(count) for count, dtypes in record["forward"].items() for d in dtypes.split()}
            entry = Entry(
                record["op"], record.get("variant", ""), counts, frozenset(record.get("backward", "").split())
            )
            entries[entry.op, entry.variant] = entry
        return Manifest(document["torch"], entries)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError.at(
            path, None, f"is no manifest of operators: {error}", "take it away: it is made anew"
        ) from None


def minor_of(version: str) -> str:
    """``2.13`` of ``2.13.0+cpu``."""
    return ".".join(version.split("+")[0].split(".")[:2])


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor_of(version).split(".") if part.isdigit())
