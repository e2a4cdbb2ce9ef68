"""Throughput: workloads, metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_accel.workloads.types import MetricSpec, Workload

TIME = MetricSpec(
    "us",
    "lower",
    kind="timing",
    worse_by="3%",
    effect="1.5%",
    source="10 sessions of one H200, taken in bursts: 0.2 to 1.3 % between the extremes, 3 % for a 10 us product; another "
    "clock's 23 sessions alike. effect: with six sessions, half of the tolerance is seen (docs/statistics.md)",
)
TIMED: Mapping[str, MetricSpec] = {
    "time": TIME,
    "correct": MetricSpec("", "equal", equals="yes", source="a fast wrong kernel is no record"),
    "tflops": MetricSpec("TFLOP/s", "higher", kind="info"),
    "gbps": MetricSpec("GB/s", "higher", kind="info"),
    "roof_share": MetricSpec("", "higher", kind="info"),
    "cold": MetricSpec("us", "lower", kind="info"),  # the first call, with whatever it loads and compiles
    "host_us": MetricSpec("us", "lower", kind="info"),  # the host's part of a launch
    "kernels": MetricSpec("", "equal", kind="info"),  # the names of what ran on the device
    "tokens_per_s": MetricSpec("token/s", "higher", kind="info"),
    "ttft": MetricSpec("ms", "lower", kind="info"),
}
#: A ratio of two times of one session holds across machines. What it is for, a lost fast path, costs a factor.
RATIO = MetricSpec(
    "",
    "lower",
    kind="timing",
    worse_by="100%",
    source="six sessions of one H200: float16 over float32 moves by at most 2.5 %; a lost fast path costs two times and more",
)
RATED: Mapping[str, MetricSpec] = {**TIMED, "ratio": RATIO}
# Where power limits, cards differ by more: 4096 and 16 x 4096 products by 3.7 and 3.6 % between two healthy H200.
PRODUCT: Mapping[str, MetricSpec] = {**RATED, "time": replace(TIME, between_devices="4%"), "times_float32": RATIO}
#: By the host's clock, so no timing of the file's family: their spread would blur what is known of the device's times.
HOST = MetricSpec(
    "us",
    "lower",
    worse_by="200%",
    source="an H200's host: the medians of a launch with its wait were 25 to 39 us in 14 sessions, a spread of 57 %",
)
LAUNCH: Mapping[str, MetricSpec] = {
    **TIMED,
    "time": replace(
        TIME,
        worse_by="25%",
        effect=None,
        floor=0.3,
        source="1.6 to 1.8 us in 14 sessions of one H200: a twentieth of the work is nothing that the clock could see",
    ),
    "host_us": HOST,
    "round_trip": HOST,
    "graph": replace(
        TIME,
        worse_by="25%",
        effect=None,
        source="not yet measured over sessions: some microseconds, of which the clock's step is a share",
    ),
}
MOST_DEVICES = 16  # of one host: links between more are measured and, undeclared, refused
LINK = MetricSpec(
    "GB/s",
    "higher",
    kind="timing",
    worse_by="10%",
    source="by the host's clock over four copies of 256 MiB; a link that fell back a generation or a lane loses half",
)
LINKS: Mapping[str, MetricSpec] = {
    "slow_links": MetricSpec(
        "",
        "equal",
        equals="none",
        source="below half of the median link or of its own reverse: links of one kind are alike, a bus beside faster links "
        "is no half of the median",
    ),
    "slowest": MetricSpec("", "equal", kind="info"),
    "time": replace(LINK, unit="us", better="lower"),  # over the slowest
    "correct": TIMED["correct"],
    **{f"gbps_{i}_{j}": LINK for i in range(MOST_DEVICES) for j in range(MOST_DEVICES) if i != j},
}

_AT = "pytest_accel.workloads.throughput_"
ALL = (
    Workload("gemm", f"{_AT}matmul:gemm", PRODUCT, timed=True),
    Workload("gemm_float8", f"{_AT}matmul:gemm_float8", PRODUCT, timed=True),
    Workload("gemm_int8", f"{_AT}matmul:gemm_int8", PRODUCT, timed=True),
    Workload("attention", f"{_AT}attention:attention", TIMED, timed=True),
    Workload("attention_ratio", f"{_AT}attention:attention_ratio", RATED, timed=True),
    Workload("rms_norm", f"{_AT}rows:rms_norm", TIMED, timed=True),
    Workload("layer_norm", f"{_AT}rows:layer_norm", TIMED, timed=True),
    Workload("softmax", f"{_AT}rows:softmax", TIMED, timed=True),
    Workload("rotary", f"{_AT}rows:rotary", TIMED, timed=True),
    Workload("cross_entropy", f"{_AT}rows:cross_entropy", TIMED, timed=True),
    Workload("embedding", f"{_AT}rows:embedding", TIMED, timed=True),
    Workload("fused", f"{_AT}rows:fused", RATED, timed=True),
    Workload("sort", f"{_AT}select:sort", TIMED, timed=True),
    Workload("topk", f"{_AT}select:topk", TIMED, timed=True),
    Workload("random_fill", f"{_AT}select:random_fill", TIMED, timed=True),
    Workload("conv", f"{_AT}conv:conv", TIMED, timed=True),
    Workload("copy", f"{_AT}moves:copy", TIMED, timed=True),
    Workload("copy_pageable", f"{_AT}moves:copy_pageable", RATED, timed=True),
    Workload("launch", f"{_AT}moves:launch", LAUNCH, timed=True),
    Workload("peer_copy", f"{_AT}moves:peer_copy", LINKS, timed=True),
    Workload("optimizer_step", f"{_AT}training:optimizer_step", RATED, timed=True),
    Workload("training_step", f"{_AT}training:training_step", RATED, timed=True),
    Workload("lora_step", f"{_AT}training:lora_step", TIMED, timed=True),
    Workload("decoder_prefill", f"{_AT}decoder:decoder_prefill", TIMED, timed=True),
    Workload("decoder_decode", f"{_AT}decoder:decoder_decode", RATED, timed=True),
    Workload("compiled", f"{_AT}compiled:compiled", RATED, timed=True),
    Workload("triton_kernel", f"{_AT}compiled:triton_kernel", RATED, timed=True),
)
