"""torch_npu's own settings and versions, asked of ``torch.npu`` in the measuring process; None where it lacks them."""

from __future__ import annotations

from typing import Any

from pytest_accel.stack.types import Value


def in_force(npu: Any) -> dict[str, Value]:
    """``overflow_mode`` (``ieee`` or ``saturating``) and ``jit_compile``; the pinnable ones are ``torch_settings``'s."""
    keeps = _called(npu, "utils", "is_support_inf_nan")
    no_jit = _called(npu, "is_jit_compile_false")
    return {
        "overflow_mode": None if keeps is None else "ieee" if keeps else "saturating",
        "jit_compile": None if no_jit is None else not no_jit,
    }


def cann_loaded(npu: Any, module: str) -> str | None:
    """The version of a part of CANN as torch_npu tells it; None for the empty string that CANN before 8.1.RC1 gives."""
    function = getattr(getattr(npu, "utils", None), "get_cann_version", None)
    if function is None:
        return None
    try:
        return str(function(module=module)) or None
    except (RuntimeError, TypeError, ValueError):  # a torch_npu that does not know the part
        return None


def _called(npu: Any, *path: str) -> bool | None:
    for name in path:
        npu = getattr(npu, name, None)
    if npu is None:
        return None
    try:
        return bool(npu())
    except RuntimeError:  # the device is not initialised, or the driver lacks the call
        return None
