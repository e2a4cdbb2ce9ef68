"""Operators of language models, fused kernels, traced calls, extensions: workloads, metrics and their sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog.shared import MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec, Workload

#: ``unverified`` (it runs, nothing says what would be right) stands below what was found right and above all faults.
WORDS = ("supported", "unverified", *STATUS[1:])
JUDGED = {
    "status": MetricSpec("", "equal", order=WORDS, source="order from best to worst; going down the list is worse"),
    "faults": MetricSpec(
        "count", "lower", max=0, source="1 where the status is a fault: wrong, non-finite, fallback, …"
    ),
    "nonfinite": NONE,
    "max_ulp": MAX_ULP,
    "rms_ulp": RMS_ULP,
}
_AT = "pytest_accel.workloads."


def _judged(name: str, function: str) -> Workload:
    return Workload(name, _AT + function, JUDGED, tells_fallback=True)


ALL = (
    _judged("attention_backend", "sdpa:attention_backend"),
    _judged("one_hot", "llm_ops:one_hot"),
    _judged("fused_norm", "llm_ops:fused_norm"),
    _judged("rotary_accuracy", "llm_ops:rotary"),
    _judged("cross_entropy_accuracy", "llm_ops:cross_entropy"),
    _judged("int_mm", "narrow_mm:int_mm"),
    _judged("scaled_mm", "narrow_mm:scaled_mm"),
    _judged("block_scaled_mm", "narrow_mm:block_scaled_mm"),
    _judged("grouped_mm", "narrow_mm:grouped_mm"),
    _judged("fused_kernel", "fused_kernels:fused_kernel"),
    _judged("traced_op", "traced:traced_op"),
    _judged("triton_feature", "triton_features:triton_feature"),
    _judged("extension_call", "extension:extension_call"),
    Workload(
        "extension",
        _AT + "extension:extension",
        {
            **JUDGED,
            "device_code": MetricSpec(
                "", "equal", order=("built", "no-toolkit", "none"), source="a toolkit that went takes device code along"
            ),
            "build": MetricSpec("s", "lower", kind="info", source="a build's time hangs on what else the host does"),
        },
        tells_fallback=True,
    ),
    Workload(
        "replacement",
        _AT + "replacement:replacement",
        {
            **JUDGED,
            "samples": MetricSpec("count", "higher", source="fewer samples would be coverage lost unseen"),
            "stress": MetricSpec("count", "lower", max=0, source="values that a right replacement must survive"),
        },
        tells_fallback=True,
    ),
)
