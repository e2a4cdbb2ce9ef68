"""An operator's replacement on torch's own samples of the operator and on the values that break careless ones, under the file's
precision override. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import magnitudes, opinfo, samples, ties
from pytest_accel.workloads.fused_kernels import find
from pytest_accel.workloads.inputs import torch_dtype
from pytest_accel.workloads.judging import NO_FAULT, Case, Judged, judge
from pytest_accel.workloads.replacement_file import plain_name, read_operator_file
from pytest_accel.workloads.samples import Sample

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.workloads.opinfo import Operator

_ORDER = ("supported", "unverified", "unsupported", "dtype-unsupported", "nondeterministic", "oom", "fallback", "wrong")


def replacement(
    accel: Accelerator, file: str, op: str, dtype: str = "float32", count: int = 6, seed: int = 0
) -> dict[str, float | int | str]:
    """Judge what ``file`` puts in the place of ``op``, on the device, against torch's own operator in float64.

    Inputs are ``count`` samples of torch's operator database in ``dtype``, then values of its precision domain (``STRESS``):
    squares beyond float16, logits of 6e4, sums that cancel, large angles. Under a ``precision_override`` that is wider
    than ``dtype``, floating arguments are cast to it before the call and results back; under a narrower one the inputs
    are rounded to it first and errors count in it: what the rounding itself loses is what the file's author chose.
    Metrics: those of an operator, ``samples`` that are right, and ``stress``, the failures among the values.

    Raises BadArguments where the file does not replace ``op``, or not in ``dtype``, and for an operator that the
    database lacks.
    """
    path = Path(file)
    given = read_operator_file(path)
    name = plain_name(op)
    if name not in given.replace:
        named = ", ".join(sorted(given.replace)) or "none"
        raise BadArguments(f"op: {file} does not replace '{op}'; it replaces {named}")
    entry = given.replace[name]
    if entry.dtypes and dtype not in entry.dtypes:
        raise BadArguments(f"dtype: {file} replaces '{op}' in {', '.join(entry.dtypes)} only, not in {dtype}")
    kind = torch_dtype(dtype)
    override = given.override.get(name)
    function = find(entry.implementation)
    operators = _entries(name)
    pool = [(one, sample) for one in operators if kind in one.dtypes for sample in one.samples(kind, seed)]
    chosen = samples.choose([sample for _, sample in pool], count)
    owner = {id(sample): one for one, sample in pool}
    inside = torch_dtype(override.text) if override else kind
    call = _under(function, kind, inside)

    def judged(one: Operator, sample: Sample) -> Judged:
        if inside.itemsize > kind.itemsize or not kind.is_floating_point:
            return _one(accel, call, one, sample, kind)
        return _one(accel, call, one, samples.cast(sample, kind, inside), inside)

    ordinary = [judged(owner[id(sample)], sample) for sample in chosen]
    hard = [judged(operators[0], sample) for sample in _stress(name, kind)]
    found = [*ordinary, *hard]
    worst = max(found, key=lambda one: (one.status not in NO_FAULT, _rank(one.status)), default=Judged("no-sample"))
    if worst.status != "supported":
        accel.note("found", {"word": worst.status, "reason": worst.reason, "implementation": entry.implementation})
    metrics: dict[str, float | int | str] = {
        "status": worst.status,
        "faults": sum(one.status not in NO_FAULT for one in found),
        "samples": sum(one.status == "supported" for one in ordinary),
        "stress": sum(one.status not in NO_FAULT for one in hard),
        "nonfinite": sum(one.nonfinite for one in found),
    }
    if any(one.compared for one in found):
        metrics["max_ulp"] = max(one.max_ulp for one in found)
        total = sum(one.compared for one in found)
        metrics["rms_ulp"] = (sum(one.rms_ulp**2 * one.compared for one in found) / total) ** 0.5
    return metrics


def _rank(word: str) -> int:
    return _ORDER.index(word) if word in _ORDER else len(_ORDER)


def _entries(name: str) -> list[Operator]:
    """The database's entries of an operator by its plain name: it keeps some under ``nn.functional`` or ``linalg``."""
    for full in (name, f"nn.functional.{name}", f"linalg.{name}"):
        try:
            return opinfo.find(full, "")
        except BadArguments:
            continue
    raise BadArguments(f"op: torch's operator database has no samples of '{name}'; test it as a fused kernel instead")


def _under(
    function: Callable[..., Any], kind: torch.dtype, inside: torch.dtype
) -> Callable[[Sample], list[torch.Tensor]]:
    """The replacement as a wider override runs it: floating arguments cast before, floating results cast back."""
    import torch

    def call(sample: Sample) -> list[torch.Tensor]:
        with torch.no_grad():
            if inside.itemsize <= kind.itemsize or not kind.is_floating_point:
                return samples.tensors(_as_tree(function(*sample.args, **sample.kwargs)))

            def cast(tensor: torch.Tensor) -> torch.Tensor:
                return tensor.to(inside) if tensor.is_floating_point() else tensor

            device = next((t.device for t in samples.tensors(sample.args)), torch.device("cpu"))
            args = samples.mapped(sample.args, cast, {kind: inside}, device)
            kwargs = samples.mapped(sample.kwargs, cast, {kind: inside}, device)
            results = samples.tensors(_as_tree(function(*args, **kwargs)))
        return [y.to(kind) if y.is_floating_point() else y for y in results]

    return call


def _as_tree(out: Any) -> Any:
    import torch

    return torch.tensor(out) if isinstance(out, (bool, int, float, complex)) else out


def _one(
    accel: Accelerator,
    call: Callable[[Sample], list[torch.Tensor]],
    entry: Operator,
    sample: Sample,
    kind: torch.dtype,
) -> Judged:
    import torch

    name = entry.name
    rule = tolerances.of_operator(name)
    place, default = ties.PLACES.get(name, (-1, None))

    def values(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Places (of a sort, say) as the values that stand there: a tie may be broken either way."""
        return [
            ties.values_at(name, sample, y.cpu(), default) if i == place and not y.is_floating_point() else y
            for i, y in enumerate(results)
        ]

    def theirs(where: Sample) -> list[torch.Tensor]:
        with torch.no_grad():
            return samples.tensors(_as_tree(entry.call(*where.args, **where.kwargs)))

    def compute(to: torch.dtype) -> list[torch.Tensor]:
        found = values(theirs(samples.cast(sample, kind, to)))
        return [y.to(to) if y.is_floating_point() else y for y in found]

    def size() -> Sequence[torch.Tensor | None]:
        exact = samples.cast(sample, kind, torch.float64)
        count = len(compute(torch.float64))
        found = magnitudes.of_inputs(name, rule.condition, exact, lambda s: theirs(s))
        return list(found) if found is not None and len(found) == count else [None] * count

    random = name in tolerances.STRUCTURE_ONLY
    case = Case(
        lambda: values(call(samples.moved(sample, accel.device))),
        None if random else compute,
        rule,
        size,
        vary=random or accel.may_vary(name),
    )
    try:
        found = judge(accel, case)
    except RuntimeError as error:
        # A replacement that raises where torch's own operator does not is no replacement.
        return Judged("wrong", f"[{samples.shown(sample)}]: {error}")
    if found.status in ("supported", "unverified"):
        return found
    return replace(found, reason=f"[{samples.shown(sample)}]: {found.reason}")


def _stress(name: str, kind: torch.dtype) -> list[Sample]:
    """The values of ``STRESS`` for the operator, in ``kind``; none where it is not a floating dtype."""
    if not kind.is_floating_point or kind.itemsize < 2:
        return []
    made = STRESS.get(name, lambda _: [])(kind)
    return [Sample(-1 - place, "", args, kwargs) for place, (args, kwargs) in enumerate(made)]


Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def _full(value: float) -> Callable[..., torch.Tensor]:
    def make(kind: torch.dtype, *size: int) -> torch.Tensor:
        import torch

        return torch.full(size, value, dtype=kind)

    return make


def _signs(kind: torch.dtype, size: float, *shape: int) -> torch.Tensor:
    """``size`` and ``-size`` in turn along the last dimension."""
    import torch

    sign = 1 - 2 * (torch.arange(shape[-1]) % 2)
    return (sign * size).to(kind).expand(shape).contiguous()


def _cancelling(kind: torch.dtype) -> Calls:
    """A product whose partial sums pass float16's range and whose result is zero."""
    import torch

    half = torch.full((4, 2048), 200.0, dtype=kind)
    return [((torch.cat((half, -half), 1), torch.full((4096, 4), 200.0, dtype=kind)), {})]


def _angles(kind: torch.dtype) -> Calls:
    import torch

    return [((torch.tensor([1e2, 1e3, 1e4, 3e4, 6e4], dtype=kind),), {})]


STRESS: Mapping[str, Callable[[Any], Calls]] = {
    "softmax": lambda kind: [((_full(6e4)(kind, 4, 2), -1), {}), ((_signs(kind, 6e4, 4, 8), -1), {})],
    "log_softmax": lambda kind: [((_full(6e4)(kind, 4, 2), -1), {})],
    "logsumexp": lambda kind: [((_full(3e4)(kind, 4, 2), -1), {})],
    "rms_norm": lambda kind: [((_full(300.0)(kind, 4, 4096), (4096,)), {}), ((_signs(kind, 6e4, 4, 512), (512,)), {})],
    "layer_norm": lambda kind: [((_signs(kind, 300.0, 4, 4096), (4096,)), {})],
    "mean": lambda kind: [((_full(1.0)(kind, 70000),), {}), ((_full(6e4)(kind, 64),), {})],
    "vector_norm": lambda kind: [((_full(300.0)(kind, 4096),), {})],
    "mm": _cancelling,
    "matmul": _cancelling,
    "silu": lambda kind: [((_signs(kind, 6e4, 8),), {}), ((_signs(kind, 20.0, 8),), {})],
    "gelu": lambda kind: [((_signs(kind, 6e4, 8),), {}), ((_signs(kind, 300.0, 8),), {})],
    "sigmoid": lambda kind: [((_signs(kind, 6e4, 8),), {})],
    "tanh": lambda kind: [((_signs(kind, 6e4, 8),), {})],
    "softplus": lambda kind: [((_signs(kind, 6e4, 8),), {})],
    "cos": _angles,
    "sin": _angles,
}
