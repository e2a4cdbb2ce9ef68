"""Reading a results file as promotion needs it, and the list of known faults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_accel.baseline.types import Recordable
from pytest_accel.errors import ConfigError
from pytest_accel.files import decode, line_of, parse_json, read_text

SCHEMA = "pytest-accel/results/1"
_LISTED = re.compile(r"(?P<key>[^\[]*?|.*?\])(?:\s+#.*)?$")  # inside a key's brackets a `#` is the key's own
_MEND = "write it with --accel-report of this version of pytest-accel"


def read_results(path: Path) -> dict[str, Any]:
    """The checked outline of a results file: ``run``, ``cases`` and, where there are any, ``stacks``.

    Raises ConfigError for a file that is broken, or is not of the results schema.
    """
    data = parse_json(read_text(path), path)
    if not isinstance(data, dict):
        raise ConfigError.at(path, 1, "is no results file", _MEND)
    if data.get("schema") != SCHEMA:
        raise ConfigError.at(path, 1, f"is of schema {data.get('schema')!r:.60}, not {SCHEMA}", _MEND)
    for name, kind in (("run", dict), ("cases", list)):
        if not isinstance(data.get(name), kind):
            raise ConfigError.at(path, 1, f"has no `{name}`", _MEND)
    return data


def baselines_of(path: Path) -> Path:
    """The baselines folder that the results were judged against. Raises ConfigError where it is not on this machine."""
    said = read_results(path).get("baseline")
    where = said.get("path") if isinstance(said, dict) else None
    if not where:
        raise ConfigError.at(
            path, None, "does not say which baselines it was judged against", "name them: --accel-baselines DIR"
        )
    folder = Path(where).parent
    if not folder.is_dir():
        raise ConfigError.at(
            path, None, f"was judged against {folder}, which is not here", "name them: --accel-baselines DIR"
        )
    return folder


def recordables(data: Mapping[str, Any], path: Path) -> list[Recordable]:
    """The cases of a results file with their ``record``. Raises ConfigError for one that has none."""
    return [_recordable(case, data, path) for case in data["cases"]]


def read_known_bad(path: Path) -> list[str]:
    """The keys in a list of known faults: one a line; ``#`` starts a comment, after a blank or at the line's start."""
    lines = (line.strip() for line in read_text(path).splitlines())
    found = (_LISTED.match(line) for line in lines if line and not line.startswith("#"))
    return [match["key"] for match in found if match]


def _recordable(case: Any, data: Mapping[str, Any], path: Path) -> Recordable:
    key = case.get("key") if isinstance(case, dict) else None
    record = case.get("record") if isinstance(case, dict) else None
    if not isinstance(key, str) or not isinstance(record, dict):
        line = line_of(path.read_text(encoding="utf-8-sig"), "cases")
        raise ConfigError.at(path, line, f"case {key or '?'} has no `record` to promote from", _MEND)
    try:
        return Recordable(
            key=key,
            suite=case["suite"],
            case=case["case"],
            path=case.get("path", record.get("path", "")),
            tier=case.get("tier", record.get("tier", "gate")),
            workload=record.get("workload", ""),
            verdict=case["verdict"],
            code=case.get("code", ""),
            metrics=decode(case["metrics"]),
            rules=decode(record.get("rules", {})),
            sessions=[_session(session, data) for session in record.get("sessions", [])],
        )
    except (KeyError, TypeError, AttributeError) as error:
        what = f"case {key} is not as the results schema has it ({error!r})"
        raise ConfigError.at(path, None, what, _MEND) from error


def _session(session: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """One session with its stack (named by hash, or whole) and its run beside it."""
    stack = session["stack"]
    run = data["run"]
    return {
        "run": run.get("id", ""),
        "started": run.get("started", ""),
        **session,
        "metrics": decode(session["metrics"]),
        "stack": data["stacks"][stack] if isinstance(stack, str) else stack,
    }
