"""What only C++ can register: pinned memory and generators of the device. The host's own take their place."""

from __future__ import annotations

import functools

import torch

_FACTORIES = ("empty", "empty_like", "empty_strided", "zeros", "ones", "full", "rand", "randn", "tensor", "arange")


def _unpinned(factory):
    @functools.wraps(factory)
    def call(*args, **kwargs):
        kwargs.pop("pin_memory", None)
        return factory(*args, **kwargs)

    return call


class Generator(torch._C.Generator):
    """A generator of the host, whatever device it is asked for."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu" if torch.device(device).type == "npu" else device)


def register() -> None:
    """Put them in torch's place."""
    for name in _FACTORIES:
        setattr(torch, name, _unpinned(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, device=None: self
    torch.Generator = Generator
