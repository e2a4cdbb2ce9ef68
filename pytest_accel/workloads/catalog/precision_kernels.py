"""Attention, functions of rows, convolutions, products, optimisers, random numbers: metrics and sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog.precision_shared import card
from pytest_accel.workloads.catalog.shared import INFO, MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec, Workload

RULE = MetricSpec("", "equal", equals="supported", order=STATUS, source="the accuracy rule")
SEED = "a generator's contract: torch.manual_seed"

ALL = (
    Workload(
        "attention_accuracy",
        "pytest_accel.workloads.attention_precision:attention_accuracy",
        {
            **card(("normal", "large", "tiny", "equal", "negative", "masked", "nan", "edge")),
            "masked_rows": MetricSpec(
                "", "equal", source="what a row gets that sees no key: no contract says, models depend on it"
            ),
        },
    ),
    Workload(
        "function_accuracy",
        "pytest_accel.workloads.norms_precision:function_accuracy",
        card(("normal", "large", "tiny", "equal", "nonfinite", "edge")),
    ),
    Workload("conv_accuracy", "pytest_accel.workloads.conv_precision:conv_accuracy", card(("normal", "tiny"))),
    Workload(
        "conv_large",
        "pytest_accel.workloads.conv_precision:conv_large",
        {
            "status": RULE,
            "nonfinite": NONE,
            "stray": MetricSpec("count", "lower", max=0, source="gradients where the output's gradient is zero"),
            "max_ulp": MAX_ULP,
            "grad_max_ulp": MAX_ULP,
        },
    ),
    Workload(
        "gemm_cancelling",
        "pytest_accel.workloads.matmul:gemm_cancelling",
        {
            "status": RULE,
            "nonfinite": NONE,
            "max_ulp": MAX_ULP,
            "rms_ulp": RMS_ULP,
            "of_partial": MetricSpec(
                "",
                "lower",
                worse_by="100%",
                floor=0.5,
                source="0.1 to 0.2 with float32 sums, above 1 with 16-bit ones (float32: K)",
            ),
        },
    ),
    Workload(
        "matmul_identity",
        "pytest_accel.workloads.matmul:matmul_identity",
        {"inexact": MetricSpec("count", "lower", max=0, source="A @ I is A, exactly")},
    ),
    Workload(
        "optimizer_accuracy",
        "pytest_accel.workloads.optim_precision:optimizer_accuracy",
        {
            "status": MetricSpec("", "equal", order=STATUS, source="order from best to worst; down is worse"),
            "nonfinite": NONE,
            "max_ulp": MetricSpec(
                "ulp", "lower", worse_by="100%", floor=0.5, max=16.0, source="measured 2.1 at most over five optimisers"
            ),
            "rms_ulp": RMS_ULP,
            "bias": MetricSpec(
                "ulp", "lower", worse_by="100%", floor=0.1, source="no rounding of a right update leans one way"
            ),
        },
    ),
    Workload(
        "random_numbers",
        "pytest_accel.workloads.rng:random_numbers",
        {
            "worst_sigma": MetricSpec(
                "", "lower", worse_by=1e9, max=6.0, source="six standard errors: chance breaks it in 1 of 5e8 tests"
            ),
            "out_of_range": MetricSpec("count", "lower", max=0, source="the distribution's own range"),
            "same_seed": MetricSpec("", "equal", equals="equal", source=SEED),
            "other_seed": MetricSpec("", "equal", equals="differs", source=SEED),
            "next_draw": MetricSpec("", "equal", equals="differs", source=SEED),
            "state": MetricSpec("", "equal", order=("restored", "none", "lost"), source=SEED),
            "stream": INFO,
        },
    ),
)
