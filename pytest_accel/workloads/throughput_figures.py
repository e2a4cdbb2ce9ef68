"""What every timed workload returns beside its samples: whether its result is right, rates, the host's share, the kernels."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_accel.measure.accuracy import one_thread
from pytest_accel.workloads.inputs import torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

Metrics = dict[str, "float | str | Sequence[float]"]
#: Roundoffs of the dtype: a correct kernel's relative error in norm is below one (a decoder of 8 layers: 1.5), a wrong
#: one's near 1/u.
ROUGH = 8.0
CHECK_ROWS = 8


def agrees(result: torch.Tensor, golden: Callable[[], torch.Tensor], dtype: str) -> bool:
    """True where the result is finite and within some roundoffs of float64 in relative norm (TF32's for float32)."""
    import torch

    y = result.detach().cpu().double()
    with one_thread():
        g = golden()
    u = max(torch.finfo(torch_dtype(dtype)).eps, 2.0**-10)
    return bool(y.isfinite().all()) and bool((y - g).norm() <= ROUGH * u * g.norm())


def figures(
    accel: Accelerator,
    run: Callable[[], object],
    times: list[float],
    correct: bool,
    *,
    cold: float | None = None,
    flops: float = 0.0,
    moved: float = 0.0,
    dtype: str = "",
    of_roof: bool = True,
    named: bool = True,
) -> Metrics:
    """The metrics of a timed workload; called after its timing, since it calls ``run`` some times more.

    ``cold``: microseconds of the first call; ``flops`` and ``moved`` (bytes) are the work of one call in ``dtype``;
    ``roof_share`` is the larger of the two shares, only where a roof is known; ``host_us`` only where the device works
    behind the host's back. ``named`` False: the kernels are not asked for.
    """
    us = statistics.median(times)
    metrics: Metrics = {"time": times, "correct": "yes" if correct else "no"}
    if cold is not None:
        metrics["cold"] = cold
    shares = []
    if flops:
        metrics["tflops"] = flops / us * 1e-6
        roof = accel.roof_tflops(dtype)
        shares += [flops / us * 1e-6 / roof] if roof else []
    if moved:
        metrics["gbps"] = moved / us * 1e-3
        if of_roof and accel.roof is not None and accel.roof.gbps:
            shares.append(moved / us * 1e-3 / accel.roof.gbps)
    if shares:
        metrics["roof_share"] = max(shares)
    launch = accel.launch_us(run, us)
    if launch is not None:
        metrics["host_us"] = launch
    if named:
        metrics["kernels"] = accel.kernels(run)
    return metrics


def beside(accel: Accelerator, run: Callable[[], object], min_time: float) -> float:
    """The median time in microseconds of other work in the same session, for a ratio."""
    return statistics.median(accel.time(run, min_time=min_time / 2, min_samples=7, max_time=2.0))
