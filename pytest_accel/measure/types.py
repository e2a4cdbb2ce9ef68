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


class BadArguments(Exception):
    """The workload refuses its arguments (CONFIG at that item): the message says what and how to mend."""
