"""Which devices this process has work on, asked without importing torch and without touching a device."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pytest_accel.errors import ConfigError
from pytest_accel.stack.registry import HOST_PLATFORM, names, platform


@dataclass(frozen=True)
class ActiveDevices:
    """The devices of one kind that this process uses: torch's word for them, and their indices."""

    kind: str
    indices: tuple[int, ...]
    module: Any

    @property
    def name(self) -> str:
        """What the first of them is called."""
        return str(self.module.get_device_name(self.indices[0]))

    def synchronize(self) -> None:
        """Wait for all work on them."""
        for index in self.indices:
            self.module.synchronize(index)


def is_active() -> bool:
    """True where torch is loaded and a device initialised; costs two look-ups where torch is not loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and any(_initialised(torch, kind) is not None for kind in _kinds())


def active_devices() -> tuple[ActiveDevices, ...]:
    """The devices in use, by kind: the current one, and those on which torch holds memory; empty where none is initialised.

    A device that is not in use is left alone: waiting for it would initialise it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return ()
    found = []
    for kind in _kinds():
        module = _initialised(torch, kind)
        if module is not None:
            current = int(module.current_device())
            others = [i for i in range(module.device_count()) if i != current and module.memory_reserved(i) > 0]
            found.append(ActiveDevices(kind, (current, *others), module))
    return tuple(found)


@lru_cache(maxsize=1)
def _kinds() -> tuple[str, ...]:
    kinds: dict[str, None] = {}
    for name in names():
        if name != HOST_PLATFORM:
            try:
                kinds[platform(name).device_type] = None
            except ConfigError:  # a package outside that cannot be loaded uses no device either
                continue
    return tuple(kinds)


def _initialised(torch: Any, kind: str) -> Any:
    module = getattr(torch, kind, None)
    asked = getattr(module, "is_initialized", None)
    return module if asked is not None and asked() else None
