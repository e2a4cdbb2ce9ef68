"""Metrics of workloads that judge many probes of one kind (workloads/probes.py). No torch here."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.workloads.catalog.shared import DRIFT, INFO, MAX_ULP, NONE, RMS_ULP, STATUS
from pytest_accel.workloads.types import MetricSpec


def card(groups: Iterable[str]) -> dict[str, MetricSpec]:
    """What ``workloads.probes.Card`` returns: a status a group, counts, errors forward and backward."""
    metrics = {
        f"status_{group}": MetricSpec("", "equal", order=STATUS, source="order from best to worst; down is worse")
        for group in groups
    }
    return metrics | {
        "faults": MetricSpec("count", "lower", max=0, source="probes that are wrong, non-finite, on fallback, …"),
        "judged": MetricSpec("count", "higher", source="fewer probes that pass would be coverage lost unseen"),
        "nonfinite": NONE,
        "repeats": MetricSpec(
            "", "equal", kind="info", source="two gradients on one input; atomic sums may lawfully differ"
        ),
        "max_ulp": MAX_ULP,
        "rms_ulp": RMS_ULP,
        "bias": MetricSpec("ulp", "lower", worse_by="100%", floor=0.1, source=DRIFT),
        "cosine": INFO,
        "max_relative": INFO,
        "grad_max_ulp": MAX_ULP,
        "grad_rms_ulp": RMS_ULP,
    }
