"""A timed kernel in Triton. Imported only where triton is: a kernel is a function of its module, so triton is imported here."""
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def gelu_of_scaled(x, scale, bias, out, count, columns, BLOCK: tl.constexpr):
    """``gelu(x * scale + bias)`` of ``count`` elements in rows of ``columns``, by the error function, in float32 inside."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    column = i % columns
    value = tl.load(x + i, mask=inside, other=0.0).to(tl.float32)
    value = value * tl.load(scale + column, mask=inside, other=0.0).to(tl.float32)
    value = value + tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    result = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(out + i, result.to(out.dtype.element_ty), mask=inside)
