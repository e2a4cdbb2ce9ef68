"""Tolerances of the precision workloads, as data with a source. `benchmarks/derive_tolerances.py` measures them again."""

from __future__ import annotations

from pytest_accel.measure.tolerances import ACCUMULATE_FLOAT32, KAPPA, Tolerance

#: x1*c - x2*s with each product rounded to the dtype: at most one roundoff of |x1*c| + |x2*s|, plus the last rounding.
#: vLLM allows 2 ulp of the larger product, after a compiler changed which of the two is rounded first.
ROTARY = Tolerance(2.0, 0.6, "abs", 1.0, "each of two products is rounded to the dtype once, then their sum is", 1.0)

#: Attention: S is the computation with absolute values, |p|@|v|, each term widened by what float32 logits are off.
ATTENTION = Tolerance(
    2.0,
    0.6,
    "abs",
    1.0,
    "probabilities are rounded to the dtype once before the second product; S = p (1 + 2^-22 |q||k| / (kappa u)) @ |v|",
    1.0,
)
#: Gradients of attention: dS = p (dP - D) is rounded to the dtype once; D sums rounded outputs.
ATTENTION_GRADIENT = Tolerance(
    2.0,
    0.6,
    "abs",
    2.0,
    "p and dS are rounded to the dtype once each; S = p (|dO||v| + |dO||o|) @ |k|, and the like for k and v",
    1.0,
)
#: Norms and softmax, forward: S are the terms that are subtracted.
ROW = Tolerance(2.0, 0.6, "abs", 1.0, "one intermediate result of the row's size may be rounded to the dtype", 1.0)
#: Their gradients: dx = s (g - mean(g) - x mean(g x)), three terms of the row's size, each rounded once at most.
ROW_GRADIENT = Tolerance(2.0, 0.6, "abs", 3.0, "three terms of size S are subtracted, each rounded once at most", 1.0)
#: Sums over many rows (a norm's weight, a convolution's weight): accumulated in float32, products rounded once.
SUM_OF_PRODUCTS = Tolerance(2.0, 0.6, "abs", 1.0, "products may be rounded to the dtype once; S sums their sizes", 1.0)
CUMULATIVE = Tolerance(2.0, 0.6, "abs", 4.0, "sums kept in the dtype by contract, in any order, blocked by the device")
#: Activations and other elementwise functions.
ELEMENTWISE = Tolerance(4.0, 0.6, "abs", KAPPA, "math libraries state 1 to 4 ulp in float32; one rounding of that", 1.5)
ELEMENTWISE_GRADIENT = Tolerance(
    4.0, 1.0, "abs", 3.0, "the derivative is a sum of up to three products, each rounded to the dtype at most once", 1.5
)
#: Optimisers: parameters after a few steps, in float32; S is |parameter| + |sum of the updates|.
OPTIMIZER = Tolerance(
    8.0,
    2.0,
    "abs",
    4.0,
    "each step rounds the parameter once and the update a few times; measured plain loop 0.9 max, fused 1.1 (CPU)",
)
#: Device sin and cos: vendors state at most 2 ulp over the whole range of float32.
TRIGONOMETRY_ULP = 4.0

#: A float32 sum of K terms is off by about sqrt(K) roundoffs of the terms' size.
LOGIT_FLOAT32 = ACCUMULATE_FLOAT32

#: convert_check: how many intermediate results may be rounded to the dtype between input and output.
CONVERTED = Tolerance(
    4.0,
    1.0,
    "peak",
    4.0,
    "a conversion may fuse or reorder: four roundings of the output's peak, as in a block of layers",
)
