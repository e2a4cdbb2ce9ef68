"""torch's settings that can change a result: read, pinned and restored, whatever release of torch it is.

torch >= 2.9 has two ways to say how float32 is computed, and its old getters raise once the two were mixed in one process.
So the old way is asked first, and the new one answers where the old refuses.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.stack.types import Value


@dataclass(frozen=True)
class Setting:
    """One setting: its Python type, how it is read and how it is put in force. ``get`` returns None where torch lacks it."""

    type: type
    get: Callable[[], Value]
    set: Callable[[Any], None]


def _torch() -> Any:
    import torch

    return torch


def _new_precision(*path: str) -> str | None:
    """torch's newer word for how a back end computes float32 (``ieee``, ``tf32``, ``none``); None in a torch without it."""
    owner: Any = _torch().backends
    for name in (*path, "fp32_precision"):
        owner = getattr(owner, name, None)
    return owner if isinstance(owner, str) else None


def _or_new(old: Callable[[], Value], path: tuple[str, ...], meaning: Callable[[str], Value]) -> Value:
    try:
        return old()
    except RuntimeError:  # the two ways were mixed: only the newer one answers
        word = _new_precision(*path)
        return None if word is None else meaning(word)


def _matmul_tf32() -> Value:
    return _or_new(
        lambda: bool(_torch().backends.cuda.matmul.allow_tf32), ("cuda", "matmul"), lambda word: word == "tf32"
    )


def _cudnn_tf32() -> Value:
    # Mixed, convolutions and RNNs may differ; convolutions are what the suites measure.
    return _or_new(lambda: bool(_torch().backends.cudnn.allow_tf32), ("cudnn", "conv"), lambda word: word == "tf32")


def _matmul_precision() -> Value:
    words = {"tf32": "high", "bf16": "medium"}
    return _or_new(
        lambda: str(_torch().get_float32_matmul_precision()),
        ("cuda", "matmul"),
        lambda word: words.get(word, "highest"),
    )


def _set_deterministic(value: bool) -> None:
    torch = _torch()
    torch.use_deterministic_algorithms(value, warn_only=torch.is_deterministic_algorithms_warn_only_enabled())


def _flushes_denormals() -> Value:
    torch = _torch()
    return bool((torch.full((1,), 1e-40) * 0.5).item() == 0.0)  # torch has no getter: the arithmetic is asked


def _backend(*path: str) -> Setting:
    """A switch that is an attribute below ``torch.backends``."""

    def owner() -> Any:
        found: Any = _torch().backends
        for name in path[:-1]:
            found = getattr(found, name)
        return found

    def get() -> Value:
        value = getattr(owner(), path[-1], None)
        return bool(value) if isinstance(value, (bool, int)) else None

    return Setting(bool, get, lambda value: setattr(owner(), path[-1], value))


def _sdp(getter: str, setter: str) -> Setting:
    """One kernel of scaled-dot-product attention; the host's dispatcher obeys the same switches."""

    def get() -> Value:
        function = getattr(_torch().backends.cuda, getter, None)
        return bool(function()) if function is not None else None

    return Setting(bool, get, lambda value: getattr(_torch().backends.cuda, setter)(value))


def _npu(*path: str) -> Setting:
    """A switch of torch_npu's, an attribute below ``torch.npu``; None where torch_npu is not loaded or lacks it."""

    def owner() -> Any:
        found: Any = getattr(_torch(), "npu", None)
        for name in path[:-1]:
            found = getattr(found, name, None)
        return found

    def get() -> Value:
        value = getattr(owner(), path[-1], None)
        return bool(value) if isinstance(value, (bool, int)) else None

    return Setting(bool, get, lambda value: setattr(owner(), path[-1], value))


def _internal_format() -> Value:
    """torch_npu's option: its Python attribute may only be set, in most releases. None: never set, so the chip's default."""
    module = sys.modules.get("torch_npu")
    option = getattr(getattr(module, "_C", None), "_npu_getOption", None)
    if option is None:
        return _npu("config", "allow_internal_format").get()
    raw = option("ALLOW_INTERNAL_FORMAT")
    text = raw.decode() if isinstance(raw, bytes) else raw
    return {"enable": True, "disable": False}.get(str(text).strip().lower())


#: Switches that only torch_npu has: private tensor layouts, and HF32, Ascend's TF32.
NPU_SETTINGS = ("allow_internal_format", "matmul_allow_hf32", "conv_allow_hf32")

#: In the order in which they are put in force: the general float32 precision before the narrower switches that follow it.
SETTINGS: Mapping[str, Setting] = {
    "float32_matmul_precision": Setting(
        str, _matmul_precision, lambda value: _torch().set_float32_matmul_precision(value)
    ),
    "allow_tf32": Setting(
        bool, _matmul_tf32, lambda value: setattr(_torch().backends.cuda.matmul, "allow_tf32", value)
    ),
    "cudnn_allow_tf32": Setting(bool, _cudnn_tf32, lambda value: setattr(_torch().backends.cudnn, "allow_tf32", value)),
    "allow_fp16_reduced_precision_reduction": _backend("cuda", "matmul", "allow_fp16_reduced_precision_reduction"),
    "allow_bf16_reduced_precision_reduction": _backend("cuda", "matmul", "allow_bf16_reduced_precision_reduction"),
    "cudnn_benchmark": _backend("cudnn", "benchmark"),
    "cudnn_deterministic": _backend("cudnn", "deterministic"),
    "deterministic_algorithms": Setting(
        bool, lambda: bool(_torch().are_deterministic_algorithms_enabled()), _set_deterministic
    ),
    "mkldnn": _backend("mkldnn", "enabled"),
    "num_threads": Setting(int, lambda: int(_torch().get_num_threads()), lambda value: _torch().set_num_threads(value)),
    "flush_denormal": Setting(bool, _flushes_denormals, lambda value: _torch().set_flush_denormal(value)),
    "sdp_flash": _sdp("flash_sdp_enabled", "enable_flash_sdp"),
    "sdp_mem_efficient": _sdp("mem_efficient_sdp_enabled", "enable_mem_efficient_sdp"),
    "sdp_math": _sdp("math_sdp_enabled", "enable_math_sdp"),
    "sdp_cudnn": _sdp("cudnn_sdp_enabled", "enable_cudnn_sdp"),
    "allow_internal_format": Setting(bool, _internal_format, _npu("config", "allow_internal_format").set),
    "matmul_allow_hf32": _npu("matmul", "allow_hf32"),
    "conv_allow_hf32": _npu("conv", "allow_hf32"),
}

_FP32 = ("float32_matmul_precision", "allow_tf32", "cudnn_allow_tf32")
_FP32_OWNERS = (("cuda", "matmul"), ("cudnn", "conv"), ("cudnn", "rnn"), ("mkldnn", "matmul"), ("mkldnn", "conv"))


def allowed(names: tuple[str, ...]) -> dict[str, type]:
    """The Python types of ``names``, as ``Platform.settings_allowed`` wants them."""
    return {name: SETTINGS[name].type for name in names}


@contextmanager
def _quiet() -> Iterator[None]:
    """torch >= 2.9 warns whenever the old float32 switches are touched; asking is not the user's doing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(names: tuple[str, ...]) -> dict[str, Value]:
    """The settings in force in this process; None for one that this torch lacks."""
    with _quiet():
        return {name: SETTINGS[name].get() for name in names}


@contextmanager
def pinned(settings: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[None]:
    """Put ``settings`` in force inside the block and restore what was there before.

    A setting that only other platforms have (``names`` are this one's) is no part of what is measured here and is passed
    over. Raises ConfigError for one that no platform knows, for a wrong type, and for settings that contradict each other
    or that this torch does not take.
    """
    wanted = _checked(settings, names)
    with _quiet():
        before, precisions = read(names), _precisions()
    try:
        with _quiet():
            for name in (name for name in SETTINGS if name in wanted):
                _put(name, wanted[name])
            _verify(wanted)
        yield
    finally:
        with _quiet():
            _restore(before, precisions, wanted)


def _checked(settings: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    unknown = [name for name in settings if name not in SETTINGS and name not in names]
    if unknown:
        raise ConfigError(Problem(f"unknown setting {unknown[0]!r}", f"one of: {', '.join(names)}"))
    wanted = {name: value for name, value in settings.items() if name in names}
    for name, value in wanted.items():
        kind = SETTINGS[name].type
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConfigError(Problem(f"setting {name} must be {kind.__name__}, not {value!r}"))
    return wanted


def _put(name: str, value: Any) -> None:
    try:
        SETTINGS[name].set(value)
    except (AttributeError, RuntimeError, ValueError, TypeError) as error:
        raise ConfigError(Problem(f"setting {name}={value!r} cannot be put in force: {error}")) from error


def _verify(wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        now = SETTINGS[name].get()
        if now != value:
            what = f"setting {name} was pinned to {value!r} and is {now!r}: the case's settings contradict each other"
            raise ConfigError(
                Problem(what, "pin one of those that mean the same thing, or a value that this torch takes")
            )


def _precisions() -> dict[tuple[str, ...], str]:
    found = {path: _new_precision(*path) for path in _FP32_OWNERS}
    return {path: word for path, word in found.items() if word is not None}


def _restore(before: Mapping[str, Value], precisions: Mapping[tuple[str, ...], str], wanted: Mapping[str, Any]) -> None:
    touched = set(wanted)
    if touched & set(_FP32):  # one moves the others
        touched |= set(_FP32) & set(before)
    for name in (name for name in SETTINGS if name in touched):
        if before[name] is not None and SETTINGS[name].get() != before[name]:
            SETTINGS[name].set(before[name])
    if not touched & set(_FP32):
        return
    for path, word in precisions.items():
        if _new_precision(*path) != word:
            owner: Any = _torch().backends
            for name in path:
                owner = getattr(owner, name)
            owner.fp32_precision = word
