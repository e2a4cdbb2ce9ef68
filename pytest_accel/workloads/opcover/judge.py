"""A device's results against the host's: shapes and dtypes, random results by their structure, all else by the accuracy rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_accel.measure import accuracy, tolerances
from pytest_accel.workloads import magnitudes
from pytest_accel.workloads.opcover import calls
from pytest_accel.workloads.opcover.golden import Golden, attempt, floats_of_whole_numbers
from pytest_accel.workloads.opcover.tally import Tally
from pytest_accel.workloads.samples import Sample, cast, nudged
from pytest_accel.workloads.ties import comparable

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.tolerances import Tolerance
    from pytest_accel.workloads.opcover.calls import Run
    from pytest_accel.workloads.opinfo import Operator
    from pytest_accel.workloads.ties import Pair


def structure(
    entry: Operator, dtype: torch.dtype, sample: Sample, run: Run, result: list[torch.Tensor], tally: Tally
) -> None:
    """Judge random or undefined results: shape, dtype and, where the host's are finite, finiteness."""
    native = attempt(lambda: run(entry.call, cast(sample, dtype, dtype)))
    if native is None:
        tally.add("no-golden", "the host does not offer it in this dtype", sample)
        return
    if len(result) != len(native):
        tally.add("wrong", f"{len(result)} results, the host gives {len(native)}", sample)
        return
    for i, (y, n) in enumerate(zip(result, native, strict=True)):
        if y.shape != n.shape or y.dtype != n.dtype:
            words = f"result {i} is {y.dtype}{list(y.shape)}, the host gives {n.dtype}{list(n.shape)}"
            tally.add("wrong", words, sample)
            return
        checked = entry.name not in tolerances.UNDEFINED_VALUES and y.is_floating_point() and y.element_size() > 1
        if checked and bool(n.isfinite().all()) and not bool(y.isfinite().all()):
            tally.nonfinite += int((~y.isfinite()).sum())
            tally.add("nonfinite", f"result {i} holds non-finite random numbers", sample)
            return
    tally.add("supported", "", sample)


def numbers(
    entry: Operator,
    dtype: torch.dtype,
    sample: Sample,
    run: Run,
    result: list[torch.Tensor],
    golden: Golden,
    tally: Tally,
    *,
    other_host: bool,
) -> None:
    """Judge results by the accuracy rule and add the sample's word to the tally.

    ``other_host``: the device is not the host, so that the host's results in the dtype itself are another
    implementation's, and may bound what an operator without a tolerance of its own is allowed.
    """
    if len(result) != len(golden.results):
        tally.add("wrong", f"{len(result)} results, the host gives {len(golden.results)}", sample)
        return
    if golden.exact and entry.name in tolerances.OWN_NUMBERS:
        _equal(result, golden.results, sample, tally)
        return
    gradient = run is calls.backward
    pairs, rule = _pairs(entry, dtype, sample, run, result, golden, other_host)
    native = pairs.native
    worst = 0.0
    for i, (y, g, r, s) in enumerate(pairs.pairs):
        if y.shape != g.shape:
            tally.add("wrong", f"result {i} has shape {list(y.shape)}, the host gives {list(g.shape)}", sample)
            return
        if native is not None and len(native) == len(result) and _narrower(result[i].dtype, native[i].dtype):
            tally.add("wrong", f"result {i} is {result[i].dtype}, the host gives {native[i].dtype}", sample)
            return
        if y.numel() == 0:
            continue
        if (
            y.is_floating_point() and y.element_size() == 1
        ):  # no arithmetic in small floats: they are rounded once, or copied
            y, g, r, s = y.float(), g.to(y.dtype).double(), None, None
        found = accuracy.compare(y, g, r, rule=rule, magnitude=s)
        tally.nonfinite += found.nonfinite
        tally.max_ulp = max(tally.max_ulp, found.max_ulp)
        tally.square_sum += found.rms_ulp**2 * found.count
        tally.elements += found.count
        worst = max(worst, found.max_ulp)
        if found.word == "wrong" and pairs.conditioned and _explained(entry, dtype, sample, run, golden, rule, i, y):
            continue
        if found.word != "supported":
            what = "gradient" if gradient else "result"
            where = f" ({what} {i}, element {found.worst})" if found.worst >= 0 else ""
            tally.add(found.word, found.reason + where, sample, found.max_ulp)
            return
    tally.add("supported", "", sample, worst)


class _Pairs:
    """What is compared with what; the host's results in the dtype; whether ``_explained`` may be asked."""

    def __init__(self, pairs: list[Pair], native: list[torch.Tensor] | None, conditioned: bool = False) -> None:
        self.pairs, self.native, self.conditioned = pairs, native, conditioned


def _pairs(
    entry: Operator,
    dtype: torch.dtype,
    sample: Sample,
    run: Run,
    result: list[torch.Tensor],
    golden: Golden,
    other_host: bool,
) -> tuple[_Pairs, Tolerance]:
    import torch

    gradient = run is calls.backward
    rule = tolerances.of_gradient(entry.name) if gradient else tolerances.of_operator(entry.name)
    if golden.exact:
        exact = floats_of_whole_numbers(entry, dtype, sample, run, golden)
        pairs = comparable(entry.name, sample, result, exact, golden.results if other_host else None, None)
        return _Pairs(pairs, golden.results), rule
    narrow = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    wide = narrow.get(dtype, dtype)
    with accuracy.one_thread():
        reference = attempt(lambda: run(entry.call, cast(sample, dtype, wide)))
        native = reference if wide == dtype else attempt(lambda: run(entry.call, cast(sample, dtype, dtype)))
        scale = None
        if rule.condition in ("largest", "exponent"):
            inputs, plain = magnitudes.inputs_of(sample), magnitudes.plain_of(sample)
            scale = magnitudes.of_golden(rule.condition, golden.results, inputs, plain)
            if gradient:
                exact_sample = cast(sample, dtype, torch.complex128 if dtype.is_complex else torch.float64)
                steep = magnitudes.steepness(entry.name, exact_sample)
                scale = [None if each is None else each * steep for each in scale]
        elif not gradient:
            exact_sample = cast(sample, dtype, torch.complex128 if dtype.is_complex else torch.float64)
            scale = magnitudes.of_inputs(
                entry.name, rule.condition, exact_sample, lambda s: attempt(lambda: run(entry.call, s))
            )
    if wide == dtype and not other_host:
        reference = None  # it is the very kernel that is judged, and would allow itself twice its own error
    if dtype.is_complex:
        rule = replace(rule, kappa=max(rule.kappa, tolerances.COMPLEX_KAPPA))
    name = "" if gradient else entry.name
    pairs = comparable(name, sample, result, golden.results, reference, scale)
    loose = gradient or entry.name not in tolerances.STRICT
    if other_host and native is not None and loose:
        pairs = [_looser(pair, n, rule) for pair, n in zip(pairs, native, strict=False)] + pairs[len(native) :]
    return _Pairs(pairs, native, loose), rule


def _explained(
    entry: Operator,
    dtype: torch.dtype,
    sample: Sample,
    run: Run,
    golden: Golden,
    rule: Tolerance,
    index: int,
    y: torch.Tensor,
) -> bool:
    """True where the inputs' own roundoffs move the golden result as far as ``y`` is off: see ``tolerances.ROUNDOFFS``.

    No kernel that rounds anything of the inputs' size can be better. Not asked of the operators whose tolerance was derived.
    """
    import torch

    wide = torch.complex128 if dtype.is_complex else torch.float64
    g = golden.results[index]
    if not y.is_floating_point() and not y.is_complex():
        return False
    moved = 0.0
    for pattern in range(tolerances.PATTERNS):
        near = attempt(lambda pattern=pattern: run(entry.call, nudged(cast(sample, dtype, wide), dtype, pattern)))  # type: ignore[misc]
        if near is None or len(near) != len(golden.results) or near[index].shape != g.shape:
            return False
        change = (near[index] - g).abs().double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        moved = max(moved, float(change.amax()) if change.numel() else 0.0)
    u = float(torch.finfo(y.dtype).eps) / 2
    wider = replace(rule, kappa=1 / (rule.max_ulp * u))
    size = torch.full_like(g.abs().double(), moved)
    return accuracy.compare(y, g, None, rule=wider, magnitude=size).word == "supported"


def _looser(pair: Pair, native: torch.Tensor, rule: Tolerance) -> Pair:
    """The pair with the worse of two references: the float32 one, or the host's in the dtype itself."""
    y, g, r, s = pair
    if native.shape != g.shape or native.dtype != y.dtype or not y.is_floating_point():
        return pair
    if r is None:
        return y, g, native, s
    own, other = (accuracy.compare(each.to(y.dtype), g, rule=rule, magnitude=s) for each in (r, native))
    return (y, g, native, s) if other.max_ulp > own.max_ulp else pair


def _equal(result: list[torch.Tensor], golden: list[torch.Tensor], sample: Sample, tally: Tally) -> None:
    for i, (y, g) in enumerate(zip(result, golden, strict=True)):
        if not accuracy.same_bits(y.cpu(), g):
            tally.add("wrong", f"result {i} is not equal to the host's, {y.dtype}{list(y.shape)}", sample)
            return
    tally.add("supported", "", sample)


def _narrower(dtype: torch.dtype, expected: torch.dtype) -> bool:
    """True where a dtype loses something: a statistic may be kept wider than the host keeps it, but not narrower."""
    if dtype.is_floating_point != expected.is_floating_point or dtype.is_complex != expected.is_complex:
        return True
    return int(dtype.itemsize) < int(expected.itemsize)
