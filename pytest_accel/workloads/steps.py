"""Built-in steps whose memory is measured: forward and backward of attention, conv3d under autocast, a training step.

Each takes the accelerator, a shape and a dtype, and returns the step. torch is imported inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator

Step = Callable[[], object]


def attention(accel: Accelerator, shape: list[int], dtype: str) -> Step:
    """Causal ``scaled_dot_product_attention``, forward and backward: a fused kernel keeps no matrix of scores."""
    from torch.nn import functional

    batch, heads, length, size = _sizes("attention", shape, ("batch", "heads", "sequence", "head size"))
    inputs = [normal((batch, heads, length, size), dtype, accel.device, seed).requires_grad_() for seed in range(3)]

    def step() -> None:
        query, key, value = inputs
        functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()

    return step


def conv3d_autocast(accel: Accelerator, shape: list[int], dtype: str) -> Step:
    """Two Conv3d with kernel 3, weights in float32 under autocast to ``dtype`` (float32: plain), forward and backward."""
    import torch

    names = ("batch", "channels in", "channels out", "depth", "height", "width")
    batch, inner, outer, *space = _sizes("conv3d_autocast", shape, names)
    chain = torch.nn.Sequential(
        torch.nn.Conv3d(inner, outer, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv3d(outer, inner, 3, padding=1)
    ).to(accel.device)
    x = normal((batch, inner, *space), "float32", accel.device, 0)
    half = torch_dtype(dtype)

    def step() -> None:
        with torch.autocast(accel.device.type, half, enabled=half != torch.float32):
            loss = chain(x).float().square().mean()
        loss.backward()
        chain.zero_grad(set_to_none=True)

    return step


def training_step(accel: Accelerator, shape: list[int], dtype: str) -> Step:
    """Forward, backward and AdamW of ``layers`` transformer blocks under autocast to ``dtype``."""
    import torch

    batch, length, width, layers = _sizes("training_step", shape, ("batch", "sequence", "width", "layers"))
    blocks: Any = torch.nn.Sequential(
        *(
            torch.nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
    ).to(accel.device)
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-4)
    x = normal((batch, length, width), "float32", accel.device, 0)
    half = torch_dtype(dtype)

    def step() -> None:
        with torch.autocast(accel.device.type, half, enabled=half != torch.float32):
            loss = blocks(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


STEPS: Mapping[str, Callable[[Accelerator, list[int], str], Step]] = {
    "attention": attention,
    "conv3d_autocast": conv3d_autocast,
    "training_step": training_step,
}


def _sizes(name: str, shape: list[int], names: tuple[str, ...]) -> list[int]:
    if len(shape) != len(names) or any(isinstance(size, bool) or not isinstance(size, int) for size in shape):
        raise BadArguments(f"shape: {name} takes [{', '.join(names)}] as whole numbers, not {shape}")
    positive(**{each.replace(" ", "_"): size for each, size in zip(names, shape, strict=True)})
    return shape
