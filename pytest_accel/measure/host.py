"""What the host spends: launching work, and the first call of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
CALLS = 8  # at once, so that a launch finds an empty queue behind it and never a full one
ROUNDS = 5
LONG = 2e4  # microseconds: slower calls are launched fewer at a time


def launch_us(fn: Callable[[], object], synchronize: Callable[[], None], call_us: float) -> float:
    """Microseconds that the host takes to launch one call of ``fn``, whose device work takes ``call_us``.

    The device is idle before each of 5 rounds, and up to 8 calls are queued without waiting: the median of the rounds. A
    call that waits for the device itself takes as long as the work.
    """
    calls = max(1, min(CALLS, int(LONG / max(call_us, 1.0))))
    rounds = []
    for _ in range(ROUNDS):
        synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            fn()
        rounds.append((time.perf_counter() - began) / calls)
    synchronize()
    return statistics.median(rounds) * 1e6


def first_call(fn: Callable[[], T], synchronize: Callable[[], None]) -> tuple[T, float]:
    """What ``fn`` returns and the microseconds until its work was finished, by the host's clock."""
    synchronize()
    began = time.perf_counter()
    returned = fn()
    synchronize()
    return returned, (time.perf_counter() - began) * 1e6
