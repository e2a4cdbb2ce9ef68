"""One call, forward and backward, on the device against float64 on the host; many such, gathered into metrics.

Inputs are rounded to the dtype first, so that the golden result has the same question to answer. torch is imported inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import accuracy, fallback
from pytest_accel.measure.fallback import FallbackWatch
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads.catalog.shared import STATUS

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Tensors = Sequence[torch.Tensor]

_OF_ERROR = {
    ErrorKind.UNSUPPORTED: "unsupported",
    ErrorKind.DTYPE_UNSUPPORTED: "dtype-unsupported",
    ErrorKind.FALLBACK: "fallback",
    ErrorKind.OUT_OF_MEMORY: "oom",
}
NO_FAULT = frozenset(("supported", "unsupported", "dtype-unsupported"))
#: torch's and cuDNN's words where a kernel of attention was asked for that cannot serve.
NO_KERNEL = ("No viable backend", "No available kernel", "No valid execution plans")
KEPT = 16  # host's results that are kept for the next variant: one mask's domains, judged on several back ends in turn


@dataclass(frozen=True)
class Probe:
    """One call to judge.

    ``group`` is the metric that it counts under, ``name`` says what it is. ``call(*inputs)`` runs on the device in the
    inputs' dtype and on the host in float64 (``golden`` where the host computes it otherwise). ``inputs`` are CPU
    tensors, rounded to the dtype; ``wrt`` the places of those whose gradients are judged. ``scale(*inputs)`` and
    ``grad_scale(cotangent, *inputs)`` give S of the result and of each gradient from float64 inputs (None: none).
    ``rows`` selects what is judged of a result. ``may_vary``: gradients may differ between two runs by contract.
    ``same_host_work``: two probes of one such name want the same of the host, which is then computed once.
    ``independent``: how many errors are independent, where one rounding moves a whole row (None: every element).
    """

    group: str
    name: str
    call: Callable[..., torch.Tensor]
    inputs: Tensors
    rule: Tolerance
    wrt: tuple[int, ...] = ()
    grad_rule: Tolerance | None = None
    scale: Callable[..., torch.Tensor] | None = None
    grad_scale: Callable[..., Sequence[torch.Tensor | None]] | None = None
    golden: Callable[..., torch.Tensor] | None = None
    rows: Callable[[torch.Tensor], torch.Tensor] | None = None
    cotangent: torch.Tensor | None = None
    may_vary: bool = True
    independent: int | None = None
    same_host_work: str = ""
    seed: int = 0


@dataclass
class _Errors:
    """Errors of many results, in scaled ULPs."""

    max_ulp: float = 0.0
    square_sum: float = 0.0
    signed_sum: float = 0.0
    count: int = 0

    def add(self, found: accuracy.Accuracy) -> None:
        self.max_ulp = max(self.max_ulp, found.max_ulp)
        self.square_sum += found.rms_ulp**2 * found.count
        self.signed_sum += found.bias * found.count
        self.count += found.count

    @property
    def rms_ulp(self) -> float:
        return math.sqrt(self.square_sum / self.count) if self.count else 0.0

    @property
    def bias(self) -> float:
        return self.signed_sum / self.count if self.count else 0.0


@dataclass
class Card:
    """What was found over many probes, as metrics: ``status_GROUP``, faults, errors forward and backward, repeats."""

    accel: Accelerator
    words: dict[str, list[str]] = field(default_factory=dict)
    forward: _Errors = field(default_factory=_Errors)
    backward: _Errors = field(default_factory=_Errors)
    nonfinite: int = 0
    cosine: float = 1.0
    max_relative: float = 0.0
    repeats: str = "equal"
    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, probe: Probe) -> None:
        """Run one probe on the device and keep what came of it."""
        word, reason = self._judge(probe)
        self.words.setdefault(probe.group, []).append(word)
        if word != "supported":
            self.found.append({"word": word, "reason": reason, "probe": f"{probe.group}: {probe.name}"})

    def say(self, group: str, name: str, word: str, reason: str = "") -> None:
        """Keep a word that was found otherwise than by comparing numbers."""
        self.words.setdefault(group, []).append(word)
        if word != "supported":
            self.found.append({"word": word, "reason": reason, "probe": f"{group}: {name}"})

    def metrics(self) -> dict[str, float | int | str]:
        """Metrics of all probes; what was wrong, worst first, goes into the notes."""
        self.found.sort(key=lambda item: -STATUS.index(item["word"]))
        self.accel.note("found", self.found[:20])
        every = [word for words in self.words.values() for word in words]
        metrics: dict[str, float | int | str] = {
            f"status_{group}": max(words, key=STATUS.index) for group, words in self.words.items()
        }
        metrics |= {
            "faults": sum(word not in NO_FAULT for word in every),
            "judged": sum(word == "supported" for word in every),
            "nonfinite": self.nonfinite,
            "repeats": self.repeats,
        }
        if self.forward.count:
            metrics |= {
                "max_ulp": self.forward.max_ulp,
                "rms_ulp": self.forward.rms_ulp,
                "bias": abs(self.forward.bias),
                "cosine": self.cosine,
                "max_relative": self.max_relative,
            }
        if self.backward.count:
            metrics |= {"grad_max_ulp": self.backward.max_ulp, "grad_rms_ulp": self.backward.rms_ulp}
        return metrics

    def _judge(self, probe: Probe) -> tuple[str, str]:
        host = _host_work(probe)
        cotangent = host.cotangent
        try:
            watch = FallbackWatch(self.accel.classify, self.accel.stderr_text)
            with watch:
                result = _on_device(self.accel, probe, cotangent)
                again = _on_device(self.accel, probe, cotangent)
        except (RuntimeError, NotImplementedError) as error:
            word = _OF_ERROR.get(self.accel.classify(error)) or (
                "unsupported" if any(words in str(error) for words in NO_KERNEL) else None
            )
            if word is None:
                raise RuntimeError(f"{probe.group}, {probe.name}: {error}") from error
            return word, (str(error).splitlines() or [word])[0][:200]
        if watch.texts:
            return "fallback", watch.texts[0]
        if fallback.SEEN:
            spent = fallback.spent(fallback.dispatched(lambda: _on_device(self.accel, probe, cotangent)))
            if spent:
                return "fallback", spent
        if not all(accuracy.same_bits(a, b) for a, b in zip(result, again, strict=True)):
            self.repeats = "differ"
            if not probe.may_vary or not accuracy.same_bits(result[0], again[0]):
                return "nondeterministic", "two runs on the same input differ"
        return self._compare(probe, host, result)

    def _compare(self, probe: Probe, host: _HostWork, result: Tensors) -> tuple[str, str]:
        worst = ("supported", "")
        for i, (y, g, r, s) in enumerate(zip(result, host.golden, host.reference, host.scales, strict=True)):
            what = "result" if i == 0 else f"gradient of input {probe.wrt[i - 1]}"
            if y.shape != g.shape or y.dtype != probe.inputs[0].dtype:
                return "wrong", f"{what} is {y.dtype}{list(y.shape)}, expected {probe.inputs[0].dtype}{list(g.shape)}"
            y = y.cpu()
            if probe.rows is not None and i == 0:
                y, g, r = probe.rows(y), probe.rows(g), probe.rows(r)
                s = probe.rows(s) if s is not None else None
            if y.numel() == 0:
                continue
            rule = probe.rule if i == 0 else probe.grad_rule or probe.rule
            accuracies = accuracy.compare(y, g, r, rule=rule, magnitude=s, independent=probe.independent)
            (self.forward if i == 0 else self.backward).add(accuracies)
            self.nonfinite += accuracies.nonfinite + accuracies.saturated
            if i == 0:
                cosine, relative = accuracy.for_readers(y, g)
                self.cosine, self.max_relative = min(self.cosine, cosine), max(self.max_relative, relative)
            leans = accuracy.leaning(y, g, r, rule=rule, magnitude=s, independent=probe.independent)
            if leans and accuracies.word == "supported":
                accuracies = replace(accuracies, word="wrong", reason=leans)
            if STATUS.index(accuracies.word) > STATUS.index(worst[0]):
                worst = accuracies.word, f"{what}: {accuracies.reason} (element {accuracies.worst})"
        return worst


@dataclass(frozen=True)
class _HostWork:
    """What the host computes for a probe: golden results, another right implementation's, and S."""

    cotangent: torch.Tensor | None
    golden: Tensors
    reference: Tensors
    scales: Sequence[torch.Tensor | None]


_HOST_WORK: dict[str, _HostWork] = {}


def _host_work(probe: Probe) -> _HostWork:
    known = _HOST_WORK.get(probe.same_host_work)
    if known is not None:
        return known
    cotangent = _cotangent(probe)
    golden = accuracy.twice(lambda: _wide(probe, cotangent))
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in probe.inputs]
    with accuracy.one_thread():
        reference = _reference(probe, cotangent)
        scales: list[torch.Tensor | None] = [probe.scale(*wide) if probe.scale else None]
        if probe.wrt:
            scales += list(probe.grad_scale(cotangent, *wide) if probe.grad_scale else [None] * len(probe.wrt))
    made = _HostWork(cotangent, golden, reference, scales)
    if probe.same_host_work:
        while len(_HOST_WORK) >= KEPT:
            del _HOST_WORK[next(iter(_HOST_WORK))]
        _HOST_WORK[probe.same_host_work] = made
    return made


def _cotangent(probe: Probe) -> torch.Tensor | None:
    """What gradients are taken of: normal numbers rounded to the dtype, in float64; None where none are wanted."""
    import torch

    if not probe.wrt:
        return None
    if probe.cotangent is not None:
        return probe.cotangent.double()
    with torch.no_grad():
        shape = (probe.golden or probe.call)(*[t.double() if t.is_floating_point() else t for t in probe.inputs]).shape
    generator = torch.Generator().manual_seed(probe.seed + 1000)
    return torch.randn(shape, generator=generator).to(probe.inputs[0].dtype).double()


def _grads(
    call: Callable[..., torch.Tensor], inputs: Tensors, wrt: tuple[int, ...], cotangent: torch.Tensor | None
) -> list[torch.Tensor]:
    import torch

    if cotangent is None:
        with torch.no_grad():
            return [call(*inputs).detach()]
    leaves = [tensor.detach().requires_grad_(i in wrt) for i, tensor in enumerate(inputs)]
    out = call(*leaves)
    grads = torch.autograd.grad(out, [leaves[i] for i in wrt], cotangent.to(out.dtype).to(out.device))
    return [out.detach(), *(grad.detach() for grad in grads)]


def _wide(probe: Probe, cotangent: torch.Tensor | None) -> list[torch.Tensor]:
    inputs = [tensor.double() if tensor.is_floating_point() else tensor for tensor in probe.inputs]
    return _grads(probe.golden or probe.call, inputs, probe.wrt, cotangent)


def _reference(probe: Probe, cotangent: torch.Tensor | None) -> list[torch.Tensor]:
    """The host's result in float32 from the rounded inputs, rounded to their dtype once."""
    import torch

    inputs = [tensor.float() if tensor.is_floating_point() else tensor for tensor in probe.inputs]
    found = _grads(probe.golden or probe.call, inputs, probe.wrt, cotangent)
    kind = probe.inputs[0].dtype
    return [tensor.to(kind) if kind != torch.float64 else tensor.double() for tensor in found]


def _on_device(accel: Accelerator, probe: Probe, cotangent: torch.Tensor | None) -> list[torch.Tensor]:
    found = _grads(probe.call, [tensor.to(accel.device) for tensor in probe.inputs], probe.wrt, cotangent)
    accel.synchronize()
    return found
