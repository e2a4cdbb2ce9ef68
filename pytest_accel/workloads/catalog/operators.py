"""Operator coverage: workloads, metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog.shared import INFO, MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec, Workload

METRICS = {
    "status": MetricSpec("", "equal", order=STATUS, source="order from best to worst; going down the list is worse"),
    "faults": MetricSpec("count", "lower", max=0, source="samples that are wrong, non-finite, on fallback, …"),
    "samples": MetricSpec("count", "higher", source="fewer samples would be coverage lost unseen"),
    "nonfinite": NONE,
    "inputs": INFO,
    "available": INFO,
    "max_ulp": MAX_ULP,
    "rms_ulp": RMS_ULP,
}

ALL = (
    Workload(
        "operator",
        "pytest_accel.workloads.operators:operator",
        METRICS,
        tells_fallback=True,
        lanes=True,
        inputs="inputs",
    ),
    Workload(
        "operator_backward",
        "pytest_accel.workloads.operators:operator_backward",
        METRICS,
        tells_fallback=True,
        lanes=True,
        inputs="inputs",
    ),
)
