"""Measure again what the tolerances of the precision workloads rest on: correct kernels, several seeds, this machine.

    python benchmarks/derive_tolerances.py [--accel cpu] [--seeds 3]

Each row holds a limit of ``measure/tolerances_precision.py`` or of the catalogue, the largest value that right kernels reach
here, and the margin. Exit 1 where a right kernel breaks a limit; a margin above 20 is ``wide``: the limit may be tightened.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.stack.registry import platform
from pytest_accel.stack.types import Stack
from pytest_accel.workloads import registry
from pytest_accel.workloads.norms_precision import FUNCTIONS

DTYPES = ("float16", "bfloat16", "float32")
LOW = ("float16", "bfloat16")
WIDE = 20.0

#: name of the limit, its value, workload, arguments to vary, the metrics that it holds.
ROWS: tuple[tuple[str, float, str, tuple[Mapping[str, Any], ...], tuple[str, ...]], ...] = (
    (
        "ROTARY max",
        2.0,
        "rope_apply",
        tuple({"dtype": d, "layout": y} for d in DTYPES for y in ("half", "interleave")),
        ("max_ulp", "grad_max_ulp"),
    ),
    ("ROTARY rms", 0.6, "rope_apply", tuple({"dtype": d} for d in LOW), ("rms_ulp", "grad_rms_ulp")),
    ("rope_apply norm", 1.0, "rope_apply", tuple({"dtype": d} for d in DTYPES), ("norm",)),
    (
        "rope bound",
        1.0,
        "rope_recipe",
        tuple({"dtype": d, "base": b} for d in DTYPES for b in (1e4, 5e5, 1e6)),
        tuple(f"ratio_{n}" for n in (256, 2048, 4096, 32768, 131072, 1048576)),
    ),
    (
        "rope_scores bound",
        1.0,
        "rope_scores",
        tuple({"dtype": d} for d in DTYPES),
        tuple(f"ratio_{n}" for n in (1, 1024, 4096, 16384)),
    ),
    ("trigonometry", 4.0, "trigonometry", tuple({"dtype": d} for d in DTYPES), ("sin_ulp", "cos_ulp")),
    (
        "ATTENTION max",
        2.0,
        "attention_accuracy",
        tuple({"dtype": d, "mask": m} for d in DTYPES for m in ("none", "float")),
        ("max_ulp",),
    ),
    ("ATTENTION rms", 0.6, "attention_accuracy", tuple({"dtype": d} for d in LOW), ("rms_ulp",)),
    ("ATTENTION_GRADIENT max", 2.0, "attention_accuracy", tuple({"dtype": d} for d in DTYPES), ("grad_max_ulp",)),
    (
        "ROW, SUM, ELEMENTWISE max",
        2.0,
        "function_accuracy",
        tuple({"dtype": d, "function": f} for d in LOW for f in FUNCTIONS),
        ("max_ulp", "grad_max_ulp"),
    ),
    (
        "ROW, SUM, ELEMENTWISE rms",
        0.6,
        "function_accuracy",
        tuple({"dtype": d, "function": f} for d in LOW for f in FUNCTIONS),
        ("rms_ulp", "grad_rms_ulp"),
    ),
    (
        "SUM_OF_PRODUCTS max",
        2.0,
        "conv_accuracy",
        tuple({"dtype": d, "size": [17, 15], "kernel": [3, 3]} for d in DTYPES),
        ("max_ulp", "grad_max_ulp"),
    ),
    (
        "OPTIMIZER max",
        8.0,
        "optimizer_accuracy",
        tuple({"optimizer": o, "form": f} for o in ("SGD", "Adam", "AdamW") for f in ("plain", "foreach", "fused")),
        ("max_ulp",),
    ),
    (
        "OPTIMIZER rms",
        2.0,
        "optimizer_accuracy",
        tuple({"optimizer": o} for o in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")),
        ("rms_ulp",),
    ),
    (
        "decode drift",
        16.0,
        "decode_drift",
        tuple({"dtype": d, "tokens": 512, "fused": f} for d in LOW for f in (True, False)),
        ("drift_128", "drift_512"),
    ),
    ("decode growth", 2.0, "decode_drift", tuple({"dtype": d, "tokens": 512} for d in LOW), ("growth",)),
    (
        "training loss_gap floor",
        5e-4,
        "training_parity",
        tuple({"dtype": d, "width": 16, "layers": 1, "batch": 4, "length": 16} for d in LOW),
        ("loss_gap", "final_gap"),
    ),
    (
        "training gradient_gap floor",
        2e-3,
        "training_parity",
        tuple({"dtype": d, "width": 16, "layers": 1, "batch": 4, "length": 16} for d in LOW),
        ("gradient_gap",),
    ),
    (
        "random sigma",
        6.0,
        "random_numbers",
        tuple({"distribution": d} for d in ("uniform", "normal", "bernoulli", "exponential", "dropout")),
        ("worst_sigma",),
    ),
)


def main() -> int:
    """Print the table. 1 where a right kernel breaks a limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--accel", default="cpu", help="the platform to measure on (default: cpu)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds for each (default: 3)")
    arguments = parser.parse_args()
    accel = Accelerator(platform(arguments.accel), 0, Stack(arguments.accel))
    broken = False
    print("| limit | value | measured at most | margin | where |\n|---|---|---|---|---|")
    for name, limit, workload, variants, metrics in ROWS:
        worst, where = 0.0, ""
        for params in variants:
            for seed in range(arguments.seeds):
                if workload in ("trigonometry", "rope_recipe") and seed:
                    continue  # no random input
                extra = {} if workload in ("trigonometry", "rope_recipe") else {"seed": seed}
                found = registry.resolve(workload)(accel, **params, **extra)
                for metric in metrics:
                    value = found.get(metric, 0.0)
                    if isinstance(value, (int, float)) and not value <= worst:
                        worst, where = float(value), f"{metric} {params}"
        broken |= not worst <= limit
        note = " wide" if worst and limit / worst > WIDE else " BROKEN" if worst > limit else ""
        print(f"| {name} | {limit:g} | {worst:.3g} | {limit / worst if worst else 0:.2g}{note} | {where} |", flush=True)
    return int(broken)


if __name__ == "__main__":
    raise SystemExit(main())
