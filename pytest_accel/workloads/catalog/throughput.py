"""Throughput: workloads, metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.workloads.types import MetricSpec, Workload

TIME = MetricSpec(
    "us",
    "lower",
    kind="timing",
    worse_by="3%",
    source="sessions of one H200: within 0.8 % where memory limits, 2.6 % where power does (one 8192 product once 3.7 % "
    "faster), none 3 % slower; but cards differ by up to 3.8 % (4096 products), so a baseline should hold several cards",
)
TIMED: Mapping[str, MetricSpec] = {
    "time": TIME,
    "correct": MetricSpec("", "equal", equals="yes", source="a fast wrong kernel is no record"),
    "tflops": MetricSpec("TFLOP/s", "higher", kind="info"),
    "gbps": MetricSpec("GB/s", "higher", kind="info"),
    "roof_share": MetricSpec("", "higher", kind="info"),
    "times_float32": MetricSpec(
        "", "lower", kind="info", source="time over that of the same work in float32, same session"
    ),
}


ALL = (
    Workload("gemm", "pytest_accel.workloads.throughput:gemm", TIMED, timed=True),
    Workload("attention", "pytest_accel.workloads.throughput:attention", TIMED, timed=True),
    Workload("rms_norm", "pytest_accel.workloads.throughput:rms_norm", TIMED, timed=True),
    Workload("copy", "pytest_accel.workloads.throughput:copy", TIMED, timed=True),
)
