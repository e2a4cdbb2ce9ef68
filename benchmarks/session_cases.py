"""The twelve cases of recorded sessions, as functions of how much more work they do (1.0, 1.02, 1.05).

One dimension of each case grows; where the device does not take longer for it (launches, whole tiles), the replay sees that
by the recorded times and leaves the case out. ``small`` divides sizes, so that a CPU can try the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Make = Callable[[torch.device, float, int], Callable[[], object]]

WORKLOADS = {  # whose shipped tolerances each case is judged by; "" for those that have the general one of a time
    "gemm_bf16_8192": "gemm",
    "gemm_fp16_4096": "gemm",
    "gemv_fp16_1x4096": "gemm",
    "sdpa_bf16": "attention",
    "sdpa_decode_bf16": "attention",
    "rmsnorm": "rms_norm",
    "softmax": "",
    "copy_1GiB": "copy",
    "launch_add1": "launch",
    "h2d_64MiB": "copy",
    "conv_fp16": "",
    "encoder_layer": "",
}


def _more(size: int, share: float, small: int) -> int:
    return max(1, round(size * share / small))


def _product(m: int, n: int, k: int, dtype: str) -> Make:
    def make(device: torch.device, share: float, small: int) -> Callable[[], object]:
        import torch

        kind = getattr(torch, dtype)
        rows = m if m == 1 else _more(m, share, small)
        columns = _more(n, share if m == 1 else 1.0, small)
        a = torch.randn(rows, max(1, k // small), device=device, dtype=kind)
        b = torch.randn(max(1, k // small), columns, device=device, dtype=kind)
        return lambda: a @ b

    return make


def _attention(batch: int, heads: int, seq_q: int, seq_kv: int, causal: bool) -> Make:
    def make(device: torch.device, share: float, small: int) -> Callable[[], object]:
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        many = _more(batch * heads, 1.0, small)
        queries = _more(seq_q, share, small) if seq_q > 1 else 1
        keys = _more(seq_kv, share, small)
        q = torch.randn(1, many, queries, 128, device=device, dtype=torch.bfloat16)
        k, v = (torch.randn(1, many, keys, 128, device=device, dtype=torch.bfloat16) for _ in range(2))
        return lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)

    return make


def _rows(rows: int, width: int, run: str) -> Make:
    def make(device: torch.device, share: float, small: int) -> Callable[[], object]:
        import torch
        from torch.nn import functional

        x = torch.randn(_more(rows, share, small), width, device=device, dtype=torch.bfloat16)
        weight = torch.ones(width, device=device, dtype=torch.bfloat16)
        if run == "softmax":
            return lambda: x.softmax(-1)
        return lambda: functional.rms_norm(x, (width,), weight, 1e-6)

    return make


def _copy(megabytes: int, from_host: bool) -> Make:
    def make(device: torch.device, share: float, small: int) -> Callable[[], object]:
        import torch

        count = _more(megabytes * 2**18, share, small)
        pin = from_host and device.type != "cpu"
        source = torch.randn(count, pin_memory=pin) if from_host else torch.randn(count, device=device)
        target = torch.empty(count, device=device)
        return lambda: target.copy_(source, non_blocking=True)

    return make


def _launch(device: torch.device, share: float, small: int) -> Callable[[], object]:
    import torch

    x = torch.zeros(_more(1024, share, 1), device=device)
    return lambda: x.add_(1)


def _convolution(device: torch.device, share: float, small: int) -> Callable[[], object]:
    import torch

    kind = torch.float32 if device.type == "cpu" else torch.float16
    x = torch.randn(_more(64, share, small), 256, 56, 56, device=device, dtype=kind)
    convolution = torch.nn.Conv2d(256, 256, 3, padding=1, bias=False).to(device, kind)

    def run() -> object:
        with torch.no_grad():
            return convolution(x)

    return run


def _encoder(device: torch.device, share: float, small: int) -> Callable[[], object]:
    import torch

    kind = torch.float32 if device.type == "cpu" else torch.bfloat16
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True).to(device, kind).eval()
    x = torch.randn(8, _more(512, share, small), 1024, device=device, dtype=kind)

    def run() -> object:
        with torch.no_grad():
            return layer(x)

    return run


CASES: dict[str, Make] = {
    "gemm_bf16_8192": _product(8192, 8192, 8192, "bfloat16"),
    "gemm_fp16_4096": _product(4096, 4096, 4096, "float16"),
    "gemv_fp16_1x4096": _product(1, 4096, 4096, "float16"),
    "sdpa_bf16": _attention(4, 32, 4096, 4096, causal=True),
    "sdpa_decode_bf16": _attention(32, 32, 1, 4096, causal=False),
    "rmsnorm": _rows(8192, 8192, "norm"),
    "softmax": _rows(8192, 32768, "softmax"),
    "copy_1GiB": _copy(1024, from_host=False),
    "launch_add1": _launch,
    "h2d_64MiB": _copy(64, from_host=True),
    "conv_fp16": _convolution,
    "encoder_layer": _encoder,
}
