"""Whether a variant is for this machine."""

from __future__ import annotations

from collections.abc import Callable

from pytest_accel.suite.types import Variant
from pytest_accel.suite.units import capability_fits


def not_for(
    variant: Variant,
    *,
    platform: str,
    device_count: int,
    memory_bytes: int | None,
    capability: tuple[int, int] | None,
    has_package: Callable[[str], bool],
) -> str | None:
    """A sentence saying why ``variant`` is not for this machine, or None where it is.

    ``memory_bytes`` is one device's; where it cannot be read (None) it excuses nothing, and the variant is asked for. A
    device without a compute capability (None) meets no demand for one. Raises ConfigError for a capability that is none.
    """
    needs = variant.requires
    if needs.platform and platform not in needs.platform:
        return f"not for {platform}: it is for {', '.join(needs.platform)}"
    if device_count < needs.devices:
        return f"it needs {needs.devices} devices, and {device_count} {'is' if device_count == 1 else 'are'} here"
    if needs.memory is not None and memory_bytes is not None and memory_bytes < needs.memory:
        return f"it needs {_gib(needs.memory)} of memory on a device, and this one has {_gib(memory_bytes)}"
    if needs.capability is not None:
        fits = capability_fits(needs.capability, capability or (0, 0))
        if capability is None:
            return f"it needs capability {needs.capability}, and a device of {platform} has none"
        if not fits:
            return f"it needs capability {needs.capability}, and this device has {capability[0]}.{capability[1]}"
    absent = [name for name in needs.package if not has_package(name)]
    if absent:
        return f"it needs the package {' and '.join(absent)}, which cannot be imported here"
    return None


def _gib(size: int) -> str:
    return f"{size / 2**30:.4g} GiB"
