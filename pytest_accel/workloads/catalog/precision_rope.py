"""Rotary positions: workloads, metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.workloads.catalog.precision_shared import card
from pytest_accel.workloads.catalog.shared import NONE
from pytest_accel.workloads.types import MetricSpec, Workload

LONG_BANDS = (256, 2048, 4096, 32768, 131072, 1048576)
DISTANCES = (1, 1024, 4096, 16384)


def ratios(ends: Iterable[int], source: str) -> dict[str, MetricSpec]:
    """``ratio_N``, held by its bound, and ``error_N``, by the baseline alone."""
    metrics = {}
    for end in ends:
        metrics[f"ratio_{end}"] = MetricSpec("", "lower", worse_by="25%", floor=0.1, max=1.0, source=source)
        metrics[f"error_{end}"] = MetricSpec(
            "", "lower", worse_by="50%", floor=2.0**-23, source="judged against the baseline; ratio_* holds the limit"
        )
    return metrics


ALL = (
    Workload(
        "rope_recipe",
        "pytest_accel.workloads.rope_phase:rope_recipe",
        {
            "nonfinite": NONE,
            **ratios(
                LONG_BANDS,
                "error over theta*2^-23 + 2^-23 + half an ulp of the table: correct float32 reads 0.77 to 0.94 up to a "
                "million, the mildest known fault 8.8",
            ),
        },
    ),
    Workload(
        "rope_apply",
        "pytest_accel.workloads.rope_apply:rope_apply",
        {
            **card(("rotated",)),
            "norm": MetricSpec(
                "",
                "lower",
                worse_by="50%",
                floor=0.1,
                max=1.0,
                source="|Rx|/|x| - 1 over eps_table + eps_result; correct rotations read 0.35 at most",
            ),
        },
    ),
    Workload(
        "rope_scores",
        "pytest_accel.workloads.rope_apply:rope_scores",
        ratios(
            DISTANCES,
            "each pair of dimensions is off by (theta_m + theta_n) 2^-23 and four roundings at most, weighted by |q_j||k_j|",
        ),
    ),
    Workload(
        "trigonometry",
        "pytest_accel.workloads.rope_phase:trigonometry",
        {
            "nonfinite": NONE,
            "above_one": MetricSpec("count", "lower", max=0, source="|sin| and |cos| are never above 1"),
            **{
                f"{name}_ulp": MetricSpec(
                    "ulp",
                    "lower",
                    worse_by="100%",
                    floor=0.1,
                    max=4.0,
                    source="vendors state 2 ulp in float32 over the whole range; doubled",
                )
                for name in ("sin", "cos")
            },
        },
    ),
)
