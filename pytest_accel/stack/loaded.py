"""The stack as it is in the process that measures: what the probe saw, completed by what torch loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.stack.platform import Platform
from pytest_accel.stack.types import Stack, Value


def loaded_stack(platform: Platform, index: int, probe_part: Mapping[str, Mapping[str, Any]]) -> Stack:
    """Join the probe's part (``hardware``, ``settings``, ``versions``) with what this process finds on device ``index``.

    What is loaded counts more than what is installed, so a loaded value replaces the probe's; one that could not be read
    replaces nothing. Imports torch and may initialise the device.
    """
    return Stack(
        platform=platform.name,
        hardware=_joined(probe_part.get("hardware", {}), platform.hardware_loaded(index)),
        settings=_joined(probe_part.get("settings", {}), platform.settings()),
        versions=_joined(probe_part.get("versions", {}), platform.versions_loaded()),
    )


def _joined(probed: Mapping[str, Value], loaded: Mapping[str, Value]) -> dict[str, Value]:
    known = {name: value for name, value in loaded.items() if value is not None or name not in probed}
    return {**probed, **known}
