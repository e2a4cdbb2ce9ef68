"""Tolerances as data with a source: one record a class of operators, and the class of each operator. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Condition = Literal["none", "abs", "peak", "row", "input", "norm", "largest", "exponent"]


@dataclass(frozen=True)
class Tolerance:
    """How far a correct result may be from the golden one, in scaled ULPs of the output's dtype.

    ``max_ulp`` bounds the worst element and ``rms_ulp`` the root mean square; either is raised to a multiple of what
    the reference implementation itself reaches (``MAX_RATIO``, ``RMS_RATIO``). ``condition`` says what magnitude
    ``S`` is added to the unit, because a sum that cancels cannot be right to one ULP of its small result:

    - ``none``: S = 0;
    - ``abs``: the operator applied to absolute inputs (|A| @ |B|);
    - ``peak``: the largest |golden| of the whole output;
    - ``row``: the largest |golden| along the last dimension;
    - ``input``: |x| of the first input, element by element;
    - ``largest``: the largest |x| of all inputs: what differences and running sums of the inputs are made of;
    - ``exponent``: |golden| times the largest |x| (and |beta|): the argument of an exponential is a rounded difference or
      product, and its roundoff is multiplied by itself;
    - ``norm``: |x| * rstd * |weight| + |bias|, the terms that a normalisation subtracts.

    ``kappa`` scales S, in units of the dtype's roundoff: how many intermediate results may be rounded to the dtype.
    ``bias`` bounds the mean signed error where elements share one rounding (a softmax's log sum), else ``BIAS`` does.
    """

    max_ulp: float
    rms_ulp: float
    condition: Condition
    kappa: float
    source: str
    rms_ulp_float32: float | None = None
    max_ulp_float32: float | None = None
    bias: float | None = None


MAX_RATIO = 2.0  # flash-attention's rule: at most twice the error of the reference in the same dtype
RMS_RATIO = 1.5  # same, for the root mean square; torch's dynamo uses 2 to 3, which missed planted faults
BIAS = 0.05  # mean signed error of a correct rounding is 0; 0.05 ulp is far below a truncation's 0.5
BIAS_SAMPLES = (
    6.0  # 6/sqrt(n): 20 standard errors of a uniform rounding error (0.29 ulp), so that chance never trips it
)
KAPPA = 2.0**-10  # of the dtype's roundoff: what an accumulation in float32 leaves in a 16-bit result
ACCUMULATE_FLOAT32 = 2.0**-22  # a float32 sum of K terms is off by about sqrt(K) * 2^-24 * S: 4 roundoffs for K <= 64
FLOAT64_SLACK = 16.0  # a float64 result is compared with a float64 golden, which is no more exact than it

_MEASURED = "measured on correct kernels: max 0.50 ulp, rms 0.25-0.29 ulp (K 256 to 16384, float32 accumulation)"
_STEPS = "; each intermediate result rounded to the dtype adds at most one roundoff of S"


def _steps(count: float, condition: Condition, what: str) -> Tolerance:
    return Tolerance(2.0, 0.6, condition, count, what + _STEPS)


SPLIT_PRODUCT = _steps(2, "abs", "16-bit partial sums of a product, S = sqrt(a^2 @ b^2), the size of a partial sum")

_CLASSES: tuple[tuple[str, Tolerance], ...] = (
    (
        """mul neg abs clone contiguous to float half bfloat16 cat chunk split stack hstack vstack repeat_interleave
        tile gather scatter index_select index_copy index_fill masked_fill masked_select where tril triu permute
        transpose reshape view expand squeeze unsqueeze flatten roll flip rot90 movedim T select slice narrow unbind
        take_along_dim amax amin max min maximum minimum clamp sort topk copysign sign floor round nan_to_num
        nn.functional.relu nn.functional.pad nn.functional.unfold sqrt div reciprocal arange full_like zeros_like
        ones_like new_zeros square fmod""",
        Tolerance(1.0, 0.6, "none", 0.0, "one correct rounding is at most 0.5 ulp: IEEE 754 arithmetic and copies"),
    ),
    (
        """exp exp2 expm1 log log1p log2 sin cos tan tanh sigmoid erf erfc rsqrt pow atan2 sinc
        nn.functional.silu nn.functional.logsigmoid nn.functional.glu nn.functional.hardswish
        nn.functional.mish nn.functional.elu""",
        Tolerance(
            4.0,
            0.6,
            "none",
            0.0,
            "vendors' math libraries state 1 to 4 ulp in float32; in 16 bits one rounding of that",
            rms_ulp_float32=1.5,
        ),
    ),
    (
        "softmax nn.functional.softplus",
        Tolerance(
            2.0,
            0.6,
            "exponent",
            KAPPA,
            "exp(x - max), log1p(exp(beta x)): the argument's roundoff, at most u * 2 max|x| in float32, is a relative error of "
            "the result; read 1.0 max on hosts (torch 2.13, |x| <= 25)",
            rms_ulp_float32=1.0,
        ),
    ),
    (
        "nn.functional.gelu",
        Tolerance(4.0, 0.6, "input", KAPPA, "x/2 * (1 + erf) cancels for negative x: off by roundoffs of x", 1.5),
    ),
    (
        """mm bmm mv dot vdot addmm baddbmm matmul inner outer einsum tensordot nn.functional.linear sum mean addcmul lerp
        trace nansum""",
        Tolerance(2.0, 0.6, "abs", KAPPA, _MEASURED + "; S = the operator of absolute inputs"),
    ),
    (
        "nn.functional.rms_norm nn.functional.layer_norm native_layer_norm",
        Tolerance(
            2.0, 0.6, "norm", KAPPA, _MEASURED + "; two roundings (HF-Llama RMSNorm) read 1.4 max, 0.42 rms", 1.5
        ),
    ),
    (
        "var std var_mean std_mean logsumexp norm linalg.vector_norm dist addcdiv remainder",
        Tolerance(2.0, 0.6, "peak", KAPPA, _MEASURED, 1.5),
    ),
    (
        "prod nn.functional.mse_loss nn.functional.embedding",
        Tolerance(
            4.0, 1.0, "peak", KAPPA, "a few relative roundings in the dtype, half an ulp each (embedding: its max_norm)"
        ),
    ),
    (
        "nn.functional.scaled_dot_product_attention",
        Tolerance(
            2.0,
            0.6,
            "row",
            1.0,
            "|error| <= C u max|o| of the row whatever the length, C in [0.13, 2] (vLLM's derivation); correct fused "
            "kernels read 1.4 max, 0.24 rms, a naive low-precision one 5.2. In float32 the logits' roundoff rules: the "
            "database's logits reach 60, an H200 reads 14 max, 1.4 rms where the host reads 4",
            rms_ulp_float32=4.0,
            max_ulp_float32=32.0,
        ),
    ),
    ("add sub rsub", _steps(1, "abs", "alpha * other may be rounded before the sum")),
    ("log_softmax", _steps(1, "peak", "max + log(sum) may be rounded before it is subtracted")),
    (
        "nn.functional.interpolate",
        replace(
            _steps(
                6, "largest", "two roundings a dimension, of the weights and of the sum (trilinear: three dimensions)"
            ),
            max_ulp_float32=4.0,  # the pixel's place is rounded too: bicubic reads 19 roundoffs of the largest input on hosts
        ),
    ),
    (
        "nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d",
        _steps(1, "abs", "the bias may be added to a rounded result (seen on an H200: 10 ulp where they cancel)"),
    ),
    ("nn.functional.group_norm", _steps(3, "norm", "mean, scale and shift are kept in the dtype (seen on an H200)")),
    (
        "nn.functional.nll_loss nn.functional.cross_entropy",
        _steps(4, "peak", "the mean's sums may be kept in the dtype (seen on an H200: 4.7 ulp in bfloat16)"),
    ),
    ("addbmm", _steps(4, "abs", "the products of a batch are added in the dtype; samples have five")),
    (
        "cumsum cumprod index_add scatter_add index_put scatter_reduce logcumsumexp",
        _steps(4, "abs", "sums in the dtype by contract, in any order; samples add at most a few terms"),
    ),
)

#: Operators that are a chain of the above, each link rounded to the dtype: seen on the host in 16 bits, where torch's own
#: kernels do so; the count of roundings is that of the chain.
_CHAINS: tuple[tuple[str, Tolerance], ...] = (
    (
        "nn.functional.batch_norm _batch_norm_with_update _native_batch_norm_legit native_batch_norm nn.functional.instance_norm",
        _steps(4, "peak", "mean, deviation, scale and shift may be kept in the dtype"),
    ),
    ("_segment_reduce index_reduce", _steps(4, "largest", "the sums of a segment are added in the dtype")),
    (
        "_unsafe_masked_index_put_accumulate addr",
        _steps(4, "abs", "each product or term is rounded before it is added"),
    ),
    ("cross linalg.cross linalg.vecdot", _steps(2, "peak", "each product is rounded before the difference")),
    ("cumulative_trapezoid trapezoid trapz gradient", _steps(4, "largest", "sums and differences in the dtype")),
    (
        "diff nn.functional.hinge_embedding_loss",
        _steps(8, "largest", "a third difference has eight terms; a margin minus x"),
    ),
    ("linalg.multi_dot", _steps(4, "peak", "each product of the chain is rounded to the dtype")),
    ("linspace logspace", _steps(4, "largest", "the step is rounded to the dtype and multiplied")),
    (
        "logit special.logit",
        _steps(4, "peak", "x / (1 - x) is rounded before its logarithm, which is near 0 for x near 1/2"),
    ),
    ("masked.log_softmax", _steps(1, "peak", "max + log(sum) may be rounded before it is subtracted")),
    (
        "nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d",
        _steps(4, "abs", "the sum of a window is kept in the dtype"),
    ),
    ("nn.functional.bilinear", _steps(4, "abs", "the three factors' products are rounded before they are summed")),
    (
        """nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.huber_loss
        nn.functional.poisson_nll_loss nn.functional.multilabel_soft_margin_loss
        nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss nn.functional.soft_margin_loss
        nn.functional.multi_margin_loss nn.functional.smooth_l1_loss nn.functional.cosine_embedding_loss
        nn.functional.margin_ranking_loss nn.functional.gaussian_nll_loss nn.functional.kl_div
        nn.functional.linear_cross_entropy nn.functional.l1_loss""",
        _steps(6, "peak", "a loss is a chain of element-wise steps, its logarithms and sums kept in the dtype"),
    ),
    (
        "nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d",
        _steps(6, "abs", "overlapping contributions of the kernel's positions are added in the dtype"),
    ),
    (
        "nn.functional.cosine_similarity nn.functional.embedding_bag nn.functional.local_response_norm",
        _steps(4, "peak", "norms and sums of terms are kept in the dtype"),
    ),
    (
        "nn.functional.multi_head_attention_forward",
        _steps(8, "peak", "two projections, attention and its softmax, each rounded to the dtype"),
    ),
    ("nn.functional.tanhshrink special.ndtr", _steps(2, "input", "x - tanh(x), and (1 + erf)/2 below 0, cancel")),
)
_ALL = (*_CLASSES, *_CHAINS)

OPERATORS: Mapping[str, Tolerance] = {name: rule for names, rule in _ALL for name in names.split()}

#: Random or undefined by contract (linalg.lstsq: LAPACK's gelsy gets uninitialised pivots on the host, so that its
#: solution of a rank-deficient system differs from call to call; seen with torch 2.13): only shape, dtype and (for the
#: random ones) finiteness are checked.
STRUCTURE_ONLY = frozenset(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided rand_like randn_like randint_like
    randint randn bernoulli multinomial normal uniform cauchy exponential geometric log_normal nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
    nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d linalg.lstsq""".split()  # noqa: SIM905
)
UNDEFINED_VALUES = frozenset({name for name in STRUCTURE_ONLY if "empty" in name})


#: A gradient is a chain of its own: the saved results, the incoming gradient and each factor are rounded to the dtype.
GRADIENT = _steps(
    6, "peak", "it multiplies saved results that were rounded, and sums in the dtype where inputs are shared"
)
_CANCELS = _steps(
    2, "largest", "its terms cancel, to 0 for a row of one element or of equal ones: off by roundoffs of the terms"
)
GRADIENTS: Mapping[str, Tolerance] = dict.fromkeys(
    """_batch_norm_with_update _native_batch_norm_legit native_batch_norm nn.functional.batch_norm
    nn.functional.instance_norm native_layer_norm nn.functional.layer_norm nn.functional.group_norm
    nn.functional.rms_norm corrcoef cov logcumsumexp""".split(),  # noqa: SIM905
    _CANCELS,
)

#: Discontinuous in numbers that a kernel may round to the dtype (a pixel's place, a bin's edge): in 16 bits a right kernel may
#: be whole values away, so that only shape, dtype, finiteness and equal repeats are checked there.
STEPS_IN_16_BITS = frozenset(("nn.functional.grid_sample", "grid_sampler_2d", "grid_sampler_3d", "histc"))
#: The gradient of these holds trunc(a / b), whose quotient may be rounded to a whole number.
STEPS_OF_GRADIENTS = frozenset(("fmod", "remainder"))

#: Defined by the dtype's own numbers, or by the place in memory: the host's result in the dtype itself is the right one, to
#: the bit.
OWN_NUMBERS = frozenset(("nextafter", "as_strided", "as_strided_copy", "as_strided_scatter", "view_as_real", "frexp"))

#: A complex product is a sum of two products, each of which may be rounded: two roundoffs of the number's modulus.
COMPLEX_KAPPA = 2.0

#: An operator without a derived tolerance may be as far off as its golden result moves when every input moves by this many
#: roundoffs, up or down (the largest move over so many fixed patterns of signs counts): four are two roundings of each input
#: and two of what is made of it. Faults smaller than that cannot be told from rounding by any comparison.
ROUNDOFFS = 4.0
PATTERNS = 3

#: The operators whose tolerance was derived, and which nothing makes looser.
STRICT = frozenset(name for names, _ in _CLASSES for name in names.split())

#: Where no operator of the database has a tolerance of its own.
_OTHER = "logsumexp"


def of_operator(name: str) -> Tolerance:
    """The tolerance of operator ``name``; one that is in no class gets that of norms and reductions."""
    return OPERATORS.get(name, OPERATORS[_OTHER])


def of_gradient(name: str) -> Tolerance:
    """The tolerance of an operator's gradients."""
    return GRADIENTS.get(name, GRADIENT)
