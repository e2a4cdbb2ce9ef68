"""Operator coverage: does one operator work on the device in one dtype, and is it right? torch is imported inside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_accel.measure import accuracy, fallback, tolerances
from pytest_accel.measure.fallback import FallbackWatch, dispatched, spent
from pytest_accel.measure.types import BadArguments
from pytest_accel.stack import variation
from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads import opinfo
from pytest_accel.workloads.inputs import torch_dtype
from pytest_accel.workloads.opcover import calls, judge, manifest, reproduce
from pytest_accel.workloads.opcover.golden import NoGolden, golden_of, wide_dtype
from pytest_accel.workloads.opcover.tally import OF_ERROR, Tally
from pytest_accel.workloads.samples import choose, digest, moved, shown, tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.workloads.opcover.calls import Run
    from pytest_accel.workloads.opinfo import Operator
    from pytest_accel.workloads.samples import Sample


def operator(
    accel: Accelerator, op: str, dtype: str = "float32", variant: str = "", samples: int = 6, seed: int = 0
) -> dict[str, float | int | str]:
    """Run ``samples`` sample inputs of the operator on the device and judge them against float64 on the host.

    ``op`` and ``variant`` are names of torch's operator database; a ``dtype`` that the database does not declare for
    the operator, and an operator that only another torch has, give the status ``no-sample``. Each sample is called by
    both routes that the database knows (``torch.add(x, y)`` and ``x.add(y)``). Metrics: ``status`` (the worst word over
    the samples), ``faults`` (samples whose word is a fault), ``samples``, ``nonfinite``, ``inputs``, ``available`` (how
    many samples the database has, up to 60); ``max_ulp`` and ``rms_ulp`` where numbers were compared. Raises
    BadArguments for an unknown name, RuntimeError for an error that means nothing known or a
    poisoned device.
    """
    return _measured(accel, op, dtype, variant, samples, seed, calls.forward)


def operator_backward(
    accel: Accelerator, op: str, dtype: str = "float32", variant: str = "", samples: int = 6, seed: int = 0
) -> dict[str, float | int | str]:
    """The same for gradients: those of a weighted sum of the operator's results, against float64 on the host."""
    return _measured(accel, op, dtype, variant, samples, seed, calls.backward)


def _measured(
    accel: Accelerator, op: str, dtype: str, variant: str, samples: int, seed: int, run: Run
) -> dict[str, float | int | str]:
    kind = torch_dtype(dtype)
    gradients = run is calls.backward
    try:
        entries = opinfo.find(op, variant)
    except BadArguments as error:
        if not manifest.is_known(op, variant):
            raise
        accel.note("no_sample", str(error))  # another torch has it: lost coverage, no slip of the pen
        entries = []
    declared = [entry for entry in entries if kind in entry.dtypes and not gradients]
    declared = declared or [entry for entry in entries if kind in entry.declared(gradients)]
    pool = [pair for entry in declared for pair in _samples(accel, entry, kind, seed, gradients)]
    if gradients:
        pool = [(entry, sample) for entry, sample in pool if any(t.requires_grad for t in tensors(sample.args))]
    entry_of = {id(sample): entry for entry, sample in pool}
    chosen = choose([sample for _, sample in pool], samples)
    accel.seed(seed)
    tally = Tally()
    for sample in chosen:
        entry = entry_of[id(sample)]
        text = partial(_code, accel, entry, dtype, sample.index, seed, gradients)
        way = "gradients of " if gradients else ""
        accel.breadcrumb(f"sample {sample.index} of {way}{entry.full_name} ({dtype}): {shown(sample)}", text())
        _one(accel, entry, kind, sample, run, tally)
    worst = tally.worst
    if worst is not None and worst.word != "supported":
        code = _code(accel, entry_of[id(worst.sample)], dtype, worst.sample.index, seed, gradients)
        accel.note("reproduce", worst.facts)
        accel.note("reproducer", code)
        accel.note("tools", list(accel.debug_commands))
    return {**tally.metrics(), "inputs": digest(chosen), "available": len(pool)}


def _samples(
    accel: Accelerator, entry: Operator, dtype: torch.dtype, seed: int, gradients: bool
) -> list[tuple[Operator, Sample]]:
    """The samples that the database makes; where its own code fails in this dtype, those made so far, and a note."""
    found: list[tuple[Operator, Sample]] = []
    try:
        for sample in entry.samples(dtype, seed, gradients=gradients):
            found.append((entry, sample))
    except Exception as error:
        accel.note("no_sample", f"torch's own sample of {entry.full_name} in {dtype} fails: {_first_line(error)}")
    return found


def _code(accel: Accelerator, entry: Operator, dtype: str, index: int, seed: int, gradients: bool) -> str:
    wide = wide_dtype(torch_dtype(dtype)) if entry.name not in tolerances.OWN_NUMBERS else None
    name = str(wide).removeprefix("torch.") if wide is not None else ""
    where = str(accel.device)
    return reproduce.code(
        entry.name, entry.variant, dtype, index, device=where, wide=name, seed=seed, backward=gradients
    )


def _one(accel: Accelerator, entry: Operator, dtype: torch.dtype, sample: Sample, run: Run, tally: Tally) -> None:
    """Measure one sample and add its word to the tally."""
    random = calls.random_inside(entry.name, sample, tolerances.STRUCTURE_ONLY)
    steps = tolerances.STEPS_IN_16_BITS | (tolerances.STEPS_OF_GRADIENTS if run is calls.backward else frozenset())
    structural = random or (entry.name in steps and dtype.itemsize == 2)
    golden, why = None, ""
    if not structural:
        try:
            golden = golden_of(entry, dtype, sample, run)
        except NoGolden as error:
            why = str(error)
    watch = FallbackWatch(accel.classify, accel.stderr_text)
    try:
        with watch:
            result = _on_device(accel, entry.call, sample, run)
            again = result if random else _on_device(accel, entry.call, sample, run)
    except Exception as error:
        _failed(accel, entry, dtype, sample, error, why, tally)
        return
    warned = watch.texts[0] if watch.texts else _spent(accel, entry, sample, run)
    if warned:
        tally.add("fallback", warned, sample)
    elif not _alike(result, again) and not _may_vary(accel, entry.name, run):
        tally.add("nondeterministic", "two runs on the same input differ", sample)
    elif structural:
        judge.structure(entry, dtype, sample, run, result, tally)
    elif golden is None:
        tally.add("no-golden", why, sample)
    else:
        judged = partial(judge.numbers, entry, dtype, sample, run, golden=golden, other_host=_other_host(accel))
        judged(result=result, tally=tally)
        if tally.words[-1] == "supported":
            _second_route(accel, entry, sample, run, result, judged, tally)


def _on_device(accel: Accelerator, call: calls.Call, sample: Sample, run: Run) -> list[torch.Tensor]:
    result = run(call, moved(sample, accel.device))
    accel.synchronize()
    return result


def _second_route(
    accel: Accelerator,
    entry: Operator,
    sample: Sample,
    run: Run,
    first: list[torch.Tensor],
    judged: Callable[..., None],
    tally: Tally,
) -> None:
    """Call a sample that passed as a program would write it, and judge that as well where its bits differ."""
    if entry.plain is None or run is calls.backward:
        return
    watch = FallbackWatch(accel.classify, accel.stderr_text)
    try:
        with watch:
            result = _on_device(accel, entry.plain, sample, run)
    except Exception as error:
        word = OF_ERROR.get(accel.classify(error))
        if word is None:
            return  # the method does not take this sample's arguments: there is one route only
        del tally.words[-1]
        tally.add(word, f"called as a method: {_first_line(error)}", sample)
        return
    if watch.texts:
        del tally.words[-1]
        tally.add("fallback", f"called as a method: {watch.texts[0]}", sample)
    elif not _alike(first, result):
        del tally.words[-1]
        judged(result=result, tally=tally)


def _failed(
    accel: Accelerator,
    entry: Operator,
    dtype: torch.dtype,
    sample: Sample,
    error: Exception,
    no_golden: str,
    tally: Tally,
) -> None:
    """Add the word that an error of the device means. Raises RuntimeError for one that means nothing known."""
    kind = accel.classify(error)
    word = OF_ERROR.get(kind)
    if word is None and no_golden and kind == ErrorKind.OTHER:
        word = "unsupported"  # the host refuses this call too
    if word is None:
        where = f"{entry.full_name} ({dtype}), sample {sample.index} [{shown(sample)}]"
        raise RuntimeError(f"{where}: {error}") from error
    tally.add(word, _first_line(error) or word, sample)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def _alike(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(accuracy.same_bits(a, b) for a, b in zip(first, second, strict=True))


def _may_vary(accel: Accelerator, name: str, run: Run) -> bool:
    return accel.may_vary(name) or (run is calls.backward and name in variation.GRADIENTS)


def _other_host(accel: Accelerator) -> bool:
    return bool(accel.device.type != "cpu")


def _spent(accel: Accelerator, entry: Operator, sample: Sample, run: Run) -> str | None:
    """An earlier fall-back warning of this process that names an operator which this call dispatches."""
    if not fallback.SEEN:
        return None
    return spent(dispatched(lambda: run(entry.call, moved(sample, accel.device))))
