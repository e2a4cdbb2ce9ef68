"""The family of an operator, for reports. No torch here."""

from __future__ import annotations

import functools
import re

_F = r"nn\.functional\."
#: The first that is found at the beginning of a name decides.
FAMILIES: tuple[tuple[str, str], ...] = (
    ("attention", rf"{_F}(scaled_dot_product|multi_head)|.*_attention_forward"),
    ("convolution", rf"{_F}(conv|unfold|fold)|.*convolution"),
    ("normalisation", rf"{_F}(\w*_norm|normalize)|.*(batch_norm|layer_norm)|renorm|norm$"),
    ("pooling", rf"{_F}\w*pool|.*max_pool|.*avg_pool"),
    ("resampling", rf"{_F}(interpolate|upsample|grid_sample|pad|pixel_)|_upsample|grid_sampler"),
    ("loss", rf"{_F}(\w*_loss|\w*cross_entropy|binary_cross|kl_div|pairwise|cosine_sim)|linear_cross"),
    ("embedding", rf"{_F}(embedding|one_hot|linear$|bilinear)"),
    (
        "dropout and random",
        rf"{_F}(\w*dropout|rrelu)|native_dropout|bernoulli|multinomial|normal|rand|uniform|cauchy|exponential"
        r"|geometric|log_normal",
    ),
    ("softmax", rf"softmax|log_softmax|{_F}softm|_?masked\.(log_)?soft|logsumexp|logcumsumexp|{_F}gumbel"),
    ("activation", rf"{_F}|sigmoid|tanh|relu"),
    ("fft", r"fft\.|stft|istft"),
    (
        "linear algebra",
        r"linalg\.|svd|qr$|lu|cholesky|geqrf|ormqr|pinverse|triangular_solve|logdet|trace|cross$|matrix_exp|cov$"
        r"|corrcoef|pca|householder",
    ),
    (
        "gemm",
        r"mm$|bmm|addmm|baddbmm|addbmm|matmul|__rmatmul__|mv$|addmv|addr$|dot$|vdot|outer|inner|einsum|tensordot|kron|ger$"
        r"|chain_matmul|torch\._scaled_mm|_int_mm",
    ),
    ("special functions", r"special\.|polygamma|lgamma|digamma|mvlgamma|erf|i0|igamma|sinc|bessel"),
    ("sparse", r"sparse\.|to_sparse|sparse_"),
    ("masked", r"masked\."),
    ("foreach and optimiser", r"_foreach|_fused|_amp"),
    (
        "indexing",
        r"gather|scatter|index_|_unsafe_masked|masked_|where|take|put|nonzero|argwhere|searchsorted|bucketize|isin"
        r"|unique|__getitem__|select|slice|narrow|diag|tril|triu|item|embedding|as_strided|_segment",
    ),
    (
        "sorting",
        r"sort|argsort|msort|topk|kthvalue|median|nanmedian|mode|quantile|nanquantile|histc|histogram"
        r"|bincount|cummax|cummin",
    ),
    (
        "reduction",
        r"sum|nansum|mean|nanmean|prod|amax|amin|aminmax|max|min|argmax|argmin|var|std|all$|any$|cumsum|cumprod"
        r"|count_nonzero|trapz|trapezoid|cumulative",
    ),
    (
        "layout and copies",
        r"cat|stack|hstack|vstack|dstack|column_stack|split|chunk|unbind|tensor_split|[hvd]split|permute"
        r"|transpose|swap|movedim|moveaxis|reshape|view|flatten|unflatten|ravel|squeeze|unsqueeze|expand|broadcast|repeat|tile|roll|rot90|flip"
        r"|clone|contiguous|to$|T$|H$|mT|mH|t$|t_copy|unfold|resize|alias|detach|meshgrid|atleast|block_diag|cartesian|combinations"
        r"|float$|half$|double$|int$|long$|short$|char$|byte$|bool$|bfloat16$|chalf|cfloat|cdouble|type_as|constant_pad",
    ),
    (
        "creation",
        r"zeros|ones|empty|full|new_|arange|linspace|logspace|eye|fill|scalar_tensor|signal\.|complex|polar|zero_|vander"
        r"|tri\w*_indices",
    ),
)
OTHER = "element by element"


@functools.lru_cache(maxsize=4096)
def family_of(op: str) -> str:
    """The family by the operator's name; arithmetic and what else works on single elements has no pattern of its own."""
    return next((name for name, pattern in FAMILIES if re.match(pattern, op)), OTHER)
