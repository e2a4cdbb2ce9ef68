"""What CUDA and ROCm share: torch calls both of them ``cuda``."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from pytest_accel.stack import torch_settings, variation
from pytest_accel.stack.torch_like import COMMON_SETTINGS, TorchLike
from pytest_accel.stack.types import Value

PINNABLE = (
    *COMMON_SETTINGS,
    "allow_tf32",
    "cudnn_allow_tf32",
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "sdp_cudnn",
)


def dotted(version: int | None) -> str | None:
    """NVIDIA's packed versions, ``13010`` → ``13.1``; cuDNN's (``91900``, before 9 ``8907``) have another packing."""
    return None if not version else f"{version // 1000}.{version % 1000 // 10}"


def dnn_version(version: int | None) -> str | None:
    """cuDNN's packed version: ``91002`` → ``9.10.2``; before 9: ``8907`` → ``8.9.7``."""
    if not version:
        return None
    major, minor = (
        (version // 10000, version // 100 % 100) if version >= 90000 else (version // 1000, version // 100 % 10)
    )
    return f"{major}.{minor}.{version % 100}"


class CudaLike(TorchLike):
    """The torch half of both platforms."""

    device_type = "cuda"
    collective_backend = "nccl"
    may_vary = variation.CUDA
    setting_names = PINNABLE
    settings_allowed = torch_settings.allowed(PINNABLE)
    alloc_variables: tuple[str, ...] = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    blocking_variable = "CUDA_LAUNCH_BLOCKING"

    def settings(self) -> dict[str, Value]:
        """The closed list: torch's switches, how overflow is handled, launch blocking, the allocator's configuration."""
        alloc = next((os.environ[name] for name in self.alloc_variables if os.environ.get(name)), None)
        return {
            **super().settings(),
            "overflow_mode": "ieee",
            "launch_blocking": os.environ.get(self.blocking_variable, "0") not in ("", "0"),
            "alloc_conf": alloc,
        }

    def hardware_loaded(self, index: int) -> dict[str, Value]:
        """Name, memory, compute capability and the number of multiprocessors as torch sees them."""
        import torch

        major, minor = torch.cuda.get_device_capability(index)
        return {**super().hardware_loaded(index), "capability": f"{major}.{minor}"}

    def versions_loaded(self) -> dict[str, Value]:
        """torch, its toolkit, BLAS, DNN and collective libraries as loaded in this process."""
        import torch

        return {**super().versions_loaded(), "nccl": _nccl(torch)}


def _nccl(torch: Any) -> str | None:
    try:
        version = torch.cuda.nccl.version()
    except (AttributeError, RuntimeError):  # a torch built without it
        return None
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)


def cublas_version() -> str | None:
    """The cuBLAS that is loaded in this process: asked by ``cublasGetProperty``, which needs neither handle nor context."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"(/\S*/libcublas\.so[.\d]*)$", maps, re.MULTILINE)
    if match is None:
        return None
    parts = []
    try:
        ask = ctypes.CDLL(match.group(1)).cublasGetProperty
        for which in range(3):  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
            value = ctypes.c_int()
            if ask(which, ctypes.byref(value)) != 0:
                return None
            parts.append(str(value.value))
    except (OSError, AttributeError):
        return None
    return ".".join(parts)
