"""Our device timer beside ``triton.testing.do_bench`` on one device, and our copy beside the best copy there is.

1. Work of at least 20 us: the medians of both timers, measured in turn over several rounds, must agree within 1 %.
2. The throughput suite's copy must reach 95 % of the best copy of any size or way that this script times.
3. A profile must name kernels, and must not change the timings after it by more than 1 %.

Run on an accelerator with triton: ``python benchmarks/timer_agreement.py [rounds]``. Prints a table; exits 1 where one of the
three does not hold, 2 where it cannot be run.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.measure.clock import Clock, Plan
from pytest_accel.measure.kernels import UNSEEN
from pytest_accel.stack.choose import choose
from pytest_accel.stack.host import Host
from pytest_accel.stack.loaded import loaded_stack
from pytest_accel.stack.registry import platform
from pytest_accel.workloads.throughput_moves import copy

AGREE, REACHED, LEAST_US = 0.01, 0.95, 20.0
COPY_MIB, SIZES_MIB = 1024, (64, 256, 1024, 4096)  # the suite's size; what is tried for the best
MIN_TIME = 0.5  # seconds a timing, ours and (by its arguments) theirs


def accelerator() -> Accelerator:
    """The first accelerator of this machine. Exits where there is none."""
    machine = choose("auto", Host(), None)
    if machine.platform == "cpu" or machine.unfit is not None:
        print(f"no accelerator to measure on: {machine.unfit or machine.why}")
        sys.exit(2)
    found = platform(machine.platform)
    probe = machine.probe
    part = {"hardware": probe.hardware, "settings": probe.settings, "versions": probe.versions}
    host, device = Host(), probe.devices[0]
    return Accelerator(found, 0, loaded_stack(found, 0, part), watch=lambda: found.telemetry(host, device))


def work(device: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Work of many kinds and lengths, from about 20 us to some milliseconds."""
    import torch
    from torch.nn import functional

    def made(*shape: int, kind: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=kind)

    for size in (1536, 2048, 4096, 8192):
        a, b = made(size, size), made(size, size)
        yield f"gemm {size} bfloat16", lambda a=a, b=b: a @ b
    a, b = made(2048, 2048, kind=torch.float32), made(2048, 2048, kind=torch.float32)
    yield "gemm 2048 float32", lambda: a @ b
    for rows in (2048, 16384):
        x = made(rows, 8192)
        yield f"rms_norm {rows} x 8192", lambda x=x: functional.rms_norm(x, (8192,))
    y = made(8192, 8192, kind=torch.float32)
    yield "softmax 8192 x 8192 float32", lambda: y.softmax(-1)
    q, k = made(4, 32, 2048, 128), made(4, 32, 2048, 128)
    yield "attention 4 x 32 x 2048", lambda: functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    s, keys = made(32, 32, 1, 128), made(32, 8, 8192, 128)
    yield (
        "attention decode 32 x 8192",
        lambda: functional.scaled_dot_product_attention(s, keys, keys, enable_gqa=True),
    )
    z = made(2**24, kind=torch.float32)
    yield "add 64 MiB", lambda: z + z


def theirs(fn: Callable[[], object]) -> float:
    """The median of ``do_bench`` in microseconds, warmed up and repeated for as long as ours."""
    from triton.testing import do_bench

    return float(do_bench(fn, warmup=int(MIN_TIME * 1e3), rep=int(MIN_TIME * 1e3), return_mode="median")) * 1e3


def ours(accel: Accelerator, fn: Callable[[], object], pauses: bool) -> float:
    """Our median in microseconds. ``do_bench`` takes no pauses, and power-bound work is slower without them: so we compare
    timers without, and show beside it what the gate measures."""
    if pauses:
        return statistics.median(accel.time(fn, min_time=MIN_TIME))
    flush = accel.flusher()
    clock = Clock(accel.event, accel.synchronize, flush, hold=flush)
    plan = Plan(min_time=MIN_TIME, max_samples=10_000, pause=0.0, warm_least=MIN_TIME)
    return statistics.median(clock.sample(fn, plan))


def in_turn(accel: Accelerator, fn: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Medians of the rounds of ours without pauses, of theirs, and of ours with, measured in turn."""
    ways = [partial(ours, accel, fn, False), partial(theirs, fn), partial(ours, accel, fn, True)]
    found: list[list[float]] = [[], [], []]
    for turn in range(rounds):
        for number in (range(3), range(2, -1, -1))[turn % 2]:
            found[number].append(ways[number]())
    left, right, gate = map(statistics.median, found)
    return left, right, gate


def copies(accel: Accelerator, rounds: int) -> bool:
    """True where the suite's copy reaches its share of the best copy that ``do_bench`` sees here."""
    import torch

    best, name = 0.0, ""
    for megabytes in SIZES_MIB:
        source = torch.randn(megabytes * 2**18, device=accel.device)
        target = torch.empty_like(source)
        ways: dict[str, Callable[[], object]] = {"copy_": partial(target.copy_, source), "clone": source.clone}
        for way, fn in ways.items():
            reached = max(2 * megabytes * 2**20 / theirs(fn) * 1e-3 for _ in range(rounds))
            if reached > best:
                best, name = reached, f"{way} of {megabytes} MiB"
        del source, target, ways, fn
    suite = float(copy(accel, COPY_MIB)["gbps"])  # type: ignore[arg-type]
    well = suite >= REACHED * best
    print(
        f"copy of {COPY_MIB} MiB, ours: {suite:.0f} GB/s; best: {best:.0f} GB/s ({name}); {suite / best:.1%}{flag(well)}"
    )
    return well


def profiled(accel: Accelerator, rounds: int) -> bool:
    """True where kernels are named, and work takes as long after they were asked for as before."""
    well = True
    for name, fn in work(accel.device):
        if name not in ("gemm 1536 bfloat16", "rms_norm 2048 x 8192"):
            continue
        before = statistics.median(ours(accel, fn, True) for _ in range(rounds))
        names = accel.kernels(fn)
        after = statistics.median(ours(accel, fn, True) for _ in range(rounds))
        good = abs(after / before - 1) <= AGREE and names != UNSEEN
        well &= good
        print(f"{name}: {before:.2f} us before a profile, {after:.2f} us after ({after / before - 1:+.2%}){flag(good)}")
        print(f"  {names}")
    return well


def flag(well: bool) -> str:
    """What marks a row that does not hold."""
    return "" if well else "  <-- NO"


def main() -> None:
    """Print the table and exit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    try:
        import triton
    except ImportError:
        print("triton cannot be imported here: there is nothing to compare with")
        sys.exit(2)
    accel = accelerator()
    print(f"{accel.stack.hardware.get('name')}; torch {accel.stack.versions.get('torch')}; triton {triton.__version__}")
    print(f"{'work':<30}{'ours, us':>12}{'do_bench, us':>14}{'difference':>12}{'in bursts, us':>15}")
    well, compared = True, 0
    for name, fn in work(accel.device):
        left, right, gate = in_turn(accel, fn, rounds)
        counted = right >= LEAST_US
        good = not counted or abs(left / right - 1) <= AGREE
        compared += counted
        well &= good
        short = "" if counted else "  (too short to count)"
        print(f"{name:<30}{left:>12.2f}{right:>14.2f}{left / right - 1:>12.2%}{gate:>15.2f}{short}{flag(good)}")
    well &= compared >= 8
    well &= copies(accel, rounds)
    well &= profiled(accel, rounds)
    print("all hold" if well else "NOT all hold")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
