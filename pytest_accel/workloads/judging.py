"""One call on the device, judged: does it run there, twice with equal bits, and is it right? torch is imported inside.

For workloads that bring their own inputs and their own plain formula (the operator database has its own way).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import accuracy, fallback
from pytest_accel.measure.fallback import FallbackWatch
from pytest_accel.stack.types import ErrorKind

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.measure.tolerances import Tolerance

    Tensors = list[torch.Tensor]
    Magnitudes = Sequence[torch.Tensor | None]

#: What may be recorded as a device's present state; any other word but ``supported`` is a fault.
NO_FAULT = frozenset({"supported", "unverified", "unsupported", "dtype-unsupported"})
OF_ERROR = {
    ErrorKind.UNSUPPORTED: "unsupported",
    ErrorKind.DTYPE_UNSUPPORTED: "dtype-unsupported",
    ErrorKind.FALLBACK: "fallback",
    ErrorKind.OUT_OF_MEMORY: "oom",
}
#: torch's own words for "this kernel does not take such inputs", which no platform's list has.
REFUSED = re.compile(
    r"No viable backend|No available kernel|only supported (?:on|for|with|when)|only (?:allowed|available) on|"
    r"(?:does not|doesn't|do not|not) support(?:ed)?\b|\bunsupported\b|requires? compute capability|"
    r"invalid (?:scaling )?configuration|to be divisible by|(?:must be|is) (?:a multiple of|divisible by)|this torch has no ",
    re.IGNORECASE,
)
REFUSALS = (RuntimeError, NotImplementedError, ValueError, TypeError)


class HostCannot(Exception):
    """``compute`` says why the host has no golden result; the call is then ``unverified``."""


@dataclass(frozen=True)
class Case:
    """What is judged.

    ``run`` gives the results on the device (called twice); ``compute`` the same by the plain formula on the host, in
    the float dtype that it is given (float64 is the golden result). ``magnitude`` gives S of the accuracy rule for each
    result, where the rule wants one. ``native`` takes the formula in the result's own dtype as the reference, each step
    rounded, for kernels that lawfully round between steps; else the reference is float32. ``vary`` allows two runs to
    differ in bits. Without ``compute`` nothing says what is right: a call that runs is ``unverified``.
    """

    run: Callable[[], Tensors]
    compute: Callable[[torch.dtype], Tensors] | None
    rule: Tolerance
    magnitude: Callable[[], Magnitudes] | None = None
    native: bool = False
    vary: bool = False


@dataclass(frozen=True)
class Judged:
    """The word of ``STATUS`` (or ``unverified``), why, and the errors in scaled ULPs (0 where none were compared)."""

    status: str
    reason: str = ""
    nonfinite: int = 0
    max_ulp: float = 0.0
    rms_ulp: float = 0.0
    compared: int = 0

    def metrics(self) -> dict[str, float | int | str]:
        """The metrics that every workload of this kind returns."""
        found: dict[str, float | int | str] = {
            "status": self.status,
            "faults": int(self.status not in NO_FAULT),
            "nonfinite": self.nonfinite,
        }
        if self.compared:
            found |= {"max_ulp": self.max_ulp, "rms_ulp": self.rms_ulp}
        return found


def judge(accel: Accelerator, case: Case) -> Judged:
    """Run ``case`` on the device and judge it. Raises RuntimeError for an error that means nothing known."""
    watch = FallbackWatch(accel.classify, accel.stderr_text)
    try:
        with watch:
            first = case.run()
            accel.synchronize()
            second = case.run()
            accel.synchronize()
    except REFUSALS as error:
        return Judged(word_of(accel, error), _first_line(error))
    warned = watch.texts[0] if watch.texts else _spent(case.run)
    if warned:
        return Judged("fallback", warned)
    nonfinite = sum(int((~_readable(y).isfinite()).sum()) for y in first if y.is_floating_point())
    if not case.vary and not all(
        accuracy.same_bits(_readable(a), _readable(b)) for a, b in zip(first, second, strict=True)
    ):
        return Judged("nondeterministic", "two runs on the same input differ", nonfinite)
    if case.compute is None:
        return Judged("unverified", "nothing here says what would be right", nonfinite)
    try:
        return _numbers(first, case)
    except HostCannot as error:
        return Judged("unverified", str(error), nonfinite)


def offered(module: Any, *names: str) -> Any:
    """The first of ``names`` that ``module`` has. Raises NotImplementedError, which reads as ``unsupported``, for none."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    raise NotImplementedError(f"this torch has no {module.__name__}.{names[0]}")


def word_of(accel: Accelerator, error: BaseException) -> str:
    """The word that an error means. Raises RuntimeError from it where it means nothing known."""
    word = OF_ERROR.get(accel.classify(error))
    if word is None and REFUSED.search(str(error)) and accel.classify(error) != ErrorKind.POISONED:
        word = "unsupported"
    if word is None:
        raise RuntimeError(_first_line(error)) from error
    return word


def _readable(y: torch.Tensor) -> torch.Tensor:
    """Eight-bit floats as float32: few operators take them as they are."""
    return y.float() if y.is_floating_point() and y.element_size() == 1 else y


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _spent(run: Callable[[], object]) -> str | None:
    return fallback.spent(fallback.dispatched(run)) if fallback.SEEN else None


def _numbers(results: Tensors, case: Case) -> Judged:
    import torch

    compute = case.compute
    assert compute is not None
    golden = accuracy.twice(lambda: compute(torch.float64))
    if len(golden) != len(results):
        return Judged("wrong", f"{len(results)} results, the formula gives {len(golden)}")
    with accuracy.one_thread():
        references = _references(compute, results, case.native)
        magnitudes = list(case.magnitude()) if case.magnitude else [None] * len(golden)
    worst = Judged("supported")
    squares = 0.0
    for i, (y, g, r, s) in enumerate(zip(results, golden, references, magnitudes, strict=True)):
        if y.shape != g.shape:
            return Judged("wrong", f"result {i} has shape {list(y.shape)}, the formula gives {list(g.shape)}")
        if y.numel() == 0:
            continue
        if y.is_floating_point() and y.element_size() == 1:  # a rounding to eight bits has one right result
            y, g, r, s = y.float(), g.to(y.dtype).double(), None, None
        found = accuracy.compare(y, g, r, rule=case.rule, magnitude=s)
        squares += found.rms_ulp**2 * found.count
        word, reason = worst.status, worst.reason
        if found.word != "supported" and word == "supported":
            word = found.word
            reason = f"{found.reason} (result {i}, element {found.worst})"
        worst = Judged(
            word,
            reason,
            worst.nonfinite + found.nonfinite,
            max(worst.max_ulp, found.max_ulp),
            0.0,
            worst.compared + found.count,
        )
    rms = (squares / worst.compared) ** 0.5 if worst.compared else 0.0
    return Judged(worst.status, worst.reason, worst.nonfinite, worst.max_ulp, rms, worst.compared)


def _references(
    compute: Callable[[torch.dtype], Tensors], results: Tensors, native: bool
) -> Sequence[torch.Tensor | None]:
    """The formula's results in another dtype than float64, or None where the host has no such kernel for a step."""
    import torch

    floats = [y.dtype for y in results if y.is_floating_point()]
    if not floats:
        return [None] * len(results)
    dtype = floats[0] if native or floats[0] == torch.float64 else torch.float32
    try:
        return compute(dtype)
    except (RuntimeError, NotImplementedError, HostCannot):
        return [None] * len(results)


def note_fault(accel: Accelerator, found: Judged, **facts: Any) -> None:
    """Keep why a case is not ``supported``, with ``facts`` (JSON values) that make it again."""
    if found.status != "supported":
        accel.note("found", {"word": found.status, "reason": found.reason, **facts})
