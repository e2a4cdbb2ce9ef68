"""Timed training: one optimiser step, a whole step of a small decoder with and without AMP, a LoRA step."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.decoder import Linear, Size, Weights, angles, hidden_states, weights
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.throughput_figures import Metrics, agrees, beside, figures

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

RATE, DECAY, EPS_ADAM = 1e-3, 1e-2, 1e-8
STEPS = 4  # on one batch: a right step makes the loss fall
LOSS_CLOSE, NORM_CLOSE = 0.01, 0.02  # of float32's; measured on the CPU, bfloat16: at most 0.0003 and 0.0004


def optimizer_step(
    accel: Accelerator,
    tensors: int,
    elements: int,
    form: str,
    dtype: str = "float32",
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time AdamW's step over ``tensors`` parameters of ``elements`` numbers each.

    ``form``: ``loop`` (a launch for each operation on each tensor), ``foreach`` or ``fused``; for the last two ``ratio`` is
    the time over the loop's. The first step is held against AdamW's own formula (Loshchilov and Hutter, 2019).
    """
    import torch

    positive(tensors=tensors, elements=elements)
    if form not in ("loop", "foreach", "fused"):
        raise BadArguments(f"form: must be loop, foreach or fused, not {form}")
    start = [normal((elements,), dtype, accel.device, seed + index) for index in range(tensors)]
    grads = [normal((elements,), dtype, accel.device, seed + tensors + index) for index in range(tensors)]

    def stepper(kind: str) -> tuple[list[torch.Tensor], Callable[[], object]]:
        held = [one.clone().requires_grad_() for one in start]
        for one, grad in zip(held, grads, strict=True):
            one.grad = grad
        optimizer = torch.optim.AdamW(
            held, lr=RATE, weight_decay=DECAY, eps=EPS_ADAM, foreach=kind == "foreach", fused=kind == "fused"
        )
        return held, optimizer.step

    def golden() -> torch.Tensor:
        # Of the first step: both moments, corrected for their bias, are the gradient and its square.
        grad = grads[-1].cpu().double()
        return start[-1].cpu().double() * (1 - RATE * DECAY) - RATE * grad / (grad.abs() + EPS_ADAM) - start[-1].cpu()

    held, run = stepper(form)
    _, cold = accel.first(run)
    # The change, not the parameter: a step that did nothing would be right to 0.1 %.
    correct = agrees(held[-1].detach().double() - start[-1].double(), golden, dtype)
    times = accel.time(run, min_time=min_time)
    # Parameter, gradient and two moments are read, all but the gradient written.
    moved = 7.0 * tensors * elements * start[0].element_size()
    metrics = figures(accel, run, times, correct, cold=cold, moved=moved)
    if form != "loop":
        metrics["ratio"] = statistics.median(times) / beside(accel, stepper("loop")[1], min_time)
    return metrics


def training_step(
    accel: Accelerator,
    batch: int,
    length: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    amp: str = "",
    min_time: float = 0.3,
) -> Metrics:
    """Time forward, backward and AdamW of a small float32 decoder on ``[batch, length]`` tokens.

    ``amp``: ``bfloat16`` or ``float16`` (with a gradient scaler) under autocast, ``ratio`` then being the time over that of
    the plain step; loss and gradient norm must be near the plain step's. The loss must fall on a repeated batch.
    """
    import torch

    size = Size(layers, hidden, heads, kv_heads, ffn, vocab)
    positive(batch=batch, length=length)
    if amp not in ("", "bfloat16", "float16"):
        raise BadArguments(f"amp: must be bfloat16, float16 or empty, not {amp}")
    start = weights(size, "float32", accel.device)
    task = _Task(accel, size, batch, length)

    def trainer(kind: str) -> tuple[Callable[[], torch.Tensor], Weights]:
        held = {name: one.clone().requires_grad_() for name, one in start.items()}
        optimizer = torch.optim.AdamW(held.values(), lr=RATE)
        scaler = torch.amp.GradScaler(accel.device.type, init_scale=1024.0, enabled=kind == "float16")

        def step() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            cast = torch.autocast(accel.device.type, torch_dtype(kind)) if kind else contextlib.nullcontext()
            with cast:
                loss = task.loss(held)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return step, held

    run, held = trainer(amp)
    plain, plain_held = trainer("")
    first, cold = accel.first(run)
    loss, norm = float(first), _norm(held)
    correct = math.isfinite(loss) and math.isfinite(norm) and norm > 0
    if amp:
        usual, usual_norm = float(plain()), _norm(plain_held)
        correct = (
            correct and abs(loss - usual) <= LOSS_CLOSE * usual and abs(norm - usual_norm) <= NORM_CLOSE * usual_norm
        )
    correct = correct and float([run() for _ in range(STEPS)][-1]) < loss
    # Backward does every product of the forward pass twice; attention: two products, half of the pairs.
    flops = 3.0 * batch * length * (size.matrix_flops() + 2.0 * layers * hidden * length)
    times = accel.time(run, flops=flops, dtype=amp or "float32", min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold, flops=flops, dtype=amp or "float32")
    metrics["tokens_per_s"] = batch * length / statistics.median(times) * 1e6
    if amp:
        metrics["ratio"] = statistics.median(times) / beside(accel, plain, min_time)
    return metrics


def lora_step(
    accel: Accelerator,
    batch: int,
    length: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    dtype: str,
    rank: int = 16,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time a training step of low-rank adapters on the query and value products of a small frozen decoder in ``dtype``.

    The adapters are float32 and start as nothing (Hu and others, 2021): the first loss must be the bare model's exactly, and
    the loss must fall on a repeated batch.
    """
    import torch

    size = Size(layers, hidden, heads, kv_heads, ffn, vocab)
    positive(batch=batch, length=length, rank=rank)
    held = weights(size, dtype, accel.device)
    task = _Task(accel, size, batch, length, dtype)
    kind = torch_dtype(dtype)
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for place, (name, (rows, columns)) in enumerate(size.shapes()):
        if name.endswith((".q", ".v")):
            down = normal((rows, rank), "float32", accel.device, seed + place, scale=rows**-0.5).requires_grad_()
            pairs[name] = down, torch.zeros(rank, columns, device=accel.device).requires_grad_()

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        plain = x @ held[name]
        if name not in pairs:
            return plain
        down, up = pairs[name]
        return plain + 2.0 * ((x @ down.to(kind)) @ up.to(kind))

    optimizer = torch.optim.AdamW([one for pair in pairs.values() for one in pair], lr=RATE)

    def run() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = task.loss(held, linear)
        loss.backward()
        optimizer.step()
        return loss.detach()

    with torch.no_grad():
        bare = float(task.loss(held))
    loss, cold = accel.first(run)
    correct = float(loss) == bare and float([run() for _ in range(STEPS)][-1]) < bare
    times = accel.time(run, min_time=min_time)
    metrics = figures(accel, run, times, correct, cold=cold)
    metrics["tokens_per_s"] = batch * length / statistics.median(times) * 1e6
    return metrics


class _Task:
    """Predict random tokens from random tokens: something whose loss falls when it is learnt by heart."""

    def __init__(self, accel: Accelerator, size: Size, batch: int, length: int, dtype: str = "float32") -> None:
        import torch

        made = torch.Generator().manual_seed(1)
        self._size = size
        self._tokens, self._targets = (
            torch.randint(size.vocab, (batch, length), generator=made).to(accel.device) for _ in range(2)
        )
        self._cos, self._sin = angles(size, length, dtype, accel.device)

    def loss(self, held: Weights, linear: Linear | None = None) -> torch.Tensor:
        """The mean cross-entropy over all positions."""
        from torch.nn import functional

        states = hidden_states(self._size, held, self._tokens, self._cos, self._sin, linear=linear)
        logits = (states @ held["lm_head"]).float()
        return functional.cross_entropy(logits.flatten(0, 1), self._targets.flatten())


def _norm(held: Weights) -> float:
    return math.sqrt(sum(float(one.grad.double().square().sum()) for one in held.values() if one.grad is not None))
