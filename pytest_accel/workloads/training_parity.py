"""Mixed-precision training beside float32 training from one seed on one device. torch is imported inside."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

VOCABULARY = 64
NOISE = 0.1  # part of the tokens that follow no rule, so that the loss has a floor above 0
SMOOTH = 20  # steps over which a loss curve is averaged before it is compared
LONG = 6000
WINDOWS = {"gap_0_1000": (0, 1000), "gap_1000_5000": (1000, 5000), "gap_later": (5000, 10**9)}
GRADIENT_EVERY = 10


@dataclass
class _Run:
    """One training run: losses by step, gradient norms at every tenth step, the scale after each step."""

    losses: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    skipped: int = 0
    times: list[float] = field(default_factory=list)


def training_parity(
    accel: Accelerator,
    dtype: str = "float16",
    steps: int = 300,
    width: int = 64,
    layers: int = 2,
    batch: int = 8,
    length: int = 32,
    init_scale: float = 16384.0,
    growth_interval: int = 100,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Train a toy transformer for ``steps`` steps under autocast, and again in float32 from the same seed and data.

    ``dtype`` float16 trains with ``torch.amp.GradScaler``, bfloat16 without. ``init_scale`` is below what overflows in the
    first steps, since one step skipped there moves the whole curve (1.8e-3 nats from 65536, against 1e-5 without). The data
    are sequences whose next token is a fixed permutation of the last one in nine cases of ten. Metrics:
    ``first_loss_gap`` (relative, before any step),
    ``loss_gap`` (mean distance of the loss curves, averaged over 20 steps), ``final_loss``, ``final_gap``,
    ``gradient_gap`` (mean relative distance of gradient norms), ``skipped``, ``skipped_share``, ``final_scale``,
    ``lowest_scale``, ``learnt``, ``steps_to_target`` (to half of the first loss; ``steps`` + 1 where never).
    With 6,000 steps and more also ``gap_0_1000``, ``gap_1000_5000``, ``gap_later`` and ``gap_growth`` (later less middle):
    a divergence was once seen to begin after step 5,000, to which a shorter run is blind, and says so in the notes.
    """
    positive(steps=steps, width=width, layers=layers, batch=batch, length=length, growth_interval=growth_interval)
    if dtype not in ("float16", "bfloat16"):
        raise BadArguments(f"dtype: must be float16 or bfloat16, not {dtype}")
    if width % 16:
        raise BadArguments(f"width: must be a multiple of 16, not {width}")
    if steps < LONG:
        accel.note("blind", f"{steps} steps: blind to a divergence that begins after step 5,000; tier full runs {LONG}")
    shape = (steps, width, layers, batch, length)
    scaling = (init_scale, growth_interval) if dtype == "float16" else None
    mixed = _train(accel, shape, seed, torch_dtype(dtype), scaling)
    plain = _train(accel, shape, seed, None, None)
    return _metrics(accel, mixed, plain, steps)


def _train(
    accel: Accelerator,
    shape: tuple[int, int, int, int, int],
    seed: int,
    low: torch.dtype | None,
    scaling: tuple[float, int] | None,
) -> _Run:
    import torch

    steps, width, layers, batch, length = shape
    model = _model(width, layers, length, seed).to(accel.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
    scaler = torch.amp.GradScaler(
        accel.device.type,
        enabled=scaling is not None,
        init_scale=scaling[0] if scaling else 1.0,
        growth_interval=scaling[1] if scaling else 1,
    )
    data = _data(steps, batch, length, seed)
    run, losses, gradients = _Run(), [], []
    begin = time.perf_counter()
    for step in range(steps):
        tokens = data[step].to(accel.device)
        optimizer.zero_grad()
        with torch.autocast(accel.device.type, dtype=low or torch.bfloat16, enabled=low is not None):
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if step % GRADIENT_EVERY == 0:
            gradients.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm())
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        scale = scaler.get_scale()
        run.skipped += scale < before
        run.scales.append(scale)
        losses.append(loss.detach())
        if step % SMOOTH == 0:
            accel.synchronize()
        run.times.append(time.perf_counter() - begin)
    run.losses = torch.stack(losses).double().cpu().tolist()
    run.gradients = torch.stack(gradients).double().cpu().tolist()
    return run


def _data(steps: int, batch: int, length: int, seed: int) -> torch.Tensor:
    """Token sequences ``[steps, batch, length + 1]``; at most 1,000 different batches, gone through in turn."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    follow = torch.randperm(VOCABULARY, generator=generator)
    count = min(steps, 1000)
    tokens = torch.empty(count, batch, length + 1, dtype=torch.long)
    tokens[..., 0] = torch.randint(0, VOCABULARY, (count, batch), generator=generator)
    noise = torch.rand(count, batch, length + 1, generator=generator) < NOISE
    stray = torch.randint(0, VOCABULARY, (count, batch, length + 1), generator=generator)
    for place in range(1, length + 1):
        tokens[..., place] = torch.where(noise[..., place], stray[..., place], follow[tokens[..., place - 1]])
    return tokens[torch.arange(steps) % count]


def _model(width: int, layers: int, length: int, seed: int) -> Any:
    """A decoder of ``layers`` blocks: layer norm, causal attention of heads of 16, GELU; weights from ``seed``, on the CPU."""
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = self.qkv(self.first(x)).unflatten(-1, (3, width // 16, 16)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    class Decoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(VOCABULARY, width)
            self.place = nn.Parameter(torch.zeros(length, width))
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.token(tokens) + self.place
            for block in self.blocks:
                x = block(x)
            found: torch.Tensor = self.head(self.norm(x))
            return found

    state = torch.random.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        return Decoder()
    finally:
        torch.random.set_rng_state(state)


def _metrics(accel: Accelerator, mixed: _Run, plain: _Run, steps: int) -> dict[str, float | int | str]:
    curve, reference = _smooth(mixed.losses), _smooth(plain.losses)
    gaps = [abs(a - b) for a, b in zip(curve, reference, strict=True)]
    tail = max(1, steps // 10)
    pairs = [(a, b) for a, b in zip(mixed.gradients, plain.gradients, strict=True) if math.isfinite(a)]
    target = plain.losses[0] / 2
    reached, reached_plain = _reached(curve, target), _reached(reference, target)
    metrics: dict[str, float | int | str] = {
        "nonfinite": sum(not math.isfinite(value) for value in mixed.losses),
        "skipped": mixed.skipped,
        "skipped_share": mixed.skipped / steps,
        "final_scale": mixed.scales[-1],
        "lowest_scale": min(mixed.scales),
        "first_loss_gap": abs(mixed.losses[0] - plain.losses[0]) / plain.losses[0],
        "final_loss": _mean(mixed.losses[-tail:]),
        "final_loss_float32": _mean(plain.losses[-tail:]),
        "loss_gap": _mean(gaps),
        "final_gap": abs(_mean(mixed.losses[-tail:]) - _mean(plain.losses[-tail:])),
        "gradient_gap": _mean([abs(a - b) / b for a, b in pairs]) if pairs else math.inf,
        "learnt": "yes" if _mean(mixed.losses[-tail:]) < 0.5 * mixed.losses[0] else "no",
        "steps_to_target": reached,
        "seconds_to_target": mixed.times[min(reached, steps) - 1],
        "seconds_to_target_float32": plain.times[min(reached_plain, steps) - 1],
    }
    if steps >= LONG:
        for name, (low, high) in WINDOWS.items():
            metrics[name] = _mean(gaps[low:high])
        metrics["gap_growth"] = float(metrics["gap_later"]) - float(metrics["gap_1000_5000"])
    every = max(1, steps // 50)
    accel.note("losses", [round(value, 4) if math.isfinite(value) else str(value) for value in curve[::every]])
    accel.note("losses_float32", [round(value, 4) for value in reference[::every]])
    changes = [[i, s] for i, s in enumerate(mixed.scales) if i == 0 or s != mixed.scales[i - 1]]
    accel.note("scale_changes", changes[:50])
    return metrics


def _smooth(values: list[float]) -> list[float]:
    """The mean of each step's last 20 values."""
    found = []
    for i in range(len(values)):
        found.append(_mean(values[max(0, i - SMOOTH + 1) : i + 1]))
    return found


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.inf


def _reached(curve: list[float], target: float) -> int:
    return next((i + 1 for i, value in enumerate(curve) if value <= target), len(curve) + 1)
