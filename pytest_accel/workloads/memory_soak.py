"""The leak soak: requests of changing length for a declared time, and whether memory grows with them.

torch is imported inside. MB are 1e6 bytes. What the numbers mean: ``measure.soak``.
"""

from __future__ import annotations

import math
import random
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import host_memory
from pytest_accel.measure.soak import Growth, growth
from pytest_accel.measure.types import BadArguments, TooNoisy, Unmeasured
from pytest_accel.workloads.inputs import normal
from pytest_accel.workloads.memory import MB, Metrics, cap_bytes, clear, fragmentation, own_step, shares, usable_bytes

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator

LENGTHS = (16, 512, 64, 384, 128, 256, 32)
SAMPLES = 400
LARGE_BLOCK = 2 * 2**20  # what the caching allocators of torch take at least, and return at most
SERIES = {"allocated": "", "reserved": "reserved_", "host": "host_"}


def _row() -> array[float]:
    return array("d", bytes(8 * (SAMPLES + 2)))


@dataclass
class Tape:
    """What was seen: seconds and requests since the soak began, bytes by series; ``steps``: what a series grows by at a time.

    Its memory is taken ahead: a tape that grew would be found by its own soak.
    """

    steps: dict[str, float]
    seconds: array[float] = field(default_factory=_row)
    requests: array[float] = field(default_factory=_row)
    bytes: dict[str, array[float]] = field(default_factory=dict)
    count: int = 0

    def add(self, seconds: float, requests: int, held: dict[str, float]) -> None:
        """Book one sample."""
        at = self.count
        self.seconds[at], self.requests[at] = seconds, requests
        for name, value in held.items():
            self.bytes[name][at] = value
        self.count = at + 1


def memory_soak(
    accel: Accelerator,
    implementation: str = "transformer",
    minutes: float = 1.0,
    requests: int = 0,
    lengths: list[int] | None = None,
    floor: float = 60.0,
    must_see: float = 300.0,
    cap: str = "",
    seed: int = 0,
) -> Metrics:
    """Serve requests of changing length for ``minutes``, or ``requests`` of them, and judge whether memory grows.

    ``implementation``: ``transformer``, or ``package.module:function``, which gets the accelerator, prepares everything
    (also a cache that is allocated ahead) and returns ``step(length)``. Each of ``lengths`` is served once, the longest
    first, before the soak begins. ``floor``: MB an hour below which growth is none; ``must_see``: what the soak must
    be able to see (0: nothing), else it is INCONCLUSIVE. ``cap`` is a size: time to out of memory counts to it, else to the
    usable total.
    """
    chosen = list(lengths or LENGTHS)
    _check(minutes, requests, chosen, floor, must_see)
    limit = cap_bytes(cap) if cap else usable_bytes(accel)
    accel.seed(seed)
    step = _step(accel, implementation, max(chosen))
    for length in sorted(set(chosen), reverse=True):
        step(length)
    clear(accel)
    accel.reset_peak_memory()
    tape, duration = _serve(accel, step, chosen, minutes, requests, seed)
    grown = {
        name: growth(
            tape.seconds[: tape.count],
            tape.requests[: tape.count],
            held[: tape.count],
            floor=floor,
            step=tape.steps[name],
        )
        for name, held in tape.bytes.items()
    }
    metrics = _levels(accel, tape, cap)
    for name, found in grown.items():
        if found is None:
            raise TooNoisy(f"{tape.count} samples in {duration:.3g} s are too few for a slope; serve more requests")
        metrics.update(_told(name, found))
    _require_sight(grown, floor, must_see, duration)
    _say_time_to_oom(accel, metrics, grown, tape, limit)
    return metrics


def _check(minutes: float, requests: int, lengths: list[int], floor: float, must_see: float) -> None:
    if requests < 0 or (requests == 0 and not 0 < minutes < math.inf):
        raise BadArguments("give `minutes` above 0, or `requests` above 0")
    if any(isinstance(length, bool) or not isinstance(length, int) or length < 1 for length in lengths):
        raise BadArguments(f"lengths: must be whole numbers from 1, not {lengths}")
    if not 0 <= floor < math.inf or not 0 <= must_see < math.inf or 0 < must_see <= floor:
        raise BadArguments(f"floor {floor:g} and must_see {must_see:g}: MB an hour, the floor below what must be seen")


def _step(accel: Accelerator, implementation: str, longest: int) -> Callable[[int], object]:
    step: Any = _transformer(accel, longest) if implementation == "transformer" else own_step(implementation)(accel)
    if not callable(step):
        raise BadArguments(
            f"implementation: {implementation} returned {type(step).__name__}; it must return step(length), a function"
        )
    return step  # type: ignore[no-any-return]


def _transformer(accel: Accelerator, longest: int, width: int = 256, heads: int = 4) -> Callable[[int], object]:
    """One block of attention and two linear layers over ``length`` tokens, with a cache of keys allocated ahead."""
    import torch
    from torch.nn import functional

    into, out = (normal((width, width), "float32", accel.device, seed, width**-0.5) for seed in (1, 2))
    tokens = normal((longest, width), "float32", accel.device, 3)
    cache = torch.zeros(64, longest, width, device=accel.device)
    served = 0

    def step(length: int) -> None:
        nonlocal served
        with torch.no_grad():
            x = tokens[:length] @ into
            cache[served % len(cache), :length] = x
            split = x.view(1, length, heads, width // heads).transpose(1, 2)
            mixed = functional.scaled_dot_product_attention(split, split, split, is_causal=True)
            functional.gelu(mixed.transpose(1, 2).reshape(length, width) @ out)
        served += 1

    return step


def _serve(
    accel: Accelerator, step: Callable[[int], object], lengths: list[int], minutes: float, requests: int, seed: int
) -> tuple[Tape, float]:
    """Serve until the declared end; a sample at about ``SAMPLES`` moments, each after a request has ended."""
    tape, draw = Tape(_steps(accel)), random.Random(seed)
    tape.bytes = {name: _row() for name in tape.steps}
    end = minutes * 60.0
    done, due = 0, 0.0
    began = time.perf_counter()
    while True:
        step(draw.choice(lengths))
        done += 1
        passed = time.perf_counter() - began
        progress = done / requests if requests else passed / end
        if progress >= due:
            accel.synchronize()
            _sample(accel, tape, time.perf_counter() - began, done)
            due = progress + 1.0 / SAMPLES
        if progress >= 1.0:
            return tape, passed


def _steps(accel: Accelerator) -> dict[str, float]:
    """The series that can be kept here, with the bytes that each grows by at a time."""
    live = host_memory.live_bytes() is not None
    if accel.memory():
        return {"allocated": 512.0, "reserved": float(LARGE_BLOCK), **({"host": 1.0} if live else {})}
    if host_memory.committed_bytes() is None:
        raise Unmeasured("this system does not tell a process's memory (/proc/self/status)")
    committed = float(host_memory.COMMIT_STEP)
    return {"allocated": 1.0, "reserved": committed} if live else {"allocated": committed}


def _sample(accel: Accelerator, tape: Tape, passed: float, done: int) -> None:
    seen = accel.memory()
    live = host_memory.live_bytes()
    committed = host_memory.committed_bytes() if not seen else None
    now = {
        "allocated": seen["allocated"] if seen else live if live is not None else committed,
        "reserved": seen["reserved"] if seen else committed,
        "host": live,
    }
    held = {name: float(value) for name, value in now.items() if name in tape.bytes and value is not None}
    if len(held) < len(tape.bytes):
        raise Unmeasured("this system no longer tells this process's memory")
    tape.add(passed, done, held)


def _told(name: str, found: Growth) -> Metrics:
    """A series' metrics: its leak (0 where there is none beyond the floor), its slope, and what could have been seen."""
    before = SERIES[name]
    return {
        "leak" if name == "allocated" else f"leak_{name}": found.slope if found.leaking else 0.0,
        f"{before}slope": found.slope,
        f"{before}slope_low": found.low,
        f"{before}slope_high": found.high,
        f"{before}smallest": found.smallest,
        f"{before}per_1000": found.per_1000,
        f"{before}per_1000_low": found.per_1000_low,
        f"{before}per_1000_high": found.per_1000_high,
    }


def _levels(accel: Accelerator, tape: Tape, cap: str) -> Metrics:
    """Peaks, shares and fragmentation over the soak."""
    metrics: Metrics = {"requests": tape.requests[tape.count - 1]}
    seen = accel.memory()
    if seen:
        metrics["peak_allocated"] = seen["peak_allocated"] / MB
        metrics["peak_reserved"] = seen["peak_reserved"] / MB
        metrics["fragmentation"] = fragmentation(seen["allocated"], seen["reserved"])
        return {**metrics, **shares(accel, float(seen["peak_reserved"]), cap)}
    live, held = host_memory.live_bytes(), host_memory.held_bytes()
    if live is not None and held:
        metrics["fragmentation"] = fragmentation(live, held)
    resident = host_memory.resident_bytes()
    return {**metrics, **(shares(accel, float(resident), cap) if resident else {})}


def _require_sight(grown: dict[str, Growth | None], floor: float, must_see: float, duration: float) -> None:
    """Raise TooNoisy where nothing leaks and the soak could not have seen what it must."""
    found = grown["allocated"]
    leaks = any(each is not None and each.leaking for each in grown.values())
    if found is None or leaks or must_see <= 0 or found.smallest <= must_see:
        return
    times = (found.smallest - floor) / (must_see - floor)
    raise TooNoisy(
        f"no leak, but the smallest that this soak could have seen is {found.smallest:.4g} MB/h, and it must see "
        f"{must_see:g}: give it about {max(duration * times / 60, 0.1):.2g} minutes"
    )


def _say_time_to_oom(
    accel: Accelerator, metrics: Metrics, grown: dict[str, Growth | None], tape: Tape, limit: int | None
) -> None:
    """Add ``hours_to_oom`` where memory leaks and the limit is known, and a note that says it in words."""
    leaking = {name: g for name, g in grown.items() if g is not None and g.leaking and name != "host"}
    if not leaking:
        return
    name, found = max(leaking.items(), key=lambda pair: pair[1].slope)
    words = (
        f"{name} memory grows by {found.slope:.4g} MB/h ({found.low:.4g} to {found.high:.4g}), "
        f"{found.per_1000:.4g} MB per 1,000 requests"
    )
    if limit is not None:
        hours = max(limit - tape.bytes[name][tape.count - 1], 0.0) / MB / found.slope
        metrics["hours_to_oom"] = hours
        words += f": out of memory in {hours:.3g} h"
    accel.note("leak", words)
