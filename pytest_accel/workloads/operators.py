"""Operator coverage: does one operator work on the device in one dtype, and is it right? torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import accuracy, fallback, tolerances
from pytest_accel.measure.fallback import FallbackWatch, dispatched, spent
from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads import magnitudes, opinfo
from pytest_accel.workloads.catalog.shared import STATUS
from pytest_accel.workloads.inputs import torch_dtype
from pytest_accel.workloads.ties import comparable

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.workloads.opinfo import Operator, Sample
#: What may be recorded as a device's present state; any other word but ``supported`` is a fault.
NO_FAULT = frozenset({"supported", "unsupported", "dtype-unsupported", "no-sample"})
_OF_ERROR = {
    ErrorKind.UNSUPPORTED: "unsupported",
    ErrorKind.DTYPE_UNSUPPORTED: "dtype-unsupported",
    ErrorKind.FALLBACK: "fallback",
    ErrorKind.OUT_OF_MEMORY: "oom",
}


@dataclass
class _Tally:
    """What was found over the samples of one operator."""

    words: list[str] = field(default_factory=list)
    max_ulp: float = 0.0
    square_sum: float = 0.0
    elements: int = 0
    nonfinite: int = 0
    worst: tuple[float, dict[str, Any]] | None = None

    def add(self, word: str, reason: str, sample: Sample | None = None, badness: float = 0.0) -> None:
        self.words.append(word)
        rank = STATUS.index(word) * 1e9 + min(badness, 1e8)
        if sample is not None and (self.worst is None or rank > self.worst[0]):
            self.worst = (
                rank,
                {
                    "word": word,
                    "reason": reason,
                    "sample": sample.index,
                    "variant": sample.variant,
                    "arguments": opinfo.shown(sample),
                },
            )

    @property
    def status(self) -> str:
        return max(self.words, key=STATUS.index) if self.words else "no-sample"


def operator(
    accel: Accelerator, op: str, dtype: str = "float32", variant: str = "", samples: int = 6, seed: int = 0
) -> dict[str, float | int | str]:
    """Run ``samples`` sample inputs of the operator on the device and judge them against float64 on the host.

    ``op`` and ``variant`` are names of torch's operator database; a ``dtype`` that the database does not declare for
    the operator gives the status ``no-sample``. Metrics: ``status`` (the worst word over the samples), ``faults``
    (samples whose word is a fault), ``samples``, ``nonfinite``, ``inputs``; ``max_ulp`` and ``rms_ulp`` where numbers
    were compared. Raises BadArguments for an unknown name, RuntimeError for an error that means nothing known or a
    poisoned device.
    """
    kind = torch_dtype(dtype)
    entries = opinfo.find(op, variant)
    pool = [(entry, sample) for entry in entries if kind in entry.dtypes for sample in entry.samples(kind, seed)]
    entry_of = {id(sample): entry for entry, sample in pool}
    chosen = opinfo.choose([sample for _, sample in pool], samples)
    accel.seed(seed)
    tally = _Tally()
    for sample in chosen:
        _one(accel, entry_of[id(sample)], kind, sample, tally)
    accel.note("reproduce", _reproducer(op, dtype, seed, tally))
    faults = sum(word not in NO_FAULT for word in tally.words)
    metrics: dict[str, float | int | str] = {
        "status": tally.status,
        "faults": faults,
        "samples": sum(word == "supported" for word in tally.words),
        "nonfinite": tally.nonfinite,
        "inputs": opinfo.digest(chosen),
    }
    if tally.elements:
        metrics["max_ulp"] = tally.max_ulp
        metrics["rms_ulp"] = (tally.square_sum / tally.elements) ** 0.5
    return metrics


def _one(accel: Accelerator, entry: Operator, dtype: torch.dtype, sample: Sample, tally: _Tally) -> None:
    """Measure one sample and add its word to the tally."""
    import torch

    rule = tolerances.of_operator(entry.name)
    # Attention with dropout is random too, though the operator is not.
    structure_only = entry.name in tolerances.STRUCTURE_ONLY or bool(sample.kwargs.get("dropout_p"))
    try:
        golden = (
            accuracy.twice(lambda: _call(entry, opinfo.cast(sample, dtype, torch.float64)))
            if not structure_only
            else None
        )
    except (RuntimeError, NotImplementedError) as error:
        tally.add("no-golden", f"the host cannot compute it in float64: {error}", sample)
        return
    watch = FallbackWatch(accel.classify, accel.stderr_text)
    try:
        with watch:
            on_device = opinfo.moved(sample, accel.device)
            result = _call(entry, on_device)
            accel.synchronize()
            again = _call(entry, opinfo.moved(sample, accel.device)) if not structure_only else result
            accel.synchronize()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        word = _OF_ERROR.get(accel.classify(error))
        if word is None:
            raise RuntimeError(
                f"{entry.name} ({dtype}), sample {sample.index} [{opinfo.shown(sample)}]: {error}"
            ) from error
        tally.add(word, str(error).splitlines()[0] if str(error) else word, sample)
        return
    warned = watch.texts[0] if watch.texts else _spent(accel, entry, sample)
    if warned:
        tally.add("fallback", warned, sample)
        return
    if golden is None:
        _structure(entry, dtype, sample, result, tally)
        return
    if (
        not all(accuracy.same_bits(a, b) for a, b in zip(result, again, strict=True))
        and entry.name not in tolerances.MAY_VARY
    ):
        tally.add("nondeterministic", "two runs on the same input differ", sample)
        return
    _numbers(entry, dtype, sample, result, golden, rule, tally)


def _numbers(
    entry: Operator,
    dtype: torch.dtype,
    sample: Sample,
    result: list[torch.Tensor],
    golden: list[torch.Tensor],
    rule: tolerances.Tolerance,
    tally: _Tally,
) -> None:
    import torch

    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    with accuracy.one_thread():
        reference = _try(lambda: _call(entry, opinfo.cast(sample, dtype, wide)))
        native = reference if wide == dtype else _try(lambda: _call(entry, opinfo.cast(sample, dtype, dtype)))
        exact = opinfo.cast(sample, dtype, torch.float64)
        scale = magnitudes.of_inputs(entry.name, rule.condition, exact, lambda s: _try(lambda: _call(entry, s)))
    pairs = comparable(entry.name, sample, result, golden, reference, scale)
    if len(result) != len(golden):
        tally.add("wrong", f"{len(result)} results, the host gives {len(golden)}", sample)
        return
    worst = 0.0
    for i, (y, g, r, s) in enumerate(pairs):
        if y.shape != g.shape:
            tally.add("wrong", f"result {i} has shape {list(y.shape)}, the host gives {list(g.shape)}", sample)
            return
        if native is not None and len(native) == len(result) and _narrower(result[i].dtype, native[i].dtype):
            tally.add("wrong", f"result {i} is {result[i].dtype}, the host gives {native[i].dtype}", sample)
            return
        if y.numel() == 0:
            continue
        found = accuracy.compare(y, g, r, rule=rule, magnitude=s)
        tally.nonfinite += found.nonfinite
        tally.max_ulp = max(tally.max_ulp, found.max_ulp)
        tally.square_sum += found.rms_ulp**2 * found.count
        tally.elements += found.count
        worst = max(worst, found.max_ulp)
        if found.word != "supported":
            where = f" (result {i}, element {found.worst})" if found.worst >= 0 else ""
            tally.add(found.word, found.reason + where, sample, found.max_ulp)
            return
    tally.add("supported", "", sample, worst)


def _narrower(dtype: torch.dtype, expected: torch.dtype) -> bool:
    """True where a dtype loses something: a statistic may be kept wider than the host keeps it, but not narrower."""
    if dtype.is_floating_point != expected.is_floating_point or dtype.is_complex != expected.is_complex:
        return True
    return int(dtype.itemsize) < int(expected.itemsize)


def _structure(entry: Operator, dtype: torch.dtype, sample: Sample, result: list[torch.Tensor], tally: _Tally) -> None:
    native = _call(entry, opinfo.cast(sample, dtype, dtype))
    for i, (y, n) in enumerate(zip(result, native, strict=True)):
        if y.shape != n.shape or y.dtype != n.dtype:
            tally.add(
                "wrong", f"result {i} is {y.dtype}{list(y.shape)}, the host gives {n.dtype}{list(n.shape)}", sample
            )
            return
        if entry.name not in tolerances.UNDEFINED_VALUES and bool(n.isfinite().all()) and not bool(y.isfinite().all()):
            tally.nonfinite += int((~y.isfinite()).sum())
            tally.add("nonfinite", f"result {i} holds non-finite random numbers", sample)
            return
    tally.add("supported", "", sample)


def _call(entry: Operator, sample: Sample) -> list[torch.Tensor]:
    """The results of one call as detached tensors; a result that is a plain number becomes a tensor."""
    import torch

    with torch.no_grad():
        out = entry.call(*sample.args, **sample.kwargs)
    if isinstance(out, (bool, int, float, complex)):
        return [torch.tensor(out)]
    return [tensor.detach() for tensor in opinfo.tensors(out)]


def _try(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """A helper result, or None where the host does not offer the operator in that dtype (a RuntimeError in torch)."""
    try:
        return compute()
    except (RuntimeError, NotImplementedError):
        return None


def _spent(accel: Accelerator, entry: Operator, sample: Sample) -> str | None:
    """An earlier fall-back warning of this process that names an operator which this call dispatches."""
    if not fallback.SEEN:
        return None
    return spent(dispatched(lambda: _call(entry, opinfo.moved(sample, accel.device))))


def _reproducer(op: str, dtype: str, seed: int, tally: _Tally) -> dict[str, Any]:
    """The worst sample in words, and plain torch code that calls the operator on the same input."""
    if tally.worst is None:
        return {}
    facts = dict(tally.worst[1])
    facts["code"] = (
        "import torch; from torch.testing._internal.common_methods_invocations import op_db\n"
        f"entry = next(e for e in op_db if e.name == {op!r} and e.variant_test_name == {facts['variant']!r})\n"
        f"samples = entry.sample_inputs('cpu', torch.{dtype}, requires_grad=False)\n"
        f"for index in range({facts['sample'] + 1}):\n"
        f"    torch.manual_seed({opinfo.SEED_BASE} + {seed} * {opinfo.ENOUGH} + index); s = next(samples)\n"
        "print(entry(s.input, *s.args, **s.kwargs))"
    )
    return facts
