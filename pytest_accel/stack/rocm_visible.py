"""AMD's variables that narrow which devices a process sees, and what is wrong with them."""

from __future__ import annotations

from pytest_accel.stack.host import Host
from pytest_accel.stack.rocm_kfd import Node
from pytest_accel.stack.types import Finding
from pytest_accel.stack.visible import parse_visible, pick

#: ROCR_VISIBLE_DEVICES is not among them: it narrows first, and these count in what it leaves.
VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def contradiction(host: Host) -> Finding | None:
    """Variables that contradict: torch and others read them differently, or refuse."""
    hip, cuda = host.env.get("HIP_VISIBLE_DEVICES"), host.env.get("CUDA_VISIBLE_DEVICES")
    if hip is not None and cuda is not None and hip != cuda:
        what = f"HIP_VISIBLE_DEVICES={hip!r} and CUDA_VISIBLE_DEVICES={cuda!r} mean the same on AMD, and differ"
        return Finding("visibility-differs", "error", what, "set one of them only")
    rocr = host.env.get("ROCR_VISIBLE_DEVICES")
    if hip and rocr is not None and len(hip.split(",")) > len(rocr.split(",")):  # as torch counts
        what = (
            f"HIP_VISIBLE_DEVICES={hip!r} names more devices than ROCR_VISIBLE_DEVICES={rocr!r} leaves: torch refuses"
        )
        return Finding("visibility-differs", "error", what, "HIP's variable counts in what ROCR's leaves: shorten it")
    return None


def notes(host: Host, nodes: list[Node], shown: list[Node]) -> list[Finding]:
    """What else is odd: devices named that are not there, and a variable that is not followed here."""
    found = []
    hip = next((name for name in VARIABLES if name in host.env), None)
    wanted = len(parse_visible(host.env[hip])) if hip else len(shown)
    if wanted > len(shown):
        what = f"{hip}={host.env[hip or '']!r} names {wanted} devices, {len(shown)} of {len(nodes)} are there"
        found.append(Finding("visibility-beyond", "warning", what, f"name devices that are there in {hip}"))
    if "GPU_DEVICE_ORDINAL" in host.env:
        what = (
            f"GPU_DEVICE_ORDINAL={host.env['GPU_DEVICE_ORDINAL']!r} may hide devices from HIP; it is not followed here"
        )
        found.append(Finding("visibility-ordinal", "warning", what, "unset it, use HIP_VISIBLE_DEVICES"))
    return found


def left(host: Host, nodes: list[Node]) -> tuple[list[Node], list[str]]:
    """The nodes left by ROCr's variable, then by HIP's, which counts in what remains; and the variables that narrowed."""
    hip = next((name for name in VARIABLES if name in host.env), None)
    narrowed = []
    for name in ("ROCR_VISIBLE_DEVICES", hip):
        text = host.env.get(name) if name else None
        if text is not None:
            before = len(nodes)
            nodes = [nodes[place] for place in pick(text, [node.unique or "" for node in nodes])]
            if before and not nodes:
                narrowed.append(f"{name}={text}")
    return nodes, narrowed
