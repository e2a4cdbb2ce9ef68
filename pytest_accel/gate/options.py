"""The options of group ``accel``, their ini twins, and what they mean once read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from pytest_accel.errors import ConfigError, Problem

Record = Literal["new", "add"]
DEFAULT_SESSIONS = 3
DEFAULT_LOCK_WAIT = 1800.0


@dataclass(frozen=True)
class Options:
    """What the user asked for. Paths are absolute; ``lock_wait`` is in seconds."""

    accel: str = "auto"
    devices: int | None = None
    baselines: str | None = None
    record: Record | None = None
    allow_new: bool = False
    tier: str = "gate"
    report: str | None = None
    sessions: int = DEFAULT_SESSIONS
    in_process: bool = False
    lanes: int | None = None
    suites: tuple[str, ...] = ()
    lock_wait: float = DEFAULT_LOCK_WAIT
    history: str | None = None
    notify: str | None = None
    notify_format: str = "json"
    explicit: bool = False


_HELP = {
    "accel": "platform to judge: the accelerator that is there, else cpu (auto), or the one named; "
    "one that is named and absent or broken is ENV (exit code 10), never a quiet run on cpu",
    "accel_devices": "fewer than N usable devices is ENV",
    "accel_baselines": "folder of accepted values (default: `baselines` beside the nearest project file above the suite)",
    "accel_record": "new: store what was measured without an entry and breaks no limit; add: also append this run's "
    "session to entries that passed on the same versions; neither replaces a value",
    "accel_allow_new": "a variant without a baseline entry does not make the run incomplete",
    "accel_tier": "smoke, gate or full; a tier includes those before it (default: gate)",
    "accel_report": "write the results as JSON to FILE",
    "accel_sessions": "at most N fresh processes for a variant that needs statistics (default: 3)",
    "accel_history": "store the run in SQL: a SQLAlchemy URL, or the path of a SQLite file",
    "accel_notify": "command that gets a message about a red run on its standard input, such as a webhook's curl",
    "accel_notify_format": "form of that message (default: json)",
    "accel_lanes": "at most N measuring processes at once on a device for variants that measure no time and little memory "
    "(the operator suites; default: one a core, at most 8; not under xdist)",
    "accel_in_process": "run workloads in the pytest process, for --pdb and coverage: UNMEASURED, never recorded",
}


def add_options(parser: pytest.Parser) -> None:
    """Register the command-line options and the ini keys of the same names."""
    group = parser.getgroup("accel", "accelerator regression gate")

    def option(name: str, **kwargs: Any) -> None:
        group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, help=_HELP[name], **kwargs)

    from pytest_accel.stack.registry import names

    option("accel", metavar="{" + ",".join(("auto", *names())) + "}")
    option("accel_devices", metavar="N")
    option("accel_baselines", metavar="DIR")
    option("accel_record", metavar="{new,add}")
    option("accel_allow_new", action="store_true")
    option("accel_tier", metavar="{smoke,gate,full}")
    option("accel_report", metavar="FILE")
    option("accel_sessions", metavar="N")
    option("accel_history", metavar="URL")
    option("accel_notify", metavar="COMMAND")
    option("accel_notify_format", metavar="{json,slack,wecom,dingtalk}")
    option("accel_lanes", metavar="N")
    option("accel_in_process", action="store_true")
    for name, text in _HELP.items():
        parser.addini(name, text, default=None)
    parser.addini(
        "accel_suites", "suite files to collect besides *.accel.yaml (paths or globs)", type="args", default=[]
    )
    parser.addini(
        "accel_lock_wait", "seconds to wait for the lock on a device before ENV (default: 1800)", default=None
    )


def read_options(config: pytest.Config) -> Options:
    """Read and check the options. Raises ConfigError that names the option, what is wrong and what is allowed."""
    problems: list[Problem] = []
    ini_path = config.inipath
    ini_name = str(ini_path) if ini_path else ""

    def raw(name: str) -> tuple[Any, bool]:
        value = config.getoption(name, None)
        if value is not None:
            return value, True
        return (config.getini(name) or None), False

    def complain(name: str, given: bool, what: str, mend: str) -> None:
        where = f"--{name.replace('_', '-')}" if given else name
        problems.append(Problem(what=f"{where}: {what}", mend=mend, path="" if given else ini_name))

    def choice(name: str, allowed: tuple[str, ...], default: str | None) -> str | None:
        value, given = raw(name)
        if value is None:
            return default
        if str(value) not in allowed:
            complain(name, given, f"`{value}` is not one of {', '.join(allowed)}", "name one of them")
            return default
        return str(value)

    def count(name: str, default: int | None) -> int | None:
        value, given = raw(name)
        if value is None:
            return default
        try:
            number = int(str(value))
        except ValueError:
            number = 0
        if number < 1:
            complain(name, given, f"`{value}` is not a whole number from 1", "give a number such as 1")
            return default
        return number

    def flag(name: str) -> bool:
        value, given = raw(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        words = {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }
        if str(value).lower() not in words:
            complain(name, given, f"`{value}` is neither true nor false", "write true or false")
            return False
        return words[str(value).lower()]

    def path(name: str) -> str | None:
        value, given = raw(name)
        if value is None:
            return None
        if not str(value).strip():
            complain(name, given, "is empty", "name a path")
            return None
        base = config.invocation_params.dir if given or ini_path is None else ini_path.parent
        return os.path.normpath(os.path.join(base, os.path.expanduser(str(value))))

    def history() -> str | None:
        value, _ = raw("accel_history")
        return str(value) if value is not None and "://" in str(value) else path("accel_history")

    from pytest_accel.stack.registry import names

    platform = choice("accel", ("auto", *names()), "auto")
    baselines = path("accel_baselines")
    if baselines is not None and os.path.exists(baselines) and not os.path.isdir(baselines):
        complain("accel_baselines", True, f"`{baselines}` is a file", "name a folder")
    report = path("accel_report")
    if report is not None and os.path.isdir(report):
        complain("accel_report", True, f"`{report}` is a folder", "name a file in it")
    wait = DEFAULT_LOCK_WAIT
    wait_text = config.getini("accel_lock_wait")
    if wait_text:
        try:
            wait = float(str(wait_text).removesuffix("s"))
        except ValueError:
            complain(
                "accel_lock_wait", False, f"`{wait_text}` is not a number of seconds", "write a number such as 1800"
            )
    options = Options(
        accel=platform or "auto",
        devices=count("accel_devices", None),
        baselines=baselines,
        record=cast("Record | None", choice("accel_record", ("new", "add"), None)),
        allow_new=flag("accel_allow_new"),
        tier=choice("accel_tier", ("smoke", "gate", "full"), "gate") or "gate",
        report=report,
        sessions=count("accel_sessions", DEFAULT_SESSIONS) or DEFAULT_SESSIONS,
        in_process=flag("accel_in_process"),
        lanes=count("accel_lanes", None),
        suites=listed_suites(config),
        lock_wait=wait,
        history=history(),
        notify=str(raw("accel_notify")[0]) if raw("accel_notify")[0] else None,
        notify_format=choice("accel_notify_format", ("json", "slack", "wecom", "dingtalk"), "json") or "json",
        explicit=raw("accel")[0] is not None,
    )
    if problems:
        raise ConfigError(problems)
    return options


def listed_suites(config: pytest.Config) -> tuple[str, ...]:
    """The files of ini ``accel_suites``: absolute, globs expanded, in the order written. A name that is no file is CONFIG."""
    listed = config.getini("accel_suites")
    if not listed:
        return ()
    base = config.inipath.parent if config.inipath else config.rootpath
    found: list[str] = []
    for pattern in listed:
        matches = sorted(base.glob(pattern)) if not os.path.isabs(pattern) else [Path(pattern)]
        files = [str(match) for match in matches if match.is_file()]
        if not files:
            raise ConfigError(
                Problem(
                    what=f"accel_suites: `{pattern}` matches no file below {base}",
                    mend="correct the path or remove the line",
                    path=str(config.inipath or ""),
                )
            )
        found.extend(name for name in files if name not in found)
    return tuple(found)
