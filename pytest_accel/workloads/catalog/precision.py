"""Precision: workloads, metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog import precision_amp, precision_drift, precision_kernels, precision_rope
from pytest_accel.workloads.catalog.shared import MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec, Workload

BANDS = (256, 2048, 4096, 32768, 131072)


def _rope() -> dict[str, MetricSpec]:
    metrics = {"nonfinite": NONE}
    for band in BANDS:
        metrics[f"ratio_{band}"] = MetricSpec(
            "",
            "lower",
            worse_by="25%",
            floor=0.1,
            max=1.0,
            source="error over theta*2^-23 + 2^-23 + half an ulp of the table: correct float32 reads 0.77 to 0.94, the "
            "mildest known fault 8.8",
        )
        metrics[f"error_{band}"] = MetricSpec(
            "",
            "lower",
            worse_by="50%",
            floor=2.0**-23,
            source="judged against the baseline only; ratio_* holds the limit",
        )
    return metrics


ALL = (
    Workload(
        "gemm_accuracy",
        "pytest_accel.workloads.matmul:gemm_accuracy",
        {
            "status": MetricSpec("", "equal", equals="supported", order=STATUS, source="the accuracy rule"),
            "nonfinite": NONE,
            "checksum_rows": MetricSpec(
                "count", "lower", max=0, source="rows whose random projection is off: sparse corruption"
            ),
            "max_ulp": MAX_ULP,
            "rms_ulp": RMS_ULP,
        },
    ),
    Workload(
        "matmul_ones",
        "pytest_accel.workloads.matmul:matmul_ones",
        {
            "inexact": MetricSpec(
                "count", "lower", max=0, source="ones(n, n) @ ones(n, n) is exactly n where n fits the dtype"
            ),
        },
    ),
    Workload(
        "float32_mode",
        "pytest_accel.workloads.matmul:float32_mode",
        {
            "mode": MetricSpec(
                "",
                "equal",
                order=("ieee", "tf32", "bfloat16", "other"),
                source="[1024.5] @ [[1.0]] keeps its half only in float32",
            ),
        },
    ),
    Workload("rope_table", "pytest_accel.workloads.rope:rope_table", _rope()),
    Workload(
        "amp_overflow",
        "pytest_accel.workloads.amp:amp_overflow",
        {
            "overflow_mode": MetricSpec(
                "", "equal", source="a changed mode moves every overflow check of a training job"
            ),
            "not_finite": MetricSpec(
                "count", "lower", max=0, source="results that fit the dtype must be finite and right"
            ),
            "not_overflowed": MetricSpec(
                "count", "lower", max=0, source="results beyond the dtype must be inf (or declared saturated)"
            ),
            "subnormals": MetricSpec(
                "", "equal", order=("kept", "flushed"), source="flushed subnormals lose small gradients"
            ),
        },
    ),
    Workload(
        "grad_scaler",
        "pytest_accel.workloads.amp:grad_scaler",
        {
            "scales": MetricSpec("", "equal", kind="info"),
            "mismatches": MetricSpec(
                "count", "lower", max=0, source="steps whose scale is not that of the documented algorithm"
            ),
            "skipped": MetricSpec(
                "count", "lower", worse_by=1.0, source="one skipped step more is chance, more is a trend"
            ),
            "skipped_share": MetricSpec(
                "", "lower", max=0.5, source="a job that skips most of its steps does not train"
            ),
            "final_scale": MetricSpec("", "equal", kind="info"),
            "moved_on_skip": MetricSpec(
                "count", "lower", max=0, source="a skipped step must leave the parameters' bits alone"
            ),
            "held_on_step": MetricSpec(
                "count", "lower", max=0, source="a step that is not skipped must move the parameters"
            ),
            "parameters": MetricSpec(
                "", "equal", equals="moved", source="after all steps the model must have learnt something"
            ),
            "natural_overflow": MetricSpec(
                "", "equal", equals="skipped", source="an overflow on the device must skip the step"
            ),
        },
    ),
    *precision_rope.ALL,
    *precision_kernels.ALL,
    *precision_amp.ALL,
    *precision_drift.ALL,
)
