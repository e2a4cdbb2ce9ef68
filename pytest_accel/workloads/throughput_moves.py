"""Timed moves: copies on the device, to and from the host, between devices; and the cost of one launch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive
from pytest_accel.workloads.throughput_figures import Metrics, beside, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

IN_GRAPH = 100  # launches that one replay does
TRIPS = 100
LINK_COPIES = 4  # a sample: at 256 MiB a copy some milliseconds, beside which the host's two waits are nothing
LINK_SAMPLES = 7


def copy(accel: Accelerator, megabytes: int, kind: str = "d2d", seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time a copy of ``megabytes`` MiB: ``d2d`` on the device, ``h2d`` from pinned host memory, ``d2h`` to it.

    ``d2d`` counts one read and one write of the buffer, the others the bytes that cross the bus.
    """
    positive(megabytes=megabytes)
    if kind not in ("d2d", "h2d", "d2h"):
        raise BadArguments(f"kind: must be d2d, h2d or d2h, not {kind}")
    source, target = _ends(accel, megabytes, kind, True, seed)

    def run() -> torch.Tensor:
        return target.copy_(source, non_blocking=True)

    correct, cold = _copies(accel, run, source, target)
    moved = float(megabytes * 2**20 * (2 if kind == "d2d" else 1))
    times = accel.time(run, bytes=moved if kind == "d2d" else None, min_time=min_time)
    return figures(accel, run, times, correct, cold=cold, moved=moved, of_roof=kind == "d2d")


def copy_pageable(accel: Accelerator, megabytes: int, kind: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time a copy of ``megabytes`` MiB ``h2d`` or ``d2h`` with ordinary host memory, as most programs have it.

    ``ratio``: its time over that of the same copy with pinned memory.
    """
    positive(megabytes=megabytes)
    if kind not in ("h2d", "d2h"):
        raise BadArguments(f"kind: must be h2d or d2h, not {kind}")
    source, target = _ends(accel, megabytes, kind, False, seed)

    def run() -> torch.Tensor:
        return target.copy_(source)

    correct, cold = _copies(accel, run, source, target)
    times = accel.time(run, min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold, moved=float(megabytes * 2**20), of_roof=False)
    pinned_source, pinned_target = _ends(accel, megabytes, kind, True, seed)
    pinned = beside(accel, lambda: pinned_target.copy_(pinned_source, non_blocking=True), min_time)
    metrics["ratio"] = statistics.median(times) / pinned
    return metrics


def _ends(accel: Accelerator, megabytes: int, kind: str, pinned: bool, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Source and target of a copy."""
    import torch

    count = megabytes * 2**20 // 4
    near = normal((count,), "float32", accel.device, seed)
    if kind == "d2d":
        return near, torch.empty_like(near)
    # Pinning needs an accelerator; on the host's own platform the memory is what it is.
    far = torch.empty(count, dtype=torch.float32, pin_memory=pinned and accel.device.type != "cpu")
    if kind == "d2h":
        return near, far
    far.copy_(near)
    return far, near.clone()


def _copies(
    accel: Accelerator, run: Callable[[], torch.Tensor], source: torch.Tensor, target: torch.Tensor
) -> tuple[bool, float]:
    target.fill_(float("nan"))
    _, cold = accel.first(run)
    return bool((target.to(source.device) == source).all()), cold


def launch(accel: Accelerator, min_time: float = 0.3) -> Metrics:
    """Time the least work there is, adding 1 to one number: what remains is the cost of launching.

    ``time``: on the device, calls queued ahead; ``host_us``: the host's part of one launch; ``round_trip``: a launch and
    the wait for it, by the host's clock (not on a CPU); ``graph``: one launch inside a replayed graph of 100, where there
    are graphs.
    """
    import torch

    x = torch.zeros(1, dtype=torch.int64, device=accel.device)

    def run() -> torch.Tensor:
        return x.add_(1)

    _, cold = accel.first(run)
    times = accel.time(run, min_time=min_time)
    behind = (
        accel.device.type != "cpu"
    )  # where the host is the device, a launch is its work and there is nothing to wait for
    trips = [accel.first(run)[1] for _ in range(TRIPS)] if behind else []
    x.zero_()
    for _ in range(IN_GRAPH):
        run()
    correct = int(x.item()) == IN_GRAPH
    replay = accel.graph(lambda: [run() for _ in range(IN_GRAPH)])
    if replay is not None:
        x.zero_()
        replay()
        correct = correct and int(x.item()) == IN_GRAPH
    metrics = figures(accel, run, times, correct, cold=cold)
    if trips:
        metrics["round_trip"] = statistics.median(trips)
    if replay is not None:
        metrics["graph"] = beside(accel, replay, min_time) / IN_GRAPH
    return metrics


def peer_copy(
    accel: Accelerator, megabytes: int = 256, slow_below: float = 0.5, seed: int = 0
) -> dict[str, float | str | list[float]]:
    """Time copies between every two devices of this kind that the process sees, both ways, one link at a time.

    ``gbps_I_J``: from device I to device J, in GB/s, each a metric of its own, so that a verdict names the link;
    ``time``: microseconds of a copy over the slowest link; ``slow_links``: the links below ``slow_below`` of the median
    link, or of the same link the other way, or ``none``.
    By the host's clock, which waits for both ends: no event belongs to two devices.
    """
    import torch

    positive(megabytes=megabytes)
    devices = accel.devices()
    if len(devices) < 2:
        accel.skip(f"it needs two devices, and this process sees {len(devices)}")
    count = megabytes * 2**20 // 4
    made = torch.Generator().manual_seed(seed)
    pattern = torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, generator=made)
    links: dict[tuple[int, int], list[float]] = {}
    wrong: list[str] = []
    if accel.watch is not None:
        accel.watch.before()
    for i, one in enumerate(devices):
        source = pattern.to(one)
        for j, other in enumerate(devices):
            if i == j:
                continue
            target = torch.zeros(count, dtype=torch.int32, device=other)
            seconds = _link(accel, source, target)
            links[i, j] = [count * 4 / each * 1e-9 for each in seconds]
            if int(target.sum()) != int(source.sum()) or not torch.equal(target[-64:].cpu(), pattern[-64:]):
                wrong.append(f"{i}->{j}")
    if accel.watch is not None:
        accel.watch.after()
    middle = {link: statistics.median(samples) for link, samples in links.items()}
    accel.note("links_gbps", {f"{i}->{j}": round(value, 3) for (i, j), value in middle.items()})
    metrics: dict[str, float | str | list[float]] = {f"gbps_{i}_{j}": samples for (i, j), samples in links.items()}
    slowest = min(middle, key=lambda link: middle[link])
    return {
        **metrics,
        "time": [megabytes * 2**20 / value * 1e-3 for value in links[slowest]],
        "slow_links": slow_links(middle, slow_below),
        "slowest": f"{slowest[0]}->{slowest[1]}",
        "correct": f"no: {', '.join(wrong)}"[:900] if wrong else "yes",
    }


def _link(accel: Accelerator, source: torch.Tensor, target: torch.Tensor) -> list[float]:
    """Seconds of one copy from device to device, one number a sample, after one that sets the link up."""
    samples = []
    for sample in range(LINK_SAMPLES + 1):
        _wait(accel, source, target)
        began = time.perf_counter()
        for _ in range(LINK_COPIES):
            target.copy_(source, non_blocking=True)
        _wait(accel, source, target)
        if sample:
            samples.append((time.perf_counter() - began) / LINK_COPIES)
    return samples


def _wait(accel: Accelerator, *ends: torch.Tensor) -> None:
    import torch

    if accel.device.type == "cpu":
        return
    for end in ends:
        torch.get_device_module(end.device.type).synchronize(end.device.index)


def slow_links(gbps: Mapping[tuple[int, int], float], below: float) -> str:
    """The links slower than a share of the median link, or of their own reverse: ``1->2 at 31 of 380 GB/s``; or ``none``."""
    usual = statistics.median(gbps.values())
    found = []
    for (i, j), value in sorted(gbps.items()):
        against = max(usual, gbps.get((j, i), 0.0))
        if value < below * against:
            found.append(f"{i}->{j} at {value:.3g} of {against:.3g} GB/s")
    return ", ".join(found)[:900] or "none"
