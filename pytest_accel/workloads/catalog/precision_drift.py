"""Drift in use and conversions: metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog.shared import INFO, MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec, Workload

DRIFT_BANDS = (128, 512, 1024, 4096)
_MEASURED = "a decoder of two layers reads 2.5 to 3.5 roundoffs at every position (CPU); early casts 10 to 1200"

ALL = (
    Workload(
        "decode_drift",
        "pytest_accel.workloads.decode_drift:decode_drift",
        {
            "nonfinite": NONE,
            **{
                f"drift_{band}": MetricSpec("roundoffs", "lower", worse_by="25%", floor=0.5, max=16.0, source=_MEASURED)
                for band in DRIFT_BANDS
            },
            "worst": MetricSpec("roundoffs", "lower", worse_by="100%", floor=4.0, source=_MEASURED),
            "growth": MetricSpec(
                "",
                "lower",
                worse_by="25%",
                floor=0.1,
                max=2.0,
                source="errors of a right decoder do not grow with the position: 0.96 to 1.03 measured, early casts 3.7 and 5.3",
            ),
            "slope": MetricSpec("roundoffs/1000", "lower", worse_by="100%", floor=1.0, source=_MEASURED),
            "differing": MetricSpec(
                "count", "lower", max=0, source="best logits that are clearly apart keep their order"
            ),
            "first_differing": INFO,
        },
    ),
    Workload(
        "convert_check",
        "pytest_accel.workloads.convert:convert_check",
        {
            "status": MetricSpec("", "equal", equals="supported", order=STATUS, source="the accuracy rule"),
            "max_abs": MetricSpec(
                "", "lower", worse_by="100%", max=1e-3, source="the usual acceptance of converted models; set your own"
            ),
            "nonfinite": NONE,
            "max_ulp": MAX_ULP,
            "rms_ulp": RMS_ULP,
            "cosine": INFO,
            "max_relative": INFO,
            "golden": INFO,
        },
    ),
)
