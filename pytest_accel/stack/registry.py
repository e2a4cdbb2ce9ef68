"""The platforms by name, loaded when asked for. A new vendor is one module and one line here, or an entry point elsewhere."""

from __future__ import annotations

import importlib
import importlib.metadata
from functools import cache, lru_cache
from typing import cast

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.stack.platform import Platform

GROUP = "pytest_accel.platforms"
HOST_PLATFORM = "cpu"

_BUILT_IN = {
    "cuda": "pytest_accel.stack.cuda:CudaPlatform",
    "rocm": "pytest_accel.stack.rocm:RocmPlatform",
    "ascend": "pytest_accel.stack.ascend:AscendPlatform",
    HOST_PLATFORM: "pytest_accel.stack.cpu:CpuPlatform",
}


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
        return cast(Platform, getattr(importlib.import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            Problem(f"platform {name!r} ({path}) cannot be loaded: {error}", "mend or remove it")
        ) from error


def settings_known() -> dict[str, dict[str, type]]:
    """The settings that a suite may pin, with their Python types, by platform."""
    return {name: dict(platform(name).settings_allowed) for name in names()}
