"""What the host says an operator should give: in float64, in the dtype itself, and in between. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_accel.measure import accuracy, tolerances
from pytest_accel.measure.types import Unfit
from pytest_accel.workloads.samples import Sample, cast

if TYPE_CHECKING:
    import torch

    from pytest_accel.workloads.opcover.calls import Run
    from pytest_accel.workloads.opinfo import Operator


@dataclass(frozen=True)
class Golden:
    """The right results, one tensor a result, and how they were found.

    ``exact``: the host's results in the dtype itself, to which a device's must be equal (copies, whole numbers, what is
    defined by the dtype's own numbers); else they are in float64 or complex128.
    """

    results: list[torch.Tensor]
    exact: bool


class NoGolden(Exception):
    """The host cannot compute the right results; the message says why."""


def wide_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """The dtype in which the golden results are computed; None for whole numbers and booleans, which are their own."""
    import torch

    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else None


def golden_of(entry: Operator, dtype: torch.dtype, sample: Sample, run: Run) -> Golden:
    """The golden results of one sample, computed twice on one thread. Raises NoGolden where the host cannot."""
    wide = wide_dtype(dtype)
    exact = wide is None or entry.name in tolerances.OWN_NUMBERS
    target = dtype if wide is None or exact else wide
    try:
        try:
            return Golden(_twice(entry, dtype, target, sample, run), exact)
        except Unfit:  # a chance fault of the host must not cost an operator its verdict
            return Golden(_twice(entry, dtype, target, sample, run), exact)
    except Exception as error:
        text = str(error).strip().splitlines()
        raise NoGolden(
            f"the host cannot compute it in {wide or dtype}: {text[0] if text else type(error).__name__}"
        ) from error


def _twice(entry: Operator, source: torch.dtype, target: torch.dtype, sample: Sample, run: Run) -> list[torch.Tensor]:
    return accuracy.twice(lambda: run(entry.call, cast(sample, source, target)))


def floats_of_whole_numbers(
    entry: Operator, dtype: torch.dtype, sample: Sample, run: Run, golden: Golden
) -> list[torch.Tensor]:
    """The golden results of a sample of whole numbers, those that are no whole numbers in float64 where that is the same.

    ``mean`` or ``exp`` of whole numbers gives float32, which no device must match to the bit. The float64 run counts where
    it agrees to four digits; where it does not (a sum that overflows its dtype, by contract), the host's own float32 does.
    """
    import torch

    if not any(result.is_floating_point() or result.is_complex() for result in golden.results):
        return golden.results
    with accuracy.one_thread():
        wide = attempt(lambda: run(entry.call, cast(sample, dtype, torch.float64)))
    found = []
    for i, own in enumerate(golden.results):
        other = wide[i] if wide is not None and len(wide) == len(golden.results) else None
        if not own.is_floating_point() and not own.is_complex():
            found.append(own)
            continue
        exact = own.to(torch.complex128 if own.is_complex() else torch.float64)
        if other is not None and other.shape == own.shape and other.dtype == exact.dtype:
            near = torch.isclose(other, exact, rtol=1e-4, atol=1e-6, equal_nan=True)
            exact = torch.where(near, other, exact)
        found.append(exact)
    return found


def attempt(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """A helper result, or None where the host does not offer the operator in that dtype."""
    try:
        return compute()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AssertionError):
        return None
