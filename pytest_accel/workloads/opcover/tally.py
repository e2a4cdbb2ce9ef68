"""The status words of an operator and what was found over its samples. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads.catalog.shared import STATUS
from pytest_accel.workloads.samples import Sample, shown

#: What may be recorded as a device's present state; any other word but ``supported`` is a fault.
NO_FAULT = frozenset({"supported", "unsupported", "dtype-unsupported", "no-sample", "no-golden"})
OF_ERROR = {
    ErrorKind.UNSUPPORTED: "unsupported",
    ErrorKind.DTYPE_UNSUPPORTED: "dtype-unsupported",
    ErrorKind.FALLBACK: "fallback",
    ErrorKind.OUT_OF_MEMORY: "oom",
}


@dataclass(frozen=True)
class Worst:
    """The sample that decided the status."""

    word: str
    reason: str
    sample: Sample

    @property
    def facts(self) -> dict[str, str | int]:
        """The same as plain data."""
        return {
            "word": self.word,
            "reason": self.reason,
            "sample": self.sample.index,
            "variant": self.sample.variant,
            "arguments": shown(self.sample),
        }


@dataclass
class Tally:
    """Words and errors over the samples of one operator; errors in scaled ULPs."""

    words: list[str] = field(default_factory=list)
    max_ulp: float = 0.0
    square_sum: float = 0.0
    elements: int = 0
    nonfinite: int = 0
    worst: Worst | None = None
    _rank: float = -1.0

    def add(self, word: str, reason: str, sample: Sample, badness: float = 0.0) -> None:
        """Add the word of one sample; ``badness`` orders samples of one word."""
        self.words.append(word)
        rank = STATUS.index(word) * 1e9 + min(badness, 1e8)
        if rank > self._rank:
            self._rank, self.worst = rank, Worst(word, reason, sample)

    @property
    def status(self) -> str:
        """The worst word, ``no-sample`` where there is none."""
        return max(self.words, key=STATUS.index) if self.words else "no-sample"

    def metrics(self) -> dict[str, float | int | str]:
        """The metrics of the workload, but for the digest of its inputs."""
        found: dict[str, float | int | str] = {
            "status": self.status,
            "faults": sum(word not in NO_FAULT for word in self.words),
            "samples": sum(word == "supported" for word in self.words),
            "nonfinite": self.nonfinite,
        }
        if self.elements:
            found["max_ulp"] = self.max_ulp
            found["rms_ulp"] = (self.square_sum / self.elements) ** 0.5
        return found
