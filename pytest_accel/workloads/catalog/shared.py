"""Metric declarations that several workloads share. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.types import MetricSpec

STATUS = (
    "supported",
    "nondeterministic",
    "wrong",
    "nonfinite",
    "saturated",
    "fallback",
    "unsupported",
    "dtype-unsupported",
    "oom",
    "timeout",
    "crash",
    "poisoned",
    "no-sample",
    "no-golden",
)


#: The baseline rule of operator accuracy.
DRIFT = (
    "twice the worst and 1.25 of the rms error stored, and more than 0.1 ulp above it: the reference's baseline rule"
)
MAX_ULP = MetricSpec("ulp", "lower", worse_by="100%", floor=0.1, source=DRIFT)
RMS_ULP = MetricSpec("ulp", "lower", worse_by="25%", floor=0.1, source=DRIFT)
NONE = MetricSpec("count", "lower", max=0, source="any one is a fault")
INFO = MetricSpec("", "equal", kind="info")
