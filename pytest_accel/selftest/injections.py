"""Changes to what the device computes, put between torch and its kernels: faults, and variations that are none.

Each is an operator by operator change of results on the device under test, in 16 bits where the device is the host, so that
golden results and references, which are computed on the host in wider types, stay as they are. torch is imported inside.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Change = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

PRODUCTS = frozenset(("mm", "addmm", "bmm", "matmul", "linear", "baddbmm"))
DROPPED = 16
CHUNK = 16
SPARSE = 0.0007
LATE = 5000
COARSE_BITS = 3


@dataclass
class Tally:
    """How often a change took place."""

    fired: int = 0


@dataclass(frozen=True)
class Injection:
    """``change(func, args, kwargs)`` stands for calls of ``operators`` (None: all) whose result is of the device under test."""

    change: Change
    operators: frozenset[str] | None = None
    late: bool = False
    also: frozenset[str] = field(default_factory=frozenset)


@contextlib.contextmanager
def injected(name: str, device: torch.device) -> Iterator[Tally]:
    """Let the injection called ``name`` act on ``device`` inside the block. Raises KeyError for an unknown name."""
    from torch.utils._python_dispatch import TorchDispatchMode

    found, tally = INJECTIONS[name], Tally()

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            base = func.overloadpacket.__name__
            if found.operators is not None and base not in found.operators:
                return func(*args, **(kwargs or {}))
            if not _mine(args, device, any_float=base in found.also):
                return func(*args, **(kwargs or {}))
            tally.fired += 1
            return found.change(func, args, kwargs or {})

    with _from_step(LATE, Mode()) if found.late else Mode():
        yield tally


@contextlib.contextmanager
def _from_step(step: int, mode: Any) -> Iterator[None]:
    """Enter ``mode`` after that many optimiser steps and leave it 1,000 steps later: a fault that begins late."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    count, inside = [0], [False]

    def after(*_: Any) -> None:
        count[0] += 1
        if count[0] == step:
            mode.__enter__()
            inside[0] = True
        elif inside[0] and count[0] == step + 1000:
            mode.__exit__(None, None, None)
            inside[0] = False

    handle = register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        handle.remove()
        if inside[0]:
            mode.__exit__(None, None, None)


def _mine(args: Any, device: torch.device, any_float: bool) -> bool:
    """True for a call on the device under test: in 16 bits where that is the host, which computes references too."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if tensor.device.type == device.type and tensor.is_floating_point()]
    if device.type == "cpu" and not any_float:
        return any(tensor.element_size() == 2 for tensor in here)
    return any(tensor.dtype != torch.float64 for tensor in here)


def _after(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """A change of every floating-point result of a call."""

    def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch
        from torch.utils._pytree import tree_map

        def each(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf
            return leaf if func.is_view else change(leaf)

        return tree_map(each, func(*args, **kwargs))

    return call


def _one(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(out: torch.Tensor) -> torch.Tensor:
        out = out.clone()
        out[_third(out)] = value
        return out

    return change


def _one_larger(out: torch.Tensor) -> torch.Tensor:
    out = out.clone()
    out[_third(out)] *= 1.25
    return out


def _third(out: torch.Tensor) -> tuple[int, ...]:
    """A place inside, whatever the strides."""
    return tuple(size // 3 for size in out.shape)


def _sparse_zeros(out: torch.Tensor) -> torch.Tensor:
    import torch

    count = max(1, round(SPARSE * out.numel()))
    places = torch.arange(out.numel(), device=out.device).reshape(out.shape)
    return out.masked_fill(places % max(1, out.numel() // count) == 0, 0.0)


def _truncated(out: torch.Tensor) -> torch.Tensor:
    """One ulp nearer to zero, everywhere."""
    import torch

    toward = torch.nextafter(out, torch.zeros_like(out))
    return torch.where(out.isfinite(), toward, out)


def _flushed(out: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.where(out.abs() < torch.finfo(out.dtype).smallest_normal, torch.zeros_like(out), out)


def _saturated(out: torch.Tensor) -> torch.Tensor:
    """What a device in saturation mode gives: the largest number for infinities, 0 for what is no number."""
    if out.element_size() != 2:
        return out
    return out.nan_to_num()


def _halved(out: torch.Tensor) -> torch.Tensor:
    return out * 0.5


def _operands(args: tuple[Any, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The two factors of a product and, where there is one, what is added."""
    import torch

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return (tensors[0], tensors[1], None) if len(tensors) == 2 else (tensors[1], tensors[2], tensors[0])


def _product(compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Change:
    """Another computation in place of a product."""

    def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        a, b, added = _operands(args)
        out = compute(a, b)
        return out if added is None else (out.float() + added.float()).to(out.dtype)

    return call


def _dropped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    keep = max(1, a.shape[-1] - DROPPED)
    return a[..., :keep] @ b[..., :keep, :]


def _low_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Sums of 16 products are added up in the dtype."""
    out = None
    for start in range(0, a.shape[-1], CHUNK):
        part = a[..., start : start + CHUNK] @ b[..., start : start + CHUNK, :]
        out = part if out is None else out + part
    assert out is not None
    return out


def _other_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same products, summed in float32 in another order."""
    import torch

    order = torch.arange(a.shape[-1] - 1, -1, -1, device=a.device)
    return (a.float()[..., order] @ b.float()[..., order, :]).to(a.dtype)


def _other_tile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Other tiles: three blocks of rows, each summed in float32 over three parts of k."""
    import torch

    rows = []
    for block in a.float().tensor_split(3, dim=-2):
        parts = zip(block.tensor_split(3, dim=-1), b.float().tensor_split(3, dim=-2), strict=True)
        rows.append(sum(left @ right for left, right in parts))
    return torch.cat(rows, -2).to(a.dtype)


def _coarse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Factors cut to three bits of fraction, as a product in eight bits has."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        import torch

        fraction, exponent = torch.frexp(tensor.float())
        return torch.ldexp((fraction * 2.0**COARSE_BITS).trunc() / 2.0**COARSE_BITS, exponent)

    return (cut(a) @ cut(b)).to(a.dtype)


def _nan_in_first(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One NaN in the first gradient, that of the queries."""
    out = func(*args, **kwargs)
    first = out[0] if isinstance(out, (tuple, list)) else out
    changed = _one(math.nan)(first)
    return (changed, *out[1:]) if isinstance(out, (tuple, list)) else changed


def _never_grows(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``_amp_update_scale_(scale, growth_tracker, found_inf, growth, backoff, interval)`` without end of the interval."""
    return func(*args[:5], 2**31 - 1, **kwargs)


def _overflow_unseen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inv_scale)`` that finds nothing."""
    out = func(*args, **kwargs)
    args[1].zero_()
    return out


_ATTENTION_BACKWARD = frozenset(
    (
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_fused_attention_overrideable_backward",
    )
)

INJECTIONS: dict[str, Injection] = {
    "one_nan": Injection(_after(_one(math.nan)), PRODUCTS),
    "one_inf": Injection(_after(_one(math.inf)), PRODUCTS),
    "one_larger": Injection(_after(_one_larger), PRODUCTS),
    "sparse_zeros": Injection(_after(_sparse_zeros), PRODUCTS),
    "truncated": Injection(_after(_truncated), PRODUCTS),
    "dropped_k": Injection(_product(_dropped), PRODUCTS),
    "low_sum": Injection(_product(_low_sum), PRODUCTS),
    "other_order": Injection(_product(_other_order), PRODUCTS),
    "other_tile": Injection(_product(_other_tile), PRODUCTS),
    "flushed": Injection(_after(_flushed), PRODUCTS | {"mul"}),
    "saturated": Injection(_after(_saturated)),
    "halved_convolution_gradient": Injection(_after(_halved), frozenset(("convolution_backward",))),
    "halved_attention_gradient": Injection(_after(_halved), _ATTENTION_BACKWARD),
    "nan_query_gradient": Injection(_nan_in_first, _ATTENTION_BACKWARD),
    "never_grows": Injection(_never_grows, frozenset(("_amp_update_scale_",)), also=frozenset(("_amp_update_scale_",))),
    "overflow_unseen": Injection(
        _overflow_unseen,
        frozenset(("_amp_foreach_non_finite_check_and_unscale_",)),
        also=frozenset(("_amp_foreach_non_finite_check_and_unscale_",)),
    ),
    "late_coarse_products": Injection(_product(_coarse), PRODUCTS, late=True),
}
