"""The platforms by name, loaded when asked for. A new vendor is one module and one line here, or an entry point elsewhere."""

from __future__ import annotations

import importlib
import importlib.metadata
from functools import cache, lru_cache
from typing import cast

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.stack.host import Host
from pytest_accel.stack.platform import Platform
from pytest_accel.stack.types import Finding, Probe

GROUP = "pytest_accel.platforms"
HOST_PLATFORM = "cpu"

_BUILT_IN = {
    "cuda": "pytest_accel.stack.cuda:CudaPlatform",
    "rocm": "pytest_accel.stack.rocm:RocmPlatform",
    "ascend": "pytest_accel.stack.ascend:AscendPlatform",
    HOST_PLATFORM: "pytest_accel.stack.cpu:CpuPlatform",
}
#: What a platform must have: what the protocol declares.
_MEMBERS = tuple(name for name in (*Platform.__annotations__, *vars(Platform)) if not name.startswith("_"))
BROKEN = "platform-broken"


@lru_cache(maxsize=1)
def _classes() -> dict[str, str]:
    """``module:Class`` by name, accelerators first. A package outside may add names; the built-in ones stay what they are."""
    found = {name: path for name, path in _BUILT_IN.items() if name != HOST_PLATFORM}
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.name not in _BUILT_IN:
            found.setdefault(point.name, point.value)
    return {**found, HOST_PLATFORM: _BUILT_IN[HOST_PLATFORM]}


def names() -> tuple[str, ...]:
    """Every platform's word, in the order in which ``auto`` looks for them; the host's own comes last."""
    return tuple(_classes())


@cache
def platform(name: str) -> Platform:
    """The platform called ``name``, one object a process. Raises ConfigError for an unknown name or one that won't load."""
    path = _classes().get(name)
    if path is None:
        raise ConfigError(Problem(f"unknown platform {name!r}", f"one of: {', '.join(names())}"))
    module, _, attribute = path.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except Exception as error:  # whatever a package outside raises while it is imported
        what = f"platform {name!r} ({path}) cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(Problem(what, "mend or remove the package that brings it")) from error
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        what = f"platform {name!r} ({path}) lacks {', '.join(missing)} of pytest_accel.stack.platform.Platform"
        raise ConfigError(Problem(what, "install the release of its package that is made for this pytest-accel"))
    return cast(Platform, made)


def probe(name: str, host: Host) -> Probe:
    """What the platform finds on ``host``. One that cannot be loaded, or whose probe raises, is broken and says why.

    So a broken package costs its own platform and no other. Raises ConfigError for an unknown name.
    """
    if name not in _classes():
        platform(name)
    try:
        return platform(name).probe(host)
    except ConfigError as error:
        problem = error.problems[0]
        return _broken(name, problem.what, problem.mend)
    except Exception as error:
        what = f"the probe of platform {name!r} failed: {type(error).__name__}: {error}"
        return _broken(name, what, "report it to the platform's maker; name another platform with --accel meanwhile")


def _broken(name: str, what: str, mend: str) -> Probe:
    return Probe(name, "broken", what, mend, findings=(Finding(BROKEN, "error", what, mend),))


def settings_known() -> dict[str, dict[str, type]]:
    """The settings that a suite may pin, with their Python types, by platform; none of a platform that cannot be loaded."""
    known = {}
    for name in names():
        try:
            known[name] = dict(platform(name).settings_allowed)
        except ConfigError:  # told where the platform is looked for
            known[name] = {}
    return known
