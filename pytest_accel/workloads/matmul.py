"""Matrix products judged for accuracy on shapes that operator samples cannot reach. torch is imported inside."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_accel.measure import accuracy, tolerances
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.inputs import normal, positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

SIGMAS = 8.0  # a row's projection is a sum of independent rounding errors: eight of its deviations is never chance


def gemm_accuracy(
    accel: Accelerator,
    m: int,
    n: int,
    k: int,
    dtype: str,
    trans_a: bool = False,
    trans_b: bool = False,
    rows: int = 64,
    partials_in_dtype: bool = True,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """``[m, k] @ [k, n]`` of normal numbers on the device against float64.

    ``rows`` rows spread over ``m`` are judged element by element by the accuracy rule; every element is looked at for
    non-finite values, and every row's projection on random signs is compared with that of the float64 inputs, so that
    tiles that were never written are found in any row. ``trans_a`` and ``trans_b`` store the operand transposed.

    ``partials_in_dtype`` allows a 16-bit product to add partial sums that are rounded to 16 bits, as torch does unless
    ``allow_*_reduced_precision_reduction`` is off (seen on an H200 at k = 2560: 45 ulp where a result cancels). A
    partial sum is about ``Q = sqrt(a^2 @ b^2)`` wide; two roundings of it are allowed. False allows none: a correct
    kernel that accumulates in float32 is within half an ulp.
    """
    import torch

    positive(m=m, n=n, k=k, rows=rows)
    a = normal((k, m) if trans_a else (m, k), dtype, accel.device, seed)
    b = normal((n, k) if trans_b else (k, n), dtype, accel.device, seed + 1)
    a, b = a.t() if trans_a else a, b.t() if trans_b else b
    y = a @ b
    accel.synchronize()
    y, a64, b64 = y.cpu(), a.cpu().double(), b.cpu().double()
    chosen = torch.linspace(0, m - 1, min(rows, m), dtype=torch.float64).round().long().unique()
    (golden,) = accuracy.twice(lambda: [a64[chosen] @ b64])
    with accuracy.one_thread():
        split = partials_in_dtype and y.element_size() == 2
        magnitude = (a64[chosen].square() @ b64.square()).sqrt() if split else a64[chosen].abs() @ b64.abs()
        reference = _reference(a64[chosen], b64, torch_dtype(dtype))
    rule = tolerances.SPLIT_PRODUCT if split else tolerances.of_operator("mm")
    found = accuracy.compare(y[chosen], golden, reference, rule=rule, magnitude=magnitude)
    leans = accuracy.leaning(y[chosen], golden, reference, rule=rule, magnitude=magnitude)
    if leans and found.word == "supported":
        found = replace(found, word="wrong", reason=leans)
    nonfinite = int((~y.isfinite()).sum())
    off, first = _projection(y, a64, b64, seed)
    status = found.word if found.word != "supported" else "nonfinite" if nonfinite else "wrong" if off else "supported"
    if status != "supported":
        accel.note(
            "worst",
            {"reason": found.reason or f"{nonfinite} non-finite, {off} rows off", "row": first, "element": found.worst},
        )
    return {
        "status": status,
        "nonfinite": nonfinite,
        "checksum_rows": off,
        "max_ulp": found.max_ulp,
        "rms_ulp": found.rms_ulp,
    }


def _reference(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    import torch

    return (a.to(torch.float32) @ b.to(torch.float32)).to(dtype)


def _projection(y: torch.Tensor, a: torch.Tensor, b: torch.Tensor, seed: int) -> tuple[int, int]:
    """How many rows have a projection on random signs that is off, and the first of them (-1: none)."""
    import torch

    generator = torch.Generator().manual_seed(seed + 2)
    signs = torch.randint(0, 2, (y.shape[1],), generator=generator).double() * 2 - 1
    wide = y.double()
    difference = (wide @ signs - a @ (b @ signs)).abs()
    unit = accuracy.ulp(wide, y.dtype).square().sum(dim=1).sqrt()
    # A float32 accumulation adds sqrt(k) roundoffs of the terms' size to each element, also where the result is 16
    # bits wide.
    inner = (a.square().sum(1) * b.square().sum() / max(1, b.shape[0])).sqrt() * math.sqrt(b.shape[0]) * 2.0**-24
    off = ~(difference <= SIGMAS * (unit + inner))
    return int(off.sum()), int(off.nonzero()[0]) if bool(off.any()) else -1


def matmul_ones(accel: Accelerator, dtype: str, n: int = 1024) -> dict[str, int]:
    """``ones(n, n) @ ones(n, n)``: every element must be exactly ``n``; ``inexact`` counts those that are not."""
    import torch

    positive(n=n)
    kind = torch_dtype(dtype)
    if float(torch.tensor(float(n)).to(kind)) != n:
        raise BadArguments(f"n: {n} cannot be held exactly by {dtype}; take a power of two")
    ones = torch.ones(n, n, dtype=kind, device=accel.device)
    return {"inexact": int((ones @ ones != n).sum())}


def float32_mode(accel: Accelerator) -> dict[str, str]:
    """In what arithmetic float32 matrix products run: ``ieee``, ``tf32`` (10 bits of fraction) or ``bfloat16`` (7)."""
    import torch

    left = torch.full((64, 64), 1024.5, device=accel.device)
    product = (left @ torch.eye(64, device=accel.device)).cpu()
    low = {1024.5: "ieee", 1024.0: "tf32", 1025.0: "tf32"}.get(float(product[0, 0]), "other")
    if low == "tf32":  # 1025 needs 11 bits of significand: TF32 keeps it, bfloat16 rounds it to 1024
        finer = (torch.full((64, 64), 1025.0, device=accel.device) @ torch.eye(64, device=accel.device)).cpu()
        low = "tf32" if float(finer[0, 0]) == 1025.0 else "bfloat16"
    accel.note("product", float(product[0, 0]))
    return {"mode": low}


def gemm_cancelling(
    accel: Accelerator, m: int, n: int, k: int, dtype: str, rows: int = 64, seed: int = 0
) -> dict[str, float | int | str]:
    """``[m, k] @ [k, n]`` whose terms nearly cancel: the second half of each sum takes back the first but for a sixteenth.

    Partial sums of half of ``k`` are far larger than the results. Judged as ``gemm_accuracy`` is; ``of_partial`` is the
    largest error over one roundoff of a partial sum's size ``sqrt(a^2 @ b^2)``: 0.1 where sums are kept in float32, above 1
    where they are kept in 16 bits, so that a kernel which begins to do so after an upgrade is seen by the baseline.
    """
    import torch

    positive(m=m, n=n, k=k, rows=rows)
    host = torch.device("cpu")
    half = (k + 1) // 2
    a1, b1 = normal((m, half), dtype, host, seed), normal((half, n), dtype, host, seed + 1)
    a = torch.cat((a1, a1[:, : k - half]), 1)
    b = torch.cat((b1, (-b1 * (1 - 2.0**-4))[: k - half]), 0).to(torch_dtype(dtype))
    y = (a.to(accel.device) @ b.to(accel.device)).cpu()
    chosen = torch.linspace(0, m - 1, min(rows, m), dtype=torch.float64).round().long().unique()
    a64, b64 = a.double(), b.double()
    (golden,) = accuracy.twice(lambda: [a64[chosen] @ b64])
    with accuracy.one_thread():
        size, partial = a64[chosen].abs() @ b64.abs(), (a64[chosen].square() @ b64.square()).sqrt()
        reference = _reference(a64[chosen], b64, torch_dtype(dtype))
    split = y.element_size() == 2
    rule = tolerances.SPLIT_PRODUCT if split else tolerances.of_operator("mm")
    found = accuracy.compare(y[chosen], golden, reference, rule=rule, magnitude=partial if split else size)
    leans = accuracy.leaning(y[chosen], golden, reference, rule=rule, magnitude=partial)
    if leans and found.word == "supported":
        found = replace(found, word="wrong", reason=leans)
    roundoff = float(torch.finfo(y.dtype).eps) / 2
    error = ((y[chosen].double() - golden).abs() / (roundoff * partial)).nan_to_num(nan=math.inf)
    return {
        "status": found.word,
        "nonfinite": int((~y.isfinite()).sum()),
        "max_ulp": found.max_ulp,
        "rms_ulp": found.rms_ulp,
        "of_partial": float(error.max()),
    }


def matmul_identity(accel: Accelerator, rows: int, k: int = 4, dtype: str = "float32") -> dict[str, int]:
    """``A[rows, k] @ eye(k)`` of small whole numbers must be A, bit for bit; ``inexact`` counts elements that are not.

    Very many rows reach offsets beyond 2^31 bytes, where a library left most of the result unwritten
    (ones(9530399, 4) @ eye(4): 93 % zeros). All on the device, so that size costs little.
    """
    import torch

    positive(rows=rows, k=k)
    kind = torch_dtype(dtype)
    a = (torch.arange(rows * k, device=accel.device) % 251 - 125).to(kind).reshape(rows, k)
    return {"inexact": int((a @ torch.eye(k, dtype=kind, device=accel.device) != a).sum())}
