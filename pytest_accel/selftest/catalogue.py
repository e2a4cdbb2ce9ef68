"""The faults that the gate must catch, and the variations that it must let pass. No torch here."""

from __future__ import annotations

from typing import Any

from pytest_accel.selftest.types import Check

_GEMM: dict[str, Any] = {"m": 256, "n": 256, "k": 2048, "rows": 256}
_TABLE: dict[str, Any] = {"max_position": 131072}
_OWN = "pytest_accel.selftest.rope_faults:"
_CONV: dict[str, Any] = {"size": [5, 24, 18], "kernel": [1, 3, 3]}
_ATTENTION: dict[str, Any] = {"lengths": [128, 192], "mask": "bool"}
_TRAINING: dict[str, Any] = {"width": 16, "layers": 1, "batch": 4, "length": 16}


def _products(dtype: str) -> tuple[Check, ...]:
    params = {**_GEMM, "dtype": dtype}
    made = (
        ("one_nan", "one NaN in a product"),
        ("one_inf", "one infinity in a product"),
        ("one_larger", "one element 25 % too large"),
        ("sparse_zeros", "0.07 % of the elements are zero"),
        ("dropped_k", "the last 16 terms of each sum are dropped"),
        ("truncated", "every element one ulp too small"),
        ("low_sum", "sums kept in 16 bits, added every 16 terms"),
    )
    right = (
        ("other_order", "the terms summed in another order"),
        ("other_tile", "other tiles, sums split in three"),
    )
    return (
        *(Check(f"{name}/{dtype}", says, "gemm_accuracy", params, name) for name, says in made),
        *(Check(f"{name}/{dtype}", says, "gemm_accuracy", params, name, kind="benign") for name, says in right),
    )


def _tables(dtype: str) -> tuple[Check, ...]:
    params = {**_TABLE, "dtype": dtype}
    made = (
        ("positions_cast", "rotary positions cast to the dtype too early"),
        ("inv_freq_cast", "rotary frequencies cast to the dtype too early"),
        ("off_by_one", "rotary positions one too large"),
        ("tf32", "rotary table by an outer product in TF32"),
    )
    return (
        *(
            Check(f"{name}/{dtype}", says, "rope_recipe", params, altered={"implementation": _OWN + name})
            for name, says in made
        ),
        Check(
            f"exact_table/{dtype}",
            "a rotary table made in float64 and rounded once",
            "rope_recipe",
            params,
            altered={"implementation": _OWN + "by_angle_addition"},
            kind="benign",
        ),
    )


CHECKS: tuple[Check, ...] = (
    *_products("float16"),
    *_products("bfloat16"),
    *_tables("float16"),
    *_tables("bfloat16"),
    Check(
        "short_positions",
        "the same early cast, where positions end at 256: bfloat16 holds them all",
        "rope_recipe",
        {"dtype": "bfloat16", "max_position": 256},
        altered={"implementation": _OWN + "positions_cast"},
        blind=True,
    ),
    Check(
        "first_batch_only",
        "all rows of a batch turned by the first row's positions",
        "rope_apply",
        {"positions": "per_batch"},
        altered={"implementation": _OWN + "first_batch_only"},
    ),
    Check(
        "wrong_layout",
        "halves turned as pairs",
        "rope_apply",
        {},
        altered={"implementation": _OWN + "wrong_layout"},
    ),
    Check(
        "float32_rotation",
        "a rotation computed in float32 and rounded once",
        "rope_apply",
        {},
        altered={"implementation": _OWN + "products_in_float32"},
        kind="benign",
    ),
    Check(
        "drift",
        "a decoder whose rotary frequencies were cast too early",
        "decode_drift",
        {"tokens": 768, "dtype": "float16"},
        altered={"table": _OWN + "inv_freq_cast"},
    ),
    Check(
        "decoder_exact_table",
        "the same decoder with a table made in float64",
        "decode_drift",
        {"tokens": 768, "dtype": "float16"},
        altered={"table": _OWN + "by_angle_addition"},
        kind="benign",
    ),
    Check(
        "flushed_subnormals",
        "subnormal results become zero",
        "amp_overflow",
        {"dtype": "float16"},
        "flushed",
        needs={"subnormals": "kept"},
    ),
    Check(
        "saturated_overflow",
        "overflow gives the largest number, not infinity",
        "amp_overflow",
        {"dtype": "float16"},
        "saturated",
        needs={"overflow_mode": "ieee"},
    ),
    Check("overflow_unseen", "the gradient scaler does not see an overflow", "grad_scaler", {}, "overflow_unseen"),
    Check("scale_never_recovers", "the loss scale is halved and never grows again", "grad_scaler", {}, "never_grows"),
    Check(
        "scale_without_end",
        "every step overflows: 40 of 40 skipped",
        "grad_scaler",
        {"steps": 40, "inject_inf": [5], "inject_nan": [], "growth_interval": 2000},
        altered={"inject_inf": list(range(40))},
    ),
    Check(
        "rare_overflow",
        "one step of 40 overflows, at another step",
        "grad_scaler",
        {"steps": 40, "inject_inf": [5], "inject_nan": [], "growth_interval": 2000},
        altered={"inject_inf": [17]},
        kind="benign",
    ),
    Check(
        "halved_gradient",
        "a convolution's output is right, its gradients are halved",
        "conv_accuracy",
        _CONV,
        "halved_convolution_gradient",
    ),
    Check(
        "halved_attention_gradient",
        "attention's output is right, its gradients are halved",
        "attention_accuracy",
        _ATTENTION,
        "halved_attention_gradient",
    ),
    Check(
        "nan_query_gradient",
        "one NaN in the gradient of attention's queries",
        "attention_accuracy",
        _ATTENTION,
        "nan_query_gradient",
    ),
    Check(
        "training_other_order",
        "training with every product summed in another order",
        "training_parity",
        {"steps": 300, **_TRAINING},
        "other_order",
        kind="benign",
    ),
    Check(
        "training_300_steps",
        "factors cut to three bits from step 5,000 on, where training ends after 300 steps",
        "training_parity",
        {"steps": 300, **_TRAINING},
        "late_coarse_products",
        blind=True,
    ),
    Check(
        "late_training_fault",
        "the same fault where training goes on for 6,000 steps",
        "training_parity",
        {"steps": 6000, **_TRAINING},
        "late_coarse_products",
        slow=True,
    ),
)
