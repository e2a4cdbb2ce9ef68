"""Timed workloads: matrix product, attention, RMS norm, copies. Each also shows once that its result is right.

Every one returns its raw samples as ``time`` in microseconds a call. torch is imported inside.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_accel.measure.accuracy import one_thread
from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.stack.types import ErrorKind
from pytest_accel.workloads.inputs import normal, positive, torch_dtype

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

Metrics = dict[str, "float | str | Sequence[float]"]
ROUGH = 8.0  # roundoffs of the dtype: a correct kernel's relative error in norm is below one, a wrong one's near 1/u
CHECK_ROWS = 8


def gemm(
    accel: Accelerator,
    m: int,
    n: int,
    k: int,
    dtype: str,
    trans_a: bool = False,
    trans_b: bool = False,
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``[m, k] @ [k, n]`` of normal numbers; ``times_float32`` is the ratio to the same product in float32."""
    positive(m=m, n=n, k=k)
    a = normal((k, m) if trans_a else (m, k), dtype, accel.device, seed)
    b = normal((n, k) if trans_b else (k, n), dtype, accel.device, seed + 1)
    a, b = a.t() if trans_a else a, b.t() if trans_b else b
    rows = a[:: max(1, m // CHECK_ROWS)]
    correct = _agrees((a @ b)[:: max(1, m // CHECK_ROWS)], lambda: rows.cpu().double() @ b.cpu().double(), dtype)
    flops = 2.0 * m * n * k
    times = accel.time(
        lambda: a @ b,
        flops=flops,
        bytes=float((m * k + k * n + m * n) * a.element_size()),
        dtype=dtype,
        min_time=min_time,
    )
    metrics = _figures(accel, times, correct, flops=flops, dtype=dtype)
    if dtype != "float32":
        a, b = a.float(), b.float()
        plain = accel.time(lambda: a @ b, min_time=min_time / 4, min_samples=5, max_time=1.0)
        metrics["times_float32"] = statistics.median(times) / statistics.median(plain)
    return metrics


def attention(
    accel: Accelerator,
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    dtype: str,
    kv_heads: int = 0,
    causal: bool = False,
    backend: str = "auto",
    seed: int = 0,
    min_time: float = 0.3,
) -> Metrics:
    """Time ``scaled_dot_product_attention``; ``kv_heads`` 0 means as many as ``heads`` (fewer: grouped queries).

    ``backend`` is auto, flash, efficient, cudnn or math; one that does not take these inputs is UNMEASURED.
    """
    import torch
    from torch.nn import functional

    positive(batch=batch, heads=heads, seq_q=seq_q, seq_kv=seq_kv, head_dim=head_dim)
    kv = kv_heads or heads
    if heads % kv:
        raise BadArguments(f"kv_heads: {kv} does not divide heads ({heads})")
    q = normal((batch, heads, seq_q, head_dim), dtype, accel.device, seed)
    key = normal((batch, kv, seq_kv, head_dim), dtype, accel.device, seed + 1)
    value = normal((batch, kv, seq_kv, head_dim), dtype, accel.device, seed + 2)

    def run() -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, key, value, is_causal=causal, enable_gqa=kv != heads)

    def golden() -> torch.Tensor:
        one, keys, values = q[-1:, -1:].cpu().double(), key[-1:, -1:].cpu().double(), value[-1:, -1:].cpu().double()
        # The last query rows of the last head are enough; under causality row i sees keys up to i.
        tail = one[..., -CHECK_ROWS:, :]
        scores = tail @ keys.transpose(-1, -2) / head_dim**0.5
        if causal:
            places = torch.arange(seq_q - tail.shape[-2], seq_q)[:, None]
            scores = scores.masked_fill(torch.arange(seq_kv)[None] > places, float("-inf"))
        return scores.softmax(-1) @ values

    flops = 4.0 * batch * heads * seq_q * seq_kv * head_dim * (0.5 if causal else 1.0)
    size = q.element_size() * head_dim * batch * (2 * heads * seq_q + 2 * kv * seq_kv)
    with _backend(backend):
        try:
            out = run()
        except RuntimeError as error:
            if backend != "auto" and accel.classify(error) not in (ErrorKind.OUT_OF_MEMORY, ErrorKind.POISONED):
                raise Unmeasured(f"attention backend '{backend}' does not take these inputs: {error}") from error
            raise
        correct = _agrees(out[-1:, -1:, -CHECK_ROWS:], golden, dtype)
        times = accel.time(run, flops=flops, bytes=float(size), dtype=dtype, min_time=min_time)
    return _figures(accel, times, correct, flops=flops, moved=float(size), dtype=dtype)


def rms_norm(accel: Accelerator, rows: int, hidden: int, dtype: str, seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time ``rms_norm`` over ``[rows, hidden]`` with a weight; bytes are one read and one write of the input."""
    from torch.nn import functional

    positive(rows=rows, hidden=hidden)
    x = normal((rows, hidden), dtype, accel.device, seed)
    weight = normal((hidden,), dtype, accel.device, seed + 1)

    def run() -> torch.Tensor:
        return functional.rms_norm(x, (hidden,), weight, eps=1e-6)

    def golden() -> torch.Tensor:
        some = x[-CHECK_ROWS:].cpu().double()
        return some * (some.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.cpu().double()

    correct = _agrees(run()[-CHECK_ROWS:], golden, dtype)
    moved = 2.0 * rows * hidden * x.element_size()
    times = accel.time(run, bytes=moved, min_time=min_time)
    return _figures(accel, times, correct, moved=moved)


def copy(accel: Accelerator, megabytes: int, kind: str = "d2d", seed: int = 0, min_time: float = 0.3) -> Metrics:
    """Time a copy of ``megabytes`` MiB: ``d2d`` on the device, ``h2d`` from pinned host memory, ``d2h`` to it.

    ``d2d`` counts one read and one write of the buffer, the others the bytes that cross the bus.
    """
    import torch

    positive(megabytes=megabytes)
    if kind not in ("d2d", "h2d", "d2h"):
        raise BadArguments(f"kind: must be d2d, h2d or d2h, not {kind}")
    count = megabytes * 2**20 // 4
    near = normal((count,), "float32", accel.device, seed)
    # Pinning needs an accelerator; on the host's own platform the memory is what it is.
    pin = accel.device.type != "cpu"
    far = torch.empty(count, dtype=torch.float32, pin_memory=pin) if kind != "d2d" else torch.empty_like(near)
    source, target = (far, near) if kind == "h2d" else (near, far)
    if kind == "h2d":
        far.copy_(near)
        near = near.clone()
        target = near

    def run() -> torch.Tensor:
        return target.copy_(source, non_blocking=True)

    target.fill_(float("nan"))
    run()
    accel.synchronize()
    correct = bool((target.to(source.device) == source).all())
    moved = float(count * 4 * (2 if kind == "d2d" else 1))
    times = accel.time(run, bytes=moved if kind == "d2d" else None, min_time=min_time)
    return _figures(accel, times, correct, moved=moved, of_roof=kind == "d2d")


def _agrees(result: torch.Tensor, golden: Callable[[], torch.Tensor], dtype: str) -> bool:
    """True where the result is finite and within some roundoffs of float64 in relative norm (TF32's for float32)."""
    import torch

    y = result.detach().cpu().double()
    with one_thread():
        g = golden()
    u = max(torch.finfo(torch_dtype(dtype)).eps, 2.0**-10)
    return bool(y.isfinite().all()) and bool((y - g).norm() <= ROUGH * u * g.norm())


def _figures(
    accel: Accelerator,
    times: list[float],
    correct: bool,
    *,
    flops: float = 0.0,
    moved: float = 0.0,
    dtype: str = "",
    of_roof: bool = True,
) -> Metrics:
    """The metrics of a timed workload; ``roof_share`` is the larger of the two shares, only where a roof is known."""
    us = statistics.median(times)
    metrics: Metrics = {"time": times, "correct": "yes" if correct else "no"}
    shares = []
    if flops:
        metrics["tflops"] = flops / us * 1e-6
        roof = accel.roof_tflops(dtype)
        shares += [flops / us * 1e-6 / roof] if roof else []
    if moved:
        metrics["gbps"] = moved / us * 1e-3
        if of_roof and accel.roof is not None and accel.roof.gbps:
            shares.append(moved / us * 1e-3 / accel.roof.gbps)
    if shares:
        metrics["roof_share"] = max(shares)
    return metrics


@contextlib.contextmanager
def _backend(name: str) -> Iterator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    if name == "auto":
        yield
        return
    if name not in backends:
        raise BadArguments(f"backend: must be auto, {', '.join(backends)}, not {name}")
    with sdpa_kernel(backends[name]):
        yield
