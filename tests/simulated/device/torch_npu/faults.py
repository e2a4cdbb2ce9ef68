"""The faults: what happens before an operator runs, and what is done to its results. Texts are the vendor's own."""

from __future__ import annotations

import fcntl
import os
import signal
import time

import torch

from torch_npu import switches

_DTYPES = {
    torch.float16: "DT_FLOAT16",
    torch.bfloat16: "DT_BFLOAT16",
    torch.float32: "DT_FLOAT",
    torch.float64: "DT_DOUBLE",
    torch.int64: "DT_INT64",
    torch.int32: "DT_INT32",
    torch.bool: "DT_BOOL",
}
_LAYOUT_ONLY = frozenset(("fill", "copy", "zero", "empty", "full", "where", "masked_fill", "index_put", "cat", "clone"))
_warned: set[str] = set()
_calls: dict[str, int] = {}
_dead: list[str] = []
LEAKED: list[object] = []


def _suffix(code: str, words: str) -> str:
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    return f"\n[ERROR] {now} (PID:{os.getpid()}, Device:0, RankID:-1) {code} {words}"


_claim: list[int] = []


def _claim_device() -> None:
    """In exclusive mode the first process that uses the device has it until it ends; others are told what CUDA's are."""
    assert switches.STATE is not None
    place = switches.STATE / f"claimed-{os.environ.get('ASCEND_RT_VISIBLE_DEVICES', '0')}"
    claimed = os.open(place, os.O_CREAT | os.O_WRONLY)  # held until the process ends
    try:
        fcntl.flock(claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RuntimeError("all NPU devices are busy or unavailable, error code is 107021") from None
    _claim.append(claimed)


def alive() -> None:
    """Raises what a dead context, a lost device or one that another process has says to every call."""
    if switches.EXCLUSIVE and not _claim:
        _claim_device()
    if switches.STATE is not None and (switches.STATE / "lost").exists():
        raise RuntimeError(
            "SetDevice:build/third_party/acl/AclInterface.cpp:77 NPU function error: aclrtSetDevice, error code is 507033"
            + _suffix("ERR00100", "PTA call acl api failed.")
        )
    if _dead:
        raise RuntimeError(_dead[0])


def before(op: str, full: str, dtypes: frozenset[str], kinds: list[torch.dtype]) -> None:
    """What an operator does instead of running, or first."""
    alive()
    if switches.hit(switches.CRASH, op, dtypes):
        os.kill(os.getpid(), signal.SIGSEGV)
    while switches.hit(switches.HANG, op, dtypes):
        time.sleep(1.0)
    if switches.hit(switches.LOSE, op, dtypes) and switches.STATE is not None:
        (switches.STATE / "lost").touch()
        alive()
    if switches.hit(switches.POISON, op, dtypes):
        _dead.append(
            f"The Inner error is reported as above. The process exits for this inner error, and the current working operator "
            f"name is aclnn{op.title()}. NPU function error: aclrtSynchronizeStream, error code is 507015, aicore exception"
            + _suffix("ERR00100", "PTA call acl api failed.")
        )
        alive()
    if switches.hit(switches.OOM, op, dtypes):
        out_of_memory(674 * 2**20)
    if switches.hit(switches.UNSUPPORTED, op, dtypes):
        raise RuntimeError(f"{full} is not supported on this chip" + _suffix("ERR01007", "OPS feature not supported"))
    if switches.hit(switches.DTYPE, op, dtypes):
        kind = next((_DTYPES.get(kind, str(kind)) for kind in kinds if str(kind)[6:] in dtypes), "DT_UNDEFINED")
        raise RuntimeError(
            f"{op}:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:265 NPU function error: call aclnn{op.title()} failed, "
            "error code is 161002"
            + _suffix("ERR00100", "PTA call acl api failed.")
            + f"\nEZ1001: [PID: {os.getpid()}] "
            f"tensor 0 not implemented for {kind}, should be in dtype support list [DT_DOUBLE,]."
        )
    if switches.hit(switches.FALLBACK, op, dtypes):
        _fall_back(full)
    if op in switches.DELAY:
        time.sleep(switches.DELAY[op])


def _fall_back(full: str) -> None:
    if switches.FALLBACK_IS_AN_ERROR:
        raise RuntimeError(
            f"The operator '{full}' would execute its main computation on CPU through dispatcher backend fallback, but CPU "
            "fallback is disabled by TORCH_NPU_FALLBACK_CPU_DISABLE=1."
            + _suffix("ERR01007", "OPS feature not supported")
        )
    if full in _warned or switches.QUIET:
        return
    _warned.add(full)
    words = (
        f"[W compiler_depend.ts:51] Warning: CAUTION: The operator '{full}' is not currently supported on the NPU backend and "
        "will fall back to run on the CPU. This may have performance implications. (function npu_cpu_fallback)\n"
    )
    os.write(2, words.encode())


def out_of_memory(wanted: int) -> None:
    """Raises what the caching allocator raises."""
    raise torch.OutOfMemoryError(
        f"NPU out of memory. Tried to allocate {wanted / 2**20:.2f} MiB (NPU 0; {switches.MEMORY / 2**30:.2f} GiB total "
        "capacity; 60.89 GiB already allocated; 60.89 GiB current active; 126.43 MiB free; 61.02 GiB reserved in total by "
        "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    )


def argument(op: str, raw: torch.Tensor) -> torch.Tensor:
    """An argument as a drifting device reads it."""
    if switches.DRIFT and op in ("cos", "sin") and raw.dtype == torch.float32:
        return raw.half().float()
    return raw


def result(op: str, raw: torch.Tensor) -> torch.Tensor:
    """A result as a faulty device computes it: the tensor itself where nothing is wrong with it."""
    base = op.rstrip("_")
    if not raw.is_floating_point() or raw.layout != torch.strided or base.split(".")[0] in _LAYOUT_ONLY:
        return raw
    if switches.SATURATE and raw.dtype == torch.float16:
        raw = torch.nan_to_num(raw)
    if switches.FLUSH:
        raw = torch.where(raw.abs() < torch.finfo(raw.dtype).smallest_normal, torch.zeros_like(raw), raw)
    if raw.numel() and switches.hit(switches.RANDOM, op, frozenset((str(raw.dtype)[6:],))):
        _calls[op] = _calls.get(op, 0) + 1
        if _calls[op] % 2:
            raw = raw.clone()
            first = raw.as_strided((1,), (1,), raw.storage_offset())
            first.copy_((first.double() * (1 + torch.finfo(raw.dtype).eps)).to(raw.dtype))
    return raw
