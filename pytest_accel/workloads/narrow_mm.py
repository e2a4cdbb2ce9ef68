"""Matrix products in narrow formats: int8, float8, block-scaled float8 and float4, grouped. torch is imported inside.

Inputs are made in the narrow format first; the golden result is the float64 product of exactly those numbers and scales, so
that the rounding to the format is no part of what is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype
from pytest_accel.workloads.judging import Case, judge, note_fault, offered

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from pytest_accel.measure.accelerator import Accelerator

    Metrics = dict[str, float | int | str]

#: The magnitudes of e2m1 (OCP microscaling formats, table 5), by code without the sign bit.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: Block length of a format -> dtype of its scales: 32 is OCP's MX, 16 the two-level FP4 of newer tensor cores.
SCALES = {32: "float8_e8m0fnu", 16: "float8_e4m3fn"}
TILE = (128, 4)  # scales are stored in tiles of 128 rows and 4 columns, 32 x 16 bytes each (cuBLAS, "block scaling")


def int_mm(accel: Accelerator, m: int = 17, n: int = 16, k: int = 16, trans_b: bool = True, seed: int = 0) -> Metrics:
    """``torch._int_mm`` of int8, exact in int32. 17 rows is the shape at which one toolkit release gave wrong sums."""
    import torch

    positive(m=m, n=n, k=k)
    made = torch.Generator().manual_seed(seed)
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, generator=made)
    b = torch.randint(-128, 128, (n, k) if trans_b else (k, n), dtype=torch.int8, generator=made)

    def run() -> list[torch.Tensor]:
        right = b.to(accel.device)
        return [offered(torch, "_int_mm")(a.to(accel.device), right.t() if trans_b else right)]

    def compute(kind: torch.dtype) -> list[torch.Tensor]:
        return [(a.long() @ (b.t() if trans_b else b).long()).to(torch.int32)]

    found = judge(accel, Case(run, compute, tolerances.of_operator("mm")))
    note_fault(accel, found, m=m, n=n, k=k, trans_b=trans_b, seed=seed)
    return found.metrics()


def scaled_mm(
    accel: Accelerator,
    m: int,
    n: int,
    k: int,
    a_dtype: str = "float8_e4m3fn",
    b_dtype: str = "float8_e4m3fn",
    out_dtype: str = "bfloat16",
    scaling: str = "tensor",
    fast: bool = False,
    seed: int = 0,
) -> Metrics:
    """``torch._scaled_mm`` of two float8 matrices, b stored transposed, as linear layers store it.

    ``scaling`` is tensor (one scale a matrix) or row (one a row of a and a column of b). ``fast`` asks for
    ``use_fast_accum``, which may keep partial sums in fewer bits.
    """
    import torch

    positive(m=m, n=n, k=k)
    if scaling not in ("tensor", "row"):
        raise BadArguments(f"scaling: must be tensor or row, not {scaling}")
    a, b = _narrow((m, k), a_dtype, seed), _narrow((n, k), b_dtype, seed + 1)
    made = torch.Generator().manual_seed(seed + 2)
    rows, columns = (m, n) if scaling == "row" else (1, 1)
    scale_a = torch.rand((rows, 1), generator=made) + 0.5
    scale_b = torch.rand((1, columns), generator=made) + 0.5

    def run() -> list[torch.Tensor]:
        one, two = (
            s.to(accel.device) if scaling == "row" else s.to(accel.device).reshape(()) for s in (scale_a, scale_b)
        )
        product = offered(torch, "_scaled_mm")(
            a.to(accel.device),
            b.to(accel.device).t(),
            scale_a=one,
            scale_b=two,
            out_dtype=torch_dtype(out_dtype),
            use_fast_accum=fast,
        )
        return [product]

    left, right = a.to(torch.float64) * scale_a.double(), b.to(torch.float64).t() * scale_b.double()
    found = judge(accel, _product(run, left, right, fast))
    note_fault(accel, found, a=a_dtype, b=b_dtype, out=out_dtype, shape=[m, n, k], scaling=scaling, fast=fast)
    return found.metrics()


def block_scaled_mm(
    accel: Accelerator,
    m: int,
    n: int,
    k: int,
    dtype: str = "float8_e4m3fn",
    block: int = 32,
    out_dtype: str = "bfloat16",
    seed: int = 0,
) -> Metrics:
    """``scaled_mm`` with one scale for each ``block`` numbers along k: MXFP8, MXFP4 (block 32), two-level FP4 (16).

    ``dtype`` is a float8 or ``float4_e2m1fn_x2`` (two numbers a byte, the first in the low bits).
    """
    import torch
    from torch.nn import functional

    positive(m=m, n=n, k=k)
    if block not in SCALES:
        raise BadArguments(f"block: must be one of {', '.join(map(str, SCALES))}, not {block}")
    if k % block:
        raise BadArguments(f"k: must be a multiple of the block ({block}), not {k}")
    (a, a64), (b, b64) = _blocked((m, k), dtype, block, seed), _blocked((n, k), dtype, block, seed + 1)
    scale_a, scale_b = _scales(m, k // block, block, seed + 2), _scales(n, k // block, block, seed + 3)

    def run() -> list[torch.Tensor]:
        call, recipes = offered(functional, "scaled_mm"), offered(functional, "ScalingType")
        recipe = offered(recipes, f"BlockWise1x{block}")
        swizzle = functional.SwizzleType.SWIZZLE_32_4_4
        product = call(
            a.to(accel.device),
            b.to(accel.device).t(),
            tiled(scale_a).to(accel.device),
            recipe,
            tiled(scale_b).to(accel.device),
            recipe,
            swizzle_a=swizzle,
            swizzle_b=swizzle,
            output_dtype=torch_dtype(out_dtype),
        )
        return [product]

    def wide(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return values * scale.to(torch.float32).double().repeat_interleave(block, dim=1)

    found = judge(accel, _product(run, wide(a64, scale_a), wide(b64, scale_b).t(), fast=False))
    note_fault(accel, found, dtype=dtype, block=block, out=out_dtype, shape=[m, n, k], seed=seed)
    return found.metrics()


def grouped_mm(
    accel: Accelerator, rows: list[int], n: int, k: int, dtype: str = "bfloat16", scaled: bool = False, seed: int = 0
) -> Metrics:
    """``grouped_mm``: group g multiplies its ``rows[g]`` rows (0 is allowed) with its own ``[k, n]`` matrix.

    ``scaled`` takes float8 inputs with a scale a row and a column (``scaled_grouped_mm``), ``dtype`` then naming the
    float8.
    """
    import torch
    from torch.nn import functional

    positive(n=n, k=k)
    if not rows or min(rows) < 0:
        raise BadArguments(f"rows: must be a list of group sizes from 0, not {rows}")
    groups, total = len(rows), sum(rows)
    make: Any = _narrow if scaled else (lambda shape, kind, s: normal(shape, kind, torch.device("cpu"), s))
    a, b = make((total, k), dtype, seed), make((groups, n, k), dtype, seed + 1)
    ends = torch.tensor(rows, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    made = torch.Generator().manual_seed(seed + 2)
    scale_a, scale_b = torch.rand(total, generator=made) + 0.5, torch.rand((groups, n), generator=made) + 0.5

    def run() -> list[torch.Tensor]:
        left, right = a.to(accel.device), b.to(accel.device).transpose(1, 2)
        offs = ends.to(accel.device)
        if not scaled:
            return [offered(functional, "grouped_mm")(left, right, offs=offs)]
        recipe = offered(functional, "ScalingType").RowWise
        scales = scale_a.to(accel.device), recipe, scale_b.to(accel.device), recipe
        return [offered(functional, "scaled_grouped_mm")(left, right, *scales, offs=offs, output_dtype=torch.bfloat16)]

    left, right = a.to(torch.float64), b.to(torch.float64).transpose(1, 2)
    if scaled:
        left, right = left * scale_a.double()[:, None], right * scale_b.double()[:, None, :]

    def each(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([part @ y[g] for g, part in enumerate(x.split(rows))])

    case = Case(
        run,
        lambda kind: [each(left.to(kind), right.to(kind))],
        tolerances.of_operator("mm"),
        lambda: [each(left.abs(), right.abs())],
    )
    found = judge(accel, case)
    note_fault(accel, found, dtype=dtype, rows=rows, n=n, k=k, scaled=scaled, seed=seed)
    return found.metrics()


def _product(run: Callable[[], list[torch.Tensor]], left: torch.Tensor, right: torch.Tensor, fast: bool) -> Case:
    """The case of one product. Fast accumulation may lose bits of the partial sums: two roundings of their size."""
    rule = tolerances.SPLIT_PRODUCT if fast else tolerances.of_operator("mm")

    def size() -> list[torch.Tensor]:
        return [(left.square() @ right.square()).sqrt()] if fast else [left.abs() @ right.abs()]

    return Case(run, lambda kind: [left.to(kind) @ right.to(kind)], rule, size)


def _narrow(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Normal numbers rounded to a float8 dtype, on the host."""
    import torch

    return normal(shape, "float32", torch.device("cpu"), seed).to(torch_dtype(dtype))


def _blocked(shape: tuple[int, int], dtype: str, block: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers in a block-scaled format, and the same in float64."""
    import torch

    if dtype != "float4_e2m1fn_x2":
        values = _narrow(shape, dtype, seed)
        return values, values.to(torch.float64)
    codes = torch.randint(0, 16, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    packed = (codes[:, 0::2] | (codes[:, 1::2] << 4)).contiguous()
    size = torch.tensor(E2M1, dtype=torch.float64)[(codes & 7).long()]
    return packed.view(torch_dtype(dtype)), torch.where(codes >= 8, -size, size)


def _scales(rows: int, columns: int, block: int, seed: int) -> torch.Tensor:
    """Powers of two from 1/4 to 4 (e8m0 holds nothing else), and for e4m3 numbers between them as well."""
    import torch

    made = torch.Generator().manual_seed(seed)
    powers = torch.exp2(torch.randint(-2, 3, (rows, columns), generator=made).float())
    if SCALES[block] == "float8_e4m3fn":
        powers = powers * (1 + torch.randint(0, 8, (rows, columns), generator=made) / 8)
    return powers.to(torch_dtype(SCALES[block]))


def tiled(scales: torch.Tensor) -> torch.Tensor:
    """``[rows, columns]`` scales in the order of swizzle 32_4_4, padded to whole tiles of 128 x 4 with zero bytes.

    Within a tile, row r and column c stand at byte ``(r % 32) * 16 + (r // 32) * 4 + c`` (cuBLAS documentation).
    """
    import torch

    rows, columns = scales.shape
    high, wide = -(-rows // TILE[0]), -(-columns // TILE[1])
    padded = torch.zeros(high * TILE[0], wide * TILE[1], dtype=torch.uint8)
    padded[:rows, :columns] = scales.view(torch.uint8)
    tiles = padded.reshape(high, 4, 32, wide, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-1).view(scales.dtype)
