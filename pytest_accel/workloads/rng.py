"""Random numbers of the device: moments, edges, and one seed, one stream. torch is imported inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import FLOATS, positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

#: A right generator passes 6 standard errors in all but 2e-9 of the tests.
SIGMAS = 6.0
DISTRIBUTIONS = ("uniform", "normal", "bernoulli", "randint", "exponential", "dropout", "randperm")


def random_numbers(
    accel: Accelerator, distribution: str = "normal", dtype: str = "float32", count: int = 262144, seed: int = 0
) -> dict[str, float | int | str]:
    """Draw ``count`` numbers on the device: moments, range, independence of neighbours, and repetition from one seed.

    Metrics: ``worst_sigma``, the largest deviation of mean, variance, third and fourth moment and of the correlation of
    neighbours from the distribution's own, in standard errors; ``out_of_range``; ``same_seed`` (``equal`` where one seed
    gives the same bits again), ``other_seed`` and ``next_draw`` (``differs``), ``state`` (``restored`` where a saved state
    continues the stream). A changed stream (another algorithm after an upgrade) is no fault and shown by ``stream``.
    """
    positive(count=count)
    if distribution not in DISTRIBUTIONS or dtype not in FLOATS:
        raise BadArguments(f"distribution: one of {', '.join(DISTRIBUTIONS)}; dtype: of {', '.join(FLOATS)}")
    import torch

    draw, mean, variance, moments, low, high = _distribution(distribution, torch_dtype(dtype), count, accel.device)
    accel.seed(seed)
    first, second = draw().cpu(), draw().cpu()
    accel.seed(seed)
    again = draw().cpu()
    accel.seed(seed + 1)
    other = draw().cpu()
    values = first.double()
    outside = int(((values < low) | (values > high) | values.isnan()).sum())
    # A 16-bit number is rounded when it is made, which moves moments by up to two of its steps, whatever the count.
    rounded = first.element_size() == 2 and distribution in ("uniform", "normal", "exponential")
    step = float(torch.finfo(first.dtype).eps) if rounded else 0.0
    sigma = _worst(values, mean, variance, moments, 2 * step)
    weights = torch.arange(1, 65, dtype=torch.float64)
    return {
        "worst_sigma": sigma,
        "out_of_range": outside,
        "same_seed": "equal" if torch.equal(first, again) else "differs",
        "other_seed": "differs" if not torch.equal(first, other) else "equal",
        "next_draw": "differs" if not torch.equal(first, second) else "equal",
        "state": _state(accel, draw, seed),
        "stream": f"{float((values[:64] * weights[: len(values[:64])]).sum()):.6g}",
    }


def _distribution(
    name: str, kind: torch.dtype, count: int, device: torch.device
) -> tuple[Callable[[], torch.Tensor], float, float, tuple[float, float], float, float]:
    """A draw; its mean, variance, third and fourth standardised moment; its range."""
    import torch

    inf = math.inf
    n = count
    made: dict[str, tuple[Callable[[], torch.Tensor], float, float, tuple[float, float], float, float]] = {
        "uniform": (lambda: torch.rand(n, dtype=kind, device=device), 0.5, 1 / 12, (0.0, 1.8), 0.0, 1.0),
        "normal": (lambda: torch.randn(n, dtype=kind, device=device), 0.0, 1.0, (0.0, 3.0), -inf, inf),
        "exponential": (
            lambda: torch.empty(n, dtype=kind, device=device).exponential_(),
            1.0,
            1.0,
            (2.0, 9.0),
            0.0,
            inf,
        ),
        "bernoulli": (
            lambda: torch.full((n,), 0.25, dtype=kind, device=device).bernoulli(),
            0.25,
            0.1875,
            ((1 - 0.5) / math.sqrt(0.1875), 3 + (1 - 6 * 0.1875) / 0.1875),
            0.0,
            1.0,
        ),
        "randint": (
            lambda: torch.randint(0, 16, (n,), device=device).to(kind),
            7.5,
            255 / 12,
            (0.0, 3 - 1.2 * 257 / 255),
            0.0,
            15.0,
        ),
        "dropout": (
            lambda: torch.nn.functional.dropout(torch.ones(n, dtype=kind, device=device), 0.5),
            1.0,
            1.0,
            (0.0, 1.0),
            0.0,
            2.0,
        ),
        "randperm": (
            lambda: torch.randperm(n, device=device).cpu().double(),
            (n - 1) / 2,
            (n * n - 1) / 12,
            (0.0, 1.8),
            0.0,
            float(n - 1),
        ),
    }
    return made[name]


def _worst(values: torch.Tensor, mean: float, variance: float, moments: tuple[float, float], slack: float) -> float:
    """The largest deviation in standard errors beyond ``slack``; standard errors come from the sample itself."""
    n = len(values)
    z = (values - mean) / math.sqrt(variance)
    statistics = [(z, 0.0), (z.square(), 1.0), (z**3, moments[0]), (z**4, moments[1]), (z[1:] * z[:-1], 0.0)]
    worst = 0.0
    for sample, expected in statistics:
        error = float(sample.std()) / math.sqrt(n)
        difference = max(abs(float(sample.mean()) - expected) - slack, 0.0)
        worst = max(worst, difference / error if error else (0.0 if difference < 1e-9 else math.inf))
    return worst


def _state(accel: Accelerator, draw: Callable[[], torch.Tensor], seed: int) -> str:
    """``restored`` where a saved state of the device's generator gives the same numbers again."""
    import torch

    accel.seed(seed)
    if accel.device.type == "cpu":
        state = torch.get_rng_state()
        first = draw().cpu()
        torch.set_rng_state(state)
    else:
        module = torch.get_device_module(accel.device.type)
        if not hasattr(module, "get_rng_state"):
            return "none"
        state = module.get_rng_state(accel.device)
        first = draw().cpu()
        module.set_rng_state(state, accel.device)
    return "restored" if torch.equal(first, draw().cpu()) else "lost"
