"""What a workload may say besides its metrics."""

from __future__ import annotations


class Unfit(Exception):
    """The machine is unfit to judge (ENV): throttled, shared, a clock that cannot be true, … ``code`` is stable."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Unmeasured(Exception):
    """The workload cannot be measured here, and says so itself (UNMEASURED, reported as skipped)."""


class TooNoisy(Exception):
    """It was measured, and too coarsely to judge (INCONCLUSIVE): the message says what would be needed."""


class BadArguments(Exception):
    """The workload refuses its arguments (CONFIG at that item): the message says what and how to mend."""


class RanOnHost(RuntimeError):
    """Work that was meant for the device was done by the host (the fault ``fallback``); the text names the operator."""
