"""Memory: workloads, metrics, tolerances and their sources. No torch here. MB are 1e6 bytes."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.workloads.catalog.throughput import TIME
from pytest_accel.workloads.types import MetricSpec, Workload

PEAK_SOURCE = (
    "a caching allocator rounds to blocks of 2 MiB, and a library may choose another workspace of some MB; a lost fast path "
    "costs 1.5 to 3 times (conv3d in torch 2.9: 7.27 GB for 2.51)"
)
RESERVED_SOURCE = "the allocator reserves 20 MiB at a time for small tensors, and one segment more is chance"


def _info(unit: str = "") -> MetricSpec:
    return MetricSpec(unit, "lower", kind="info")


def _leak(what: str) -> MetricSpec:
    return MetricSpec(
        "MB/h",
        "lower",
        kind="memory",
        max=0,
        source=f"{what}: the slope where its 99 % interval lies above the soak's floor, else 0",
    )


SHARES: Mapping[str, MetricSpec] = {
    "peak_share": _info("%"),
    "cap_share": MetricSpec(
        "%", "lower", kind="memory", worse_by=100.0, max=100, source="the cap that the case declares"
    ),
    "fragmentation": _info("%"),
}

PEAK: Mapping[str, MetricSpec] = {
    "peak_allocated": MetricSpec("MB", "lower", kind="memory", worse_by="5%", floor=8, source=PEAK_SOURCE),
    "peak_reserved": MetricSpec("MB", "lower", kind="memory", worse_by="10%", floor=42, source=RESERVED_SOURCE),
    "peak_to_float32": MetricSpec(
        "",
        "lower",
        kind="memory",
        worse_by="10%",
        max=1.1,
        source="half precision that needs more than float32 for the same work has lost its path (pytorch#166643)",
    ),
    **SHARES,
    "time": TIME,
}

SOAK: Mapping[str, MetricSpec] = {
    "leak": _leak("memory that is in use"),
    "leak_reserved": _leak("memory that the allocator holds"),
    "leak_host": _leak("the host's memory that is in use"),
    **{
        f"{series}{name}": _info(unit)
        for series in ("", "reserved_", "host_")
        for name, unit in (
            ("slope", "MB/h"),
            ("slope_low", "MB/h"),
            ("slope_high", "MB/h"),
            ("smallest", "MB/h"),
            ("per_1000", "MB"),
            ("per_1000_low", "MB"),
            ("per_1000_high", "MB"),
        )
    },
    "hours_to_oom": MetricSpec("h", "higher", kind="info"),
    "requests": MetricSpec("count", "higher", kind="info"),
    "peak_allocated": MetricSpec("MB", "lower", kind="memory", worse_by="10%", floor=16, source=PEAK_SOURCE),
    "peak_reserved": MetricSpec("MB", "lower", kind="memory", worse_by="25%", floor=84, source=RESERVED_SOURCE),
    **SHARES,
}

ALL = (
    Workload("memory_peak", "pytest_accel.workloads.memory:memory_peak", PEAK, timed=True),
    Workload("memory_soak", "pytest_accel.workloads.memory_soak:memory_soak", SOAK),
)
