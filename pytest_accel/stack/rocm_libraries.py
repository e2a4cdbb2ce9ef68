"""ROCm's libraries as loaded in this process: asked where a call needs no handle, else read from the file that is mapped."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from pytest_accel.stack.types import Value


def miopen_version(version: int | None) -> str | None:
    """MIOpen's version as torch packs it in ``cudnn.version()``: ``3004001`` → ``3.4.1``."""
    return f"{version // 1000000}.{version // 1000 % 1000}.{version % 1000}" if version else None


def mapped(name: str, maps: str) -> str | None:
    """The path of the shared library ``name`` in the text of ``/proc/self/maps``; None where it is not loaded."""
    match = re.search(rf"(/\S*/{re.escape(name)}\.so[.\d]*)$", maps, re.MULTILINE)
    return match.group(1) if match else None


def file_version(path: str | None) -> str | None:
    """The version in a library's file name, ``libhipblaslt.so.1.2.70200`` → ``1.2.70200``; torch's wheels leave it out."""
    match = re.search(r"\.so\.(\d[\d.]*)$", path or "")
    return match.group(1) if match else None


def loaded_libraries() -> dict[str, Value]:
    """Versions of rocBLAS and hipBLASLt; None for one that is not loaded, or does not tell."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {"rocblas": None, "hipblaslt": None}
    rocblas = mapped("librocblas", maps)
    return {
        "rocblas": _rocblas(rocblas) or file_version(rocblas),
        "hipblaslt": file_version(mapped("libhipblaslt", maps)),
    }


def _rocblas(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        buffer = ctypes.create_string_buffer(256)
        failed = ctypes.CDLL(path).rocblas_get_version_string(buffer, ctypes.c_size_t(len(buffer)))
    except (OSError, AttributeError):
        return None
    return None if failed else buffer.value.decode("utf-8", "replace") or None
