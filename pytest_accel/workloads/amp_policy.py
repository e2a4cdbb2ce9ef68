"""What autocast makes of each listed operator on this device: a snapshot of output dtypes. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.precision_amp import FLOAT32, LOWER, NEUTRAL, OPERATORS
from pytest_accel.workloads.inputs import torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Make = Callable[..., torch.Tensor]


def autocast_policy(accel: Accelerator, dtype: str = "float16") -> dict[str, str]:
    """The output dtype of every listed operator under ``torch.autocast(device, dtype)``, one metric an operator.

    Operators of the lower-precision list get float32 inputs, those of the float32 list and the neutral ones get inputs of
    ``dtype``, those that promote get one of each. Words besides dtypes: ``absent`` (this torch has no such operator),
    ``unsupported`` (the device has none). ``nested`` says whether ``autocast(enabled=False)`` inside is respected.
    """
    import torch

    if dtype not in ("float16", "bfloat16"):
        raise BadArguments(f"dtype: must be float16 or bfloat16, not {dtype}")
    low, device = torch_dtype(dtype), accel.device
    calls = _calls()
    assert set(calls) == set(OPERATORS)
    words: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name in OPERATORS:
        kind = torch.float32 if name in LOWER else low
        other = kind if name in LOWER + FLOAT32 + NEUTRAL else torch.float32
        words[name], reason = _word(accel, calls[name], _maker(kind, device), _maker(other, device), low)
        if reason:
            reasons[name] = reason
    accel.note("reasons", reasons)
    x = _maker(torch.float32, device)(4, 4)
    with torch.autocast(device.type, dtype=low), torch.autocast(device.type, enabled=False):
        words["nested"] = "respected" if (x @ x).dtype == torch.float32 else "ignored"
    return words


def _word(accel: Accelerator, call: Callable[[Make, Make], Any], a: Make, b: Make, low: torch.dtype) -> tuple[str, str]:
    import torch

    try:
        with torch.autocast(accel.device.type, dtype=low):
            out = call(a, b)
    except AttributeError as error:
        return "absent", str(error)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        # Whatever the cause, the operator cannot be used so: its text is kept, and a change of the word is seen.
        accel.synchronize()
        return "unsupported", str(error).splitlines()[0][:160]
    first = out[0] if isinstance(out, (tuple, list)) else out
    return str(first.dtype).removeprefix("torch."), ""


def _maker(kind: torch.dtype, device: torch.device) -> Make:
    """Tensors of a shape with values in (0, 1), which every function here takes."""
    import torch

    def make(*shape: int) -> torch.Tensor:
        count = 1
        for size in shape:
            count *= size
        values = (torch.arange(count, dtype=torch.float64) % 7 + 1) / 9
        return values.reshape(shape).to(kind).to(device)

    return make


def _calls() -> dict[str, Callable[[Make, Make], Any]]:
    """Every operator on small inputs: ``a`` makes tensors of the first dtype, ``b`` of the second."""
    import torch
    from torch.nn import functional as f

    def index(a: Make, *values: int) -> torch.Tensor:
        return torch.tensor(values, device=a(1).device)

    def cell(name: str, gates: int, states: int) -> Callable[[Make, Make], Any]:
        def call(a: Make, b: Make) -> Any:
            state: Any = (a(2, 4), a(2, 4)) if states == 2 else a(2, 4)
            return getattr(torch, name)(a(2, 3), state, a(4 * gates, 3), a(4 * gates, 4), a(4 * gates), a(4 * gates))

        return call

    def upsample(mode: str, dims: int, smooth: bool = False) -> Callable[[Make, Make], Any]:
        switches = {"antialias": True} if smooth else {}
        return lambda a, b: f.interpolate(a(1, 2, *[4] * dims), scale_factor=2, mode=mode, **switches)

    def one(name: str) -> Callable[[Make, Make], Any]:
        return lambda a, b: getattr(torch, name)(a(4))

    calls: dict[str, Callable[[Make, Make], Any]] = {
        "conv1d": lambda a, b: f.conv1d(a(1, 2, 8), a(2, 2, 3)),
        "conv2d": lambda a, b: f.conv2d(a(1, 2, 8, 8), a(2, 2, 3, 3)),
        "conv3d": lambda a, b: f.conv3d(a(1, 2, 4, 4, 4), a(2, 2, 1, 3, 3)),
        "conv_tbc": lambda a, b: f.conv_tbc(a(8, 1, 2), a(3, 2, 2), a(2)),
        "conv_transpose1d": lambda a, b: f.conv_transpose1d(a(1, 2, 8), a(2, 2, 3)),
        "conv_transpose2d": lambda a, b: f.conv_transpose2d(a(1, 2, 8, 8), a(2, 2, 3, 3)),
        "conv_transpose3d": lambda a, b: f.conv_transpose3d(a(1, 2, 4, 4, 4), a(2, 2, 1, 3, 3)),
        "prelu": lambda a, b: f.prelu(a(2, 3), a(1)),
        "addmm": lambda a, b: torch.addmm(a(4, 4), a(4, 4), a(4, 4)),
        "addmv": lambda a, b: torch.addmv(a(4), a(4, 4), a(4)),
        "addr": lambda a, b: torch.addr(a(4, 4), a(4), a(4)),
        "matmul": lambda a, b: torch.matmul(a(4, 4), a(4, 4)),
        "einsum": lambda a, b: torch.einsum("ij,jk->ik", a(4, 4), a(4, 4)),
        "mm": lambda a, b: torch.mm(a(4, 4), a(4, 4)),
        "mv": lambda a, b: torch.mv(a(4, 4), a(4)),
        "linalg_vecdot": lambda a, b: torch.linalg.vecdot(a(4), a(4)),
        "linear": lambda a, b: f.linear(a(4, 4), a(4, 4)),
        "addbmm": lambda a, b: torch.addbmm(a(4, 4), a(2, 4, 4), a(2, 4, 4)),
        "baddbmm": lambda a, b: torch.baddbmm(a(2, 4, 4), a(2, 4, 4), a(2, 4, 4)),
        "bmm": lambda a, b: torch.bmm(a(2, 4, 4), a(2, 4, 4)),
        "chain_matmul": lambda a, b: torch.linalg.multi_dot([a(4, 4), a(4, 4)]),
        "linalg_multi_dot": lambda a, b: torch.linalg.multi_dot([a(4, 4), a(4, 4), a(4, 4)]),
        "lstm_cell": cell("lstm_cell", 4, 2),
        "gru_cell": cell("gru_cell", 3, 1),
        "rnn_tanh_cell": cell("rnn_tanh_cell", 1, 1),
        "rnn_relu_cell": cell("rnn_relu_cell", 1, 1),
        "scaled_dot_product_attention": lambda a, b: f.scaled_dot_product_attention(
            a(1, 2, 8, 16), a(1, 2, 8, 16), a(1, 2, 8, 16)
        ),
        "pow": lambda a, b: a(4).pow(2.5),
        "softplus": lambda a, b: f.softplus(a(4)),
        "layer_norm": lambda a, b: f.layer_norm(a(2, 4), (4,)),
        "native_layer_norm": lambda a, b: torch.native_layer_norm(a(2, 4), (4,), None, None, 1e-5),
        "group_norm": lambda a, b: f.group_norm(a(2, 4, 4), 2),
        "rms_norm": lambda a, b: f.rms_norm(a(2, 4), (4,)),
        "norm_fro": lambda a, b: torch.norm(a(4, 4), p="fro"),
        "norm_nuc": lambda a, b: torch.norm(a(4, 4), p="nuc"),
        "cosine_similarity": lambda a, b: f.cosine_similarity(a(2, 4), a(2, 4)),
        "poisson_nll_loss": lambda a, b: f.poisson_nll_loss(a(4), a(4)),
        "cosine_embedding_loss": lambda a, b: f.cosine_embedding_loss(a(2, 4), a(2, 4), a(2)),
        "nll_loss": lambda a, b: f.nll_loss(a(2, 4), index(a, 1, 2)),
        "nll_loss2d": lambda a, b: f.nll_loss(a(1, 3, 2, 2), index(a, 0, 1, 2, 0).reshape(1, 2, 2)),
        "hinge_embedding_loss": lambda a, b: f.hinge_embedding_loss(a(4), a(4)),
        "kl_div": lambda a, b: f.kl_div(a(2, 4), a(2, 4), reduction="batchmean"),
        "l1_loss": lambda a, b: f.l1_loss(a(4), a(4)),
        "smooth_l1_loss": lambda a, b: f.smooth_l1_loss(a(4), a(4)),
        "huber_loss": lambda a, b: f.huber_loss(a(4), a(4)),
        "mse_loss": lambda a, b: f.mse_loss(a(4), a(4)),
        "margin_ranking_loss": lambda a, b: f.margin_ranking_loss(a(4), a(4), a(4)),
        "multilabel_margin_loss": lambda a, b: f.multilabel_margin_loss(
            a(2, 4), index(a, 1, -1, 0, 0, 2, -1, 0, 0).reshape(2, 4)
        ),
        "soft_margin_loss": lambda a, b: f.soft_margin_loss(a(4), a(4)),
        "triplet_margin_loss": lambda a, b: f.triplet_margin_loss(a(2, 4), a(2, 4), a(2, 4)),
        "multi_margin_loss": lambda a, b: f.multi_margin_loss(a(2, 4), index(a, 1, 2)),
        "binary_cross_entropy_with_logits": lambda a, b: f.binary_cross_entropy_with_logits(a(4), a(4)),
        "dist": lambda a, b: torch.dist(a(4), a(4)),
        "pdist": lambda a, b: f.pdist(a(4, 4)),
        "cdist": lambda a, b: torch.cdist(a(4, 4), a(4, 4)),
        "renorm": lambda a, b: torch.renorm(a(4, 4), 2, 0, 1.0),
        "logsumexp": lambda a, b: a(4).logsumexp(0),
        "upsample_nearest1d": upsample("nearest", 1),
        "upsample_nearest2d": upsample("nearest", 2),
        "upsample_nearest3d": upsample("nearest", 3),
        "upsample_linear1d": upsample("linear", 1),
        "upsample_bilinear2d": upsample("bilinear", 2),
        "upsample_bicubic2d": upsample("bicubic", 2),
        "upsample_trilinear3d": upsample("trilinear", 3),
        "upsample_bilinear2d_aa": upsample("bilinear", 2, True),
        "upsample_bicubic2d_aa": upsample("bicubic", 2, True),
        "prod": lambda a, b: a(4).prod(),
        "softmax": lambda a, b: a(2, 4).softmax(-1),
        "log_softmax": lambda a, b: a(2, 4).log_softmax(-1),
        "cumprod": lambda a, b: a(4).cumprod(0),
        "cumsum": lambda a, b: a(4).cumsum(0),
        "linalg_vector_norm": lambda a, b: torch.linalg.vector_norm(a(4)),
        "linalg_matrix_norm": lambda a, b: torch.linalg.matrix_norm(a(4, 4)),
        "sum": lambda a, b: a(4).sum(),
        "addcdiv": lambda a, b: torch.addcdiv(a(4), b(4), a(4)),
        "addcmul": lambda a, b: torch.addcmul(a(4), b(4), a(4)),
        "atan2": lambda a, b: torch.atan2(a(4), b(4)),
        "bilinear": lambda a, b: f.bilinear(a(2, 3), b(2, 4), a(5, 3, 4)),
        "cross": lambda a, b: torch.linalg.cross(a(2, 3), b(2, 3)),
        "dot": lambda a, b: torch.dot(a(4), b(4)),
        "vdot": lambda a, b: torch.vdot(a(4), b(4)),
        "grid_sample": lambda a, b: f.grid_sample(a(1, 2, 4, 4), b(1, 2, 2, 2), align_corners=False),
        "index_put": lambda a, b: a(4).index_put((index(a, 1, 2),), b(2)),
        "tensordot": lambda a, b: torch.tensordot(a(4, 4), b(4, 4), 1),
        "scatter_add": lambda a, b: a(4).scatter_add(0, index(a, 1, 2), b(2)),
        "cat": lambda a, b: torch.cat((a(4), b(4))),
        "stack": lambda a, b: torch.stack((a(4), b(4))),
        "add": lambda a, b: a(4) + a(4),
        "mul": lambda a, b: a(4) * a(4),
        "relu": lambda a, b: f.relu(a(4)),
        "gelu": lambda a, b: f.gelu(a(4)),
        "silu": lambda a, b: f.silu(a(4)),
        "mean": lambda a, b: a(4).mean(),
        "max": lambda a, b: a(4).amax(),
        "bmm_of_exp": lambda a, b: torch.bmm(a(2, 4, 4).exp(), a(2, 4, 4)),
        "cross_entropy": lambda a, b: f.cross_entropy(a(2, 4), index(a, 1, 2)),
    }
    calls |= {name: one(name) for name in FLOAT32 if name not in calls}
    return calls
