"""Kernels in Triton, one a feature. Imported only where triton is: a kernel is a function of its module, which imports it.

mypy does not see triton's language, whose functions have no types.
"""
# mypy: ignore-errors

import triton
import triton.language as tl

try:
    from triton.language.extra import libdevice
except ImportError:  # triton before 3.0 keeps it elsewhere
    from triton.language import math as libdevice


@triton.jit
def atomic_add(x, out, n, slots, BLOCK: tl.constexpr):
    """``out[i % slots] += x[i]``: sums of whole numbers, so that their order does not matter."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % slots, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def atomic_max(x, out, n, slots, BLOCK: tl.constexpr):
    """``out[i % slots] = max(out[i % slots], x[i])``."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(out + i % slots, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def atomic_cas(lock, out, old):
    """Programs ask one word for 0 -> number + 1: one wins, all others see the winner's number and change nothing."""
    me = tl.program_id(0)
    one = tl.full((), 0, lock.dtype.element_ty)
    seen = tl.atomic_cas(lock, one, (me + 1).to(lock.dtype.element_ty))
    tl.store(out + me, seen)
    tl.atomic_add(old, (seen == 0).to(tl.int32))


@triton.jit
def masked_load(x, out, n, other, BLOCK: tl.constexpr):
    """Every third element, and all from ``n`` on, is not read: ``other`` stands there instead."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = (i < n) & (i % 3 != 1)
    tl.store(out + i, tl.load(x + i, mask=keep, other=other))


@triton.jit
def dot(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    """``[M, K] @ [K, N]`` in one program, summed in float32 (int32 for int8)."""
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    left = tl.load(a + m * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n)
    tl.store(out + m * N + n, tl.dot(left, right, input_precision=PRECISION))


@triton.jit
def reduce_sum(x, out, COLUMNS: tl.constexpr):
    """The sum of each row, in the dtype of ``out``."""
    i = tl.arange(0, COLUMNS)
    row = tl.program_id(0)
    tl.store(out + row, tl.sum(tl.load(x + row * COLUMNS + i).to(out.dtype.element_ty), axis=0))


@triton.jit
def scan_sum(x, out, COLUMNS: tl.constexpr):
    """The running sum of each row."""
    i = tl.arange(0, COLUMNS)
    row = tl.program_id(0)
    tl.store(out + row * COLUMNS + i, tl.cumsum(tl.load(x + row * COLUMNS + i).to(out.dtype.element_ty), axis=0))


@triton.jit
def cast(x, out, n, BLOCK: tl.constexpr):
    """Elements converted to the dtype of ``out``."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def library_exp(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.exp(tl.load(x + i)))


@triton.jit
def library_log(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.log(tl.load(x + i)))


@triton.jit
def library_sin(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.sin(tl.load(x + i)))


@triton.jit
def library_tanh(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.tanh(tl.load(x + i)))


@triton.jit
def library_erf(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.erf(tl.load(x + i)))


@triton.jit
def library_rsqrt(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.rsqrt(tl.load(x + i)))


@triton.jit
def library_pow(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(out + i, libdevice.pow(value, value))
