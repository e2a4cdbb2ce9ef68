"""One check of the self-test, and what came of it. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["fault", "benign"]


@dataclass(frozen=True)
class Check:
    """A shipped workload with one change put into what the device computes.

    ``injection`` names the change (``selftest.injections.INJECTIONS``); "" changes nothing but the params: ``altered`` laid
    over ``params``. ``kind``: a fault must be REGRESSION, a benign variation must not. ``needs`` maps metrics of the
    unchanged measurement to the words without which the fault cannot show here (a device that flushes subnormals by
    itself cannot be made to begin). ``slow``: takes minutes. ``blind`` says that this very measurement must miss the fault.
    """

    name: str
    says: str
    workload: str
    params: Mapping[str, Any]
    injection: str = ""
    altered: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "fault"
    needs: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    blind: bool = False
    timeout: float = 900.0


@dataclass(frozen=True)
class Outcome:
    """What the gate said of one check.

    ``word``: ``caught``, ``MISSED``, ``passed``, ``FALSE ALARM``, ``blind, as said``, ``not here`` (with the reason), or
    ``FAILED`` where it could not be measured. ``alone``: the verdict of the limits, without a baseline; ``verdict``: with
    the device's own unchanged results as the baseline. ``reason``: the gate's sentence.
    """

    name: str
    kind: str
    says: str
    workload: str
    word: str
    verdict: str = ""
    alone: str = ""
    reason: str = ""
    seconds: float = 0.0

    @property
    def fine(self) -> bool:
        """True where the gate did what it should."""
        return self.word in ("caught", "passed", "blind, as said", "not here")
