"""The accuracy rule: a result against a float64 golden one, in scaled ULPs, beside a reference in the same dtype.

Order of the checks: the map of non-finite elements first (a saturated value is not a finite one), then the scaled error
``e = (y - g) / (ulp(g) + kappa * u * S)``, judged by its maximum, root mean square and mean. torch is imported inside.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_accel.measure import tolerances
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.measure.types import Unfit

if TYPE_CHECKING:
    import torch

Word = Literal["supported", "wrong", "nonfinite", "saturated"]


@dataclass(frozen=True)
class Accuracy:
    """What was found of one output tensor. Errors in scaled ULPs of its dtype; counts in elements.

    ``nonfinite`` counts elements whose class (finite, +inf, -inf, nan) is not that of the golden result, either way;
    ``saturated`` those that hold the dtype's largest number where the golden result overflows. ``worst`` is the flat
    index of the worst element, -1 where there is none. ``reason`` is empty where the result is right.
    """

    word: Word
    max_ulp: float
    rms_ulp: float
    bias: float
    reference_max: float
    reference_rms: float
    nonfinite: int
    saturated: int
    count: int
    worst: int
    reason: str = ""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one CPU thread: the first float32 ``cos`` of a process on two threads was seen wrong in some processes."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def twice(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    """A golden result, computed twice on one thread. Raises Unfit("reference-unstable") where the two differ."""
    with one_thread():
        first, second = compute(), compute()
    if len(first) != len(second) or not all(same_bits(a, b) for a, b in zip(first, second, strict=True)):
        raise Unfit("reference-unstable", "the float64 reference on the host gave two different results for one input")
    return first


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True where two tensors have one shape, dtype and equal values, a NaN being equal to a NaN in the same place."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_floating_point() and a.element_size() == 1:
        a, b = a.float(), b.float()  # small floats cannot be compared themselves
    equal = a == b
    if a.is_floating_point() or a.is_complex():
        equal |= (a != a) & (b != b)
    return bool(equal.all())


def ulp(golden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The spacing of ``dtype`` at each element of ``golden`` (float64), at least that of its smallest normal number."""
    import torch

    info = torch.finfo(dtype)
    # frexp(0) has exponent 0, as 0.5 has: the clamp must come before it, on the values.
    exponent = torch.frexp(golden.abs().clamp(min=info.smallest_normal)).exponent - 1
    return torch.ldexp(torch.full_like(golden, info.eps), exponent)


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _weight(dtype: torch.dtype, rule: Tolerance) -> float:
    """``kappa * u`` of the dtype, not below what an accumulation in float32 (float64 for float64) leaves."""
    import torch

    if rule.kappa == 0.0:
        return 0.0
    u = float(torch.finfo(dtype).eps) / 2
    floor = 4 * u if dtype == torch.float64 else tolerances.ACCUMULATE_FLOAT32
    return max(rule.kappa * u, floor)


def magnitude_of(golden: torch.Tensor, rule: Tolerance) -> torch.Tensor | None:
    """S for the conditions that come from the golden result itself (``peak``, ``row``); None for the others."""
    if rule.condition not in ("peak", "row") or golden.numel() == 0:
        return None
    finite = golden.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    if rule.condition == "row" and golden.dim():
        return finite.amax(dim=-1, keepdim=True).expand_as(golden)
    return finite.amax().expand_as(golden)


def compare(
    result: torch.Tensor,
    golden: torch.Tensor,
    reference: torch.Tensor | None = None,
    *,
    rule: Tolerance,
    magnitude: torch.Tensor | None = None,
    independent: int | None = None,
) -> Accuracy:
    """Judge ``result`` (any dtype, any device) against ``golden`` of the same shape (float64, complex128, int or
    bool, CPU).

    ``reference`` is another implementation's result in the same dtype (CPU); ``magnitude`` is S where the rule's
    condition is ``abs``. Integers and booleans must be equal. Complex numbers are judged as pairs of reals; S is
    the number's modulus where the rule gives none, since either part may be off by roundoffs of the whole.
    ``independent``: how many of the errors are independent (default: all), where one rounding moves a whole row; the mean
    error of fewer is known less well.
    """
    y = _as_real(result.detach().cpu())
    g = _as_real(golden.detach())
    if not y.is_floating_point():
        return _exact(y, g)
    r = None if reference is None else _as_real(reference.detach())
    if magnitude is None:
        magnitude = magnitude_of(g, rule)
        if magnitude is None and golden.is_complex() and rule.kappa:
            magnitude = golden.detach().abs().unsqueeze(-1).expand_as(g)
    elif magnitude.is_complex():
        magnitude = _as_real(magnitude)
    elif golden.is_complex():
        magnitude = magnitude.unsqueeze(-1).expand_as(g)
    g = g.double()
    nonfinite, saturated, usable = _classes(y, g)
    errors = _scaled(y, g, rule, magnitude)[usable]
    n = int(errors.numel())
    slack = tolerances.FLOAT64_SLACK if y.element_size() == 8 else 1.0
    reference_max = reference_rms = reference_bias = 0.0
    if r is not None and n:
        rounded = r.to(y.dtype)
        others = _scaled(rounded, g, rule, magnitude)[usable & rounded.isfinite()]
        if others.numel():
            reference_max = float(others.abs().max())
            reference_rms = float(others.square().mean().sqrt())
            reference_bias = abs(float(others.mean()))
    max_ulp = float(errors.abs().max()) if n else 0.0
    rms = float(errors.square().mean().sqrt()) if n else 0.0
    bias = float(errors.mean()) if n else 0.0
    worst = int(usable.flatten().nonzero()[int(errors.abs().argmax())]) if n else -1
    counted = n if independent is None else min(n, independent)
    limits = _limits(y, rule, slack, (n, counted), reference_max, reference_rms, reference_bias)
    word, reason = _verdict(nonfinite, saturated, max_ulp, rms, bias, limits)
    return Accuracy(word, max_ulp, rms, bias, reference_max, reference_rms, nonfinite, saturated, n, worst, reason)


def leaning(
    result: torch.Tensor,
    golden: torch.Tensor,
    reference: torch.Tensor | None = None,
    *,
    rule: Tolerance,
    magnitude: torch.Tensor | None = None,
    independent: int | None = None,
) -> str:
    """Why a 16-bit result leans towards zero or away from it, in words; "" where it does not, or is no 16-bit result.

    The mean of ``e * sign(g)``: truncation makes numbers of both signs smaller, which leaves the mean of ``e`` at 0. Allowed
    is what is allowed of the mean. Arguments as of ``compare``, on the CPU.
    """
    y, g = result.detach(), golden.detach()
    if not y.is_floating_point() or y.element_size() != 2:
        return ""
    size = magnitude_of(g, rule) if magnitude is None else magnitude
    _, _, usable = _classes(y, g)
    usable = usable & (g != 0)
    n = int(usable.sum())
    if not n:
        return ""

    def mean(values: torch.Tensor) -> float:
        return float((_scaled(values, g, rule, size) * g.sign())[usable].nan_to_num().mean())

    other = abs(mean(reference.to(y.dtype))) if reference is not None else 0.0
    counted = n if independent is None else min(n, independent)
    allowed = max(tolerances.BIAS, tolerances.BIAS_SAMPLES / math.sqrt(counted), tolerances.RMS_RATIO * other)
    found = mean(y)
    if abs(found) <= allowed:
        return ""
    return f"results lean {'towards' if found < 0 else 'away from'} zero by {abs(found):.3g} ulp, allowed {allowed:.3g}"


def for_readers(result: torch.Tensor, golden: torch.Tensor) -> tuple[float, float]:
    """Cosine and largest relative error over the elements that are finite in both: shown, never judged.

    A relative error is taken of elements that are at least a thousandth of the largest. Both are known to hide faults.
    """
    y, g = _as_real(result.detach().cpu()).double().flatten(), _as_real(golden.detach()).double().flatten()
    usable = y.isfinite() & g.isfinite()
    y, g = y[usable], g[usable]
    norms = float(y.norm() * g.norm())
    if not norms:
        tiny = float(ulp(g.new_zeros(1), result.dtype)[0]) if result.is_floating_point() else 0.0
        return (1.0 if not y.numel() or float(g.abs().amax()) <= tiny else 0.0), 0.0
    large = g.abs() >= g.abs().amax() * 1e-3
    return float(y @ g) / norms, float(((y - g).abs() / g.abs())[large].max())


def _exact(y: torch.Tensor, g: torch.Tensor) -> Accuracy:
    different = (y != g.to(y.dtype)) if y.shape == g.shape else None
    count = y.numel() if different is None else int(different.sum())
    worst = int(different.flatten().nonzero()[0]) if different is not None and count else -1
    reason = f"{count} of {y.numel()} whole numbers or booleans differ" if count else ""
    # A wrong whole number has no size in ULPs: the count stands in, so that more wrong elements read as worse.
    return Accuracy(
        "wrong" if count else "supported", float(count), float(count), 0.0, 0.0, 0.0, 0, 0, y.numel(), worst, reason
    )


def _classes(y: torch.Tensor, g: torch.Tensor) -> tuple[int, int, torch.Tensor]:
    """Count class mismatches and saturated elements; the mask says which elements have a finite error to speak of."""
    import torch

    top = torch.finfo(y.dtype).max
    rounded = g.to(y.dtype)
    step = float(ulp(torch.tensor([top], dtype=torch.float64), y.dtype)[0])
    # Within one step of the overflow threshold either side is a correct rounding of a slightly different sum.
    edge = (g.abs() >= top - step) & (g.abs() <= top + step) & ((y.abs() >= top - 2 * step) | y.isinf()) & ~y.isnan()
    edge &= (y.sign() == g.sign().to(y.dtype)) if y.dtype != torch.float64 else torch.zeros_like(edge)
    saturated = rounded.isinf() & (y.abs() == top) & (y.sign() == rounded.sign()) & ~edge
    same = (
        (y.isfinite() & rounded.isfinite())
        | (y.isnan() & rounded.isnan())
        | (y.isinf() & rounded.isinf() & (y.sign() == rounded.sign()))
    )
    mismatch = ~same & ~edge & ~saturated
    usable = y.isfinite() & rounded.isfinite() & ~edge
    return int(mismatch.sum()), int(saturated.sum()), usable


def _scaled(y: torch.Tensor, g: torch.Tensor, rule: Tolerance, magnitude: torch.Tensor | None) -> torch.Tensor:
    unit = ulp(g.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0), y.dtype)
    weight = _weight(y.dtype, rule)
    if magnitude is not None and weight:
        unit = unit + weight * magnitude.double().abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return (y.double() - g) / unit


@dataclass(frozen=True)
class _Limits:
    max_ulp: float
    rms: float
    bias: float


def _limits(
    y: torch.Tensor, rule: Tolerance, slack: float, counts: tuple[int, int], r_max: float, r_rms: float, r_bias: float
) -> _Limits:
    (n, independent), limit, rms = counts, rule.max_ulp, rule.rms_ulp
    if y.element_size() >= 4:
        limit, rms = rule.max_ulp_float32 or limit, rule.rms_ulp_float32 or rms
    # One element at its own limit must not fail by the mean of a few: it alone makes an rms of max_ulp/sqrt(n).
    rms = max(rms, limit / math.sqrt(max(n, 1)))
    # Equal inputs give equal rounding errors, which no count averages out: the reference then has the same mean error.
    allowed = tolerances.BIAS if rule.bias is None else rule.bias
    bias = max(allowed, tolerances.BIAS_SAMPLES / math.sqrt(max(independent, 1)), tolerances.RMS_RATIO * r_bias)
    return _Limits(
        max(limit * slack, tolerances.MAX_RATIO * r_max),
        max(rms * slack, tolerances.RMS_RATIO * r_rms),
        bias * slack,
    )


def _verdict(
    nonfinite: int, saturated: int, max_ulp: float, rms: float, bias: float, limits: _Limits
) -> tuple[Word, str]:
    if nonfinite:
        return "nonfinite", f"{nonfinite} non-finite elements that are not so in the reference, or the other way round"
    if saturated:
        return "saturated", f"{saturated} elements hold the largest number where the result overflows to infinity"
    # Written so that a NaN fails: each comparison must be true to pass.
    if not max_ulp <= limits.max_ulp:
        return "wrong", f"largest error {max_ulp:.3g} ulp, allowed {limits.max_ulp:.3g}"
    if not rms <= limits.rms:
        return "wrong", f"rms error {rms:.3g} ulp, allowed {limits.rms:.3g}"
    if not abs(bias) <= limits.bias:
        return "wrong", f"mean error {bias:+.3g} ulp, allowed ±{limits.bias:.3g}"
    return "supported", ""
