"""What a host's own processors are, read from /proc and /sys."""

from __future__ import annotations

import math
import re

from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Value

#: Instruction sets by which libraries choose their kernels (Linux's words of /proc/cpuinfo, x86 then Arm).
ISA = (
    "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
    "amx_fp16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svebf16", "sme",
)  # fmt: skip

# Arm names no model in /proc/cpuinfo, only codes: (implementer, part), from the kernel's arch/arm64/include/asm/cputype.h.
_ARM = {
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0x48", "0xd01"): "HiSilicon TSV110",
    ("0xc0", "0xac3"): "Ampere-1",
}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_CGROUP = "/sys/fs/cgroup"


def architecture(host: Host) -> str:
    """``x86_64``, ``aarch64``, …: one word for one architecture."""
    machine = host.machine().lower() or "unknown"
    return _MACHINES.get(machine, machine)


def processors(host: Host) -> list[dict[str, str]]:
    """The blocks of /proc/cpuinfo, one a logical processor, as key to value."""
    blocks = []
    for block in re.split(r"\n\s*\n", (host.read("/proc/cpuinfo") or "").strip()):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in fields:
            blocks.append(fields)
    return blocks


def hardware(host: Host) -> dict[str, Value]:
    """``name``, ``architecture``, ``cores`` (physical, usable), ``threads`` (logical, usable), ``memory_bytes``, ``isa``.

    ``cores`` is bounded by the container's quota as well as by affinity: both bound what a timing can reach.
    """
    blocks = processors(host)
    usable = host.cpus()
    quota = cpu_quota(host)
    cores = max(_physical(host, blocks, usable), 1)
    if quota is not None:
        cores = max(min(cores, math.ceil(quota)), 1)
    flags = set(_first(blocks, "flags", "Features").split())
    return {
        "name": model(blocks),
        "architecture": architecture(host),
        "cores": cores,
        "threads": len(usable),
        "cpu_quota": quota,
        "memory_bytes": memory_bytes(host),
        "isa": " ".join(name for name in ISA if name in flags),
    }


def _first(blocks: list[dict[str, str]], *names: str) -> str:
    return next((block[name] for block in blocks for name in names if block.get(name)), "")


def model(blocks: list[dict[str, str]]) -> str:
    """The processor's model as the kernel names it, white space made single."""
    named = _first(blocks, "model name", "cpu model", "Model")
    if named:
        return " ".join(named.split())
    codes = (_first(blocks, "CPU implementer"), _first(blocks, "CPU part"))
    if all(codes):
        return _ARM.get(codes, f"Arm {codes[0]}:{codes[1]}")
    return "unknown CPU"


def microcode(host: Host) -> str | None:
    """The microcode's version, where the kernel shows it."""
    return _first(processors(host), "microcode") or None


def _physical(host: Host, blocks: list[dict[str, str]], usable: frozenset[int]) -> int:
    """Physical cores among the usable logical processors; the logical count where the kernel does not tell."""
    cores = set()
    by_number = {int(block["processor"]): block for block in blocks if block["processor"].isdigit()}
    for number in usable:
        block = by_number.get(number, {})
        if "core id" in block:
            cores.add((block.get("physical id", "0"), block["core id"]))
        else:
            base = f"/sys/devices/system/cpu/cpu{number}/topology"
            core = host.read(f"{base}/core_id")
            package = host.read(f"{base}/physical_package_id")
            cores.add((package or "", core) if core is not None else ("logical", str(number)))
    return len(cores)


def cpu_quota(host: Host) -> float | None:
    """How many processors' time the control group allows, or None where it does not bound it."""
    quota, _, period = (host.read(f"{_CGROUP}/cpu.max") or "").strip().partition(" ")
    if not quota:
        quota = (host.read(f"{_CGROUP}/cpu/cpu.cfs_quota_us") or "").strip()
        period = (host.read(f"{_CGROUP}/cpu/cpu.cfs_period_us") or "").strip()
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return None


def memory_bytes(host: Host) -> int | None:
    """The memory that this process may use in bytes: the machine's, or the control group's bound where that is lower."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    total = int(match.group(1)) * 1024 if match else None
    bound = (host.read(f"{_CGROUP}/memory.max") or host.read(f"{_CGROUP}/memory/memory.limit_in_bytes") or "").strip()
    if bound.isdigit() and (total is None or int(bound) < total):
        return int(bound)
    return total
