"""Autocast on the simulated device: which operators it casts down, and which up, for the operators that models use."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_map

_KEY = "AutocastPrivateUse1"
_DOWN = """mm bmm mv addmm addmv baddbmm addbmm matmul linear conv1d conv2d conv3d convolution prelu
    scaled_dot_product_attention"""
_UP = """softmax.int log_softmax.int layer_norm native_layer_norm group_norm exp log pow.Tensor_Scalar sum prod cumsum
    rsqrt cross_entropy_loss nll_loss mse_loss cosine_similarity softplus erfinv reciprocal sinh cosh tan acos asin"""


def _caster(operator, to):
    def call(*args, **kwargs):
        kind = to()

        def cast(leaf):
            wide = isinstance(leaf, torch.Tensor) and leaf.device.type == "npu" and leaf.is_floating_point()
            return leaf.to(kind) if wide and leaf.dtype not in (kind, torch.float64) else leaf

        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operator(*tree_map(cast, args), **tree_map(cast, kwargs))

    return call


_aten = torch.library.Library("aten", "IMPL")
_rest = torch.library.Library("_", "IMPL")


def _overload(name: str):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def register() -> None:
    """Every other operator takes its arguments as they come."""
    _rest.fallback(torch.library.fallthrough_kernel, _KEY)
    for name in _DOWN.split():
        _aten.impl(name, _caster(_overload(name), lambda: torch.get_autocast_dtype("npu")), _KEY)
    for name in _UP.split():
        _aten.impl(name, _caster(_overload(name), lambda: torch.float32), _KEY)
