"""What the simulated device shall do wrong, read once a process from the environment.

A rule is ``operator`` or ``operator:dtype`` (``topk``, ``topk:bfloat16``), the operator by its ATen name without overload;
several are separated by commas. ``*`` stands for every operator.

======================== =============================================================================================
variable                 what it does
======================== =============================================================================================
SIM_NPU_UNSUPPORTED      the operator does not exist (ERR01007)
SIM_NPU_DTYPE            the operator refuses the dtype (EZ1001)
SIM_NPU_FALLBACK         the host computes it, and says so once a process on descriptor 2
SIM_NPU_SATURATE         ``1``: float16 arithmetic holds its largest number where it should give infinity, and 0 for NaN
SIM_NPU_DRIFT            ``1``: cos and sin round their argument to float16 first
SIM_NPU_FLUSH            ``1``: subnormal results become 0
SIM_NPU_RANDOM           the operator's first element differs by one step from call to call
SIM_NPU_DELAY            ``operator=seconds``
SIM_NPU_CRASH            the process dies by SIGSEGV
SIM_NPU_HANG             the call never returns
SIM_NPU_POISON           an AI core exception, after which this process's context is dead
SIM_NPU_LOSE             the same, and the device is gone for every process (needs SIM_NPU_STATE)
SIM_NPU_OOM              the allocator raises
SIM_NPU_LEAK             results of the operator are never freed
SIM_NPU_BROKEN           ``1``: torch_npu cannot be imported, and torch with it
SIM_NPU_EXCLUSIVE        ``1``: a device takes one process at a time (needs SIM_NPU_STATE)
SIM_NPU_DEVICES          how many devices there are (1)
SIM_NPU_MEMORY           bytes of memory a device has (64 GiB)
SIM_NPU_STATE            a folder where a lost device is remembered (file ``lost``)
======================== =============================================================================================

The real one's own variables work too: ``TORCH_NPU_FALLBACK_CPU_DISABLE``, ``TORCH_NPU_WARNING_DISABLE``,
``ASCEND_RT_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import os
from pathlib import Path

Rules = frozenset[tuple[str, str]]


def _rules(name: str) -> Rules:
    text = os.environ.get(name, "")
    return frozenset((op, dtype) for op, _, dtype in (rule.strip().partition(":") for rule in text.split(",") if rule))


def _on(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


UNSUPPORTED = _rules("SIM_NPU_UNSUPPORTED")
DTYPE = _rules("SIM_NPU_DTYPE")
FALLBACK = _rules("SIM_NPU_FALLBACK")
RANDOM = _rules("SIM_NPU_RANDOM")
CRASH = _rules("SIM_NPU_CRASH")
HANG = _rules("SIM_NPU_HANG")
POISON = _rules("SIM_NPU_POISON")
LOSE = _rules("SIM_NPU_LOSE")
OOM = _rules("SIM_NPU_OOM")
LEAK = _rules("SIM_NPU_LEAK")
SATURATE = _on("SIM_NPU_SATURATE")
DRIFT = _on("SIM_NPU_DRIFT")
FLUSH = _on("SIM_NPU_FLUSH")
BROKEN = _on("SIM_NPU_BROKEN")
EXCLUSIVE = _on("SIM_NPU_EXCLUSIVE")
DELAY = {
    op: float(seconds)
    for op, _, seconds in (r.partition("=") for r in os.environ.get("SIM_NPU_DELAY", "").split(",") if r)
}
DEVICES = int(os.environ.get("SIM_NPU_DEVICES", "1"))
MEMORY = int(os.environ.get("SIM_NPU_MEMORY", 64 * 2**30))
STATE = Path(os.environ["SIM_NPU_STATE"]) if os.environ.get("SIM_NPU_STATE") else None
FALLBACK_IS_AN_ERROR = _on("TORCH_NPU_FALLBACK_CPU_DISABLE")
QUIET = _on("TORCH_NPU_WARNING_DISABLE")


def hit(rules: Rules, operator: str, dtypes: frozenset[str]) -> bool:
    """True where a rule names this operator, and no dtype or one of ``dtypes``."""
    if not rules:
        return False
    base = operator.rstrip("_")
    return any(op in (base, "*") and (not dtype or dtype in dtypes) for op, dtype in rules)
