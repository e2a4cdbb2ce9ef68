"""Mixed precision: the autocast snapshot and training parity: metrics, tolerances and their sources. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.catalog.shared import INFO, NONE
from pytest_accel.workloads.types import MetricSpec, Workload

#: torch's autocast lists (aten/src/ATen/autocast_mode.h, 2.13), without operators that only one vendor's build has.
LOWER = tuple(
    """conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu addmm addmv addr matmul
    einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell scaled_dot_product_attention""".split()  # noqa: SIM905
)
FLOAT32 = tuple(
    """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
    native_layer_norm group_norm rms_norm norm_fro norm_nuc cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
    nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist
    cdist renorm logsumexp upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_bicubic2d upsample_trilinear3d upsample_bilinear2d_aa upsample_bicubic2d_aa prod softmax log_softmax cumprod
    cumsum linalg_vector_norm linalg_matrix_norm sum""".split()  # noqa: SIM905
)
PROMOTE = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sample",
    "index_put",
    "tensordot",
    "scatter_add",
    "cat",
    "stack",
)
NEUTRAL = ("add", "mul", "relu", "gelu", "silu", "mean", "max", "bmm_of_exp", "cross_entropy")
OPERATORS = LOWER + FLOAT32 + PROMOTE + NEUTRAL

_KEPT = "its output dtype under autocast is part of a model's arithmetic: a change moves every run that uses it"


def _gap(unit: str, floor: float, source: str, maximum: float | None = None) -> MetricSpec:
    return MetricSpec(unit, "lower", worse_by="100%", floor=floor, max=maximum, source=source)


_SMALL = (
    "300 steps, four seeds, CPU: at most 1.3e-4 nats and 6.4e-4 of gradient norms; the floors are about four times that"
)
PARITY = {
    "nonfinite": NONE,
    "skipped": MetricSpec("count", "lower", worse_by=1.0, source="one skipped step more is chance, more is a trend"),
    "skipped_share": MetricSpec("", "lower", max=0.5, source="a job that skips most of its steps does not train"),
    "final_scale": MetricSpec(
        "", "higher", worse_by="50%", source="one halving is one overflow, chance; two are a trend (1 for bfloat16)"
    ),
    "lowest_scale": MetricSpec(
        "", "higher", worse_by="50%", min=1.0, source="a scale below 1 shrinks gradients: it fell without end"
    ),
    "first_loss_gap": _gap("", 3e-4, "before the first step only the forward pass differs"),
    "final_loss": MetricSpec("nats", "lower", worse_by="5%", floor=0.02, source=_SMALL),
    "final_loss_float32": INFO,
    "loss_gap": _gap("nats", 5e-4, _SMALL),
    "final_gap": _gap("nats", 5e-4, _SMALL),
    "gradient_gap": _gap("", 2e-3, _SMALL),
    "learnt": MetricSpec("", "equal", equals="yes", source="the last losses must be below half the first ones"),
    "steps_to_target": MetricSpec("steps", "lower", worse_by="10%", floor=10.0, source=_SMALL),
    "seconds_to_target": INFO,
    "seconds_to_target_float32": INFO,
    "scales": INFO,
}
WINDOWS = ("0_1000", "1000_5000", "later")

ALL = (
    Workload(
        "autocast_policy",
        "pytest_accel.workloads.amp_policy:autocast_policy",
        {name: MetricSpec("", "equal", source=_KEPT) for name in OPERATORS}
        | {
            "nested": MetricSpec(
                "", "equal", equals="respected", source="autocast(enabled=False) inside must switch it off"
            )
        },
    ),
    Workload(
        "training_parity",
        "pytest_accel.workloads.training_parity:training_parity",
        PARITY
        | {f"gap_{window}": _gap("nats", 1e-3, _SMALL) for window in WINDOWS}
        | {"gap_growth": MetricSpec("nats", "lower", worse_by=2e-3, source=_SMALL)},
    ),
)
