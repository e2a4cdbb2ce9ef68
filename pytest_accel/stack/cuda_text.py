"""The driver's words: what its failures mean and how they are mended, and cells of nvidia-smi that are no numbers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pytest_accel.stack.host import TIMED_OUT, CommandResult, Host

_KERNEL_MODULE = re.compile(r"NVRM version:.*?Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)")
_NO_VALUE = re.compile(
    r"\[?(?:N/?A|Not Supported|Not Available|Unknown Error|Function Not Found|GPU is lost|GPU requires reset|"
    r"Insufficient Permissions|No Permission|Requested functionality has been deprecated|ERR!|Deprecated\b.*)\]?",
    re.IGNORECASE,
)

# NVML's error numbers; nvidia-smi exits with the same ones.
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED, MISMATCH, NO_PERMISSION, UNKNOWN = (
    9,
    12,
    15,
    16,
    18,
    4,
    999,
)


@dataclass(frozen=True)
class Failure:
    """Why the driver did not answer: a stable code, the vendor's own words, and the mend."""

    code: str
    words: str
    mend: str


_MENDS = {
    "driver-mismatch": "the driver's libraries were upgraded and the old kernel module is still loaded: reboot, or unload and "
    "load the nvidia modules; in a container, start it anew",
    "driver-not-loaded": "load the kernel module (modprobe nvidia); after a kernel update, build it for the running kernel; "
    "say --accel=cpu if the card is not to be used",
    "library-missing": "install the driver's user-space libraries (libnvidia-ml.so.1, nvidia-smi); in a container, start it "
    "with the NVIDIA runtime (--gpus); say --accel=cpu if the card is not to be used",
    "device-lost": "reset the card (nvidia-smi --gpu-reset) or reboot; see the kernel's log for Xid messages",
    "nvml-unknown": "in a container this follows a reload of systemd, which takes the device nodes away: start the container "
    "anew; else see the kernel's log and reboot",
    "no-permission": "give this user access to /dev/nvidiactl and /dev/nvidia*",
    "no-devices": "the driver is loaded and lists no card: see the kernel's log (dmesg | grep -i nvrm), reseat or reset the card",
    "tool-hangs": "the driver hangs: see the kernel's log, reset the card or reboot",
    "driver-failed": "see the kernel's log (dmesg | grep -i nvrm)",
}
_BY_NUMBER = {
    MISMATCH: "driver-mismatch",
    DRIVER_NOT_LOADED: "driver-not-loaded",
    LIBRARY_NOT_FOUND: "library-missing",
    GPU_IS_LOST: "device-lost",
    RESET_REQUIRED: "device-lost",
    NO_PERMISSION: "no-permission",
    UNKNOWN: "nvml-unknown",
}
_BY_TEXT = (
    (r"version mismatch", "driver-mismatch"),
    (r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", "driver-not-loaded"),
    (r"GPU is lost|Unable to determine the device handle|requires reset|fallen off the bus", "device-lost"),
    (r"No devices were found", "no-devices"),
    (r"couldn't find libnvidia-ml|shared library not found", "library-missing"),
    (r"Insufficient Permissions", "no-permission"),
    (r"Failed to initialize NVML: Unknown Error", "nvml-unknown"),
)


def failure(code: str, words: str) -> Failure:
    """A failure with the mend that belongs to its code."""
    return Failure(code, " ".join(words.split()), _MENDS[code])


def failure_of_nvml(number: int, words: str) -> Failure:
    """The failure behind an NVML error number."""
    return failure(_BY_NUMBER.get(number, "driver-failed"), f"NVML: {words} ({number})")


def failure_of_smi(result: CommandResult) -> Failure | None:
    """The failure that nvidia-smi tells, by its text (on either stream) and its exit code; None where it answered."""
    text = f"{result.out}\n{result.err}".strip()
    for pattern, code in _BY_TEXT:
        if re.search(pattern, text, re.IGNORECASE):
            return failure(code, f"nvidia-smi: {text}")
    if result.rc == 0:
        return None
    if result.rc == TIMED_OUT:
        return failure("tool-hangs", result.err)
    return failure(
        _BY_NUMBER.get(result.rc, "driver-failed"), f"nvidia-smi: {text or 'no output'} (exit code {result.rc})"
    )


def kernel_module(text: str | None) -> tuple[str | None, str | None]:
    """Version and flavour (``open``, ``proprietary``) of the kernel module, from /proc/driver/nvidia/version."""
    match = _KERNEL_MODULE.search(text or "")
    if match is None:
        return None, None
    return match.group(1), "open" if " Open " in match.group() else "proprietary"


def toolkit_installed(host: Host) -> str | None:
    """The toolkit below /usr/local/cuda (``12.8.1``: the last number is the update), which torch's wheels do not use."""
    try:
        return str(json.loads(host.read("/usr/local/cuda/version.json") or "")["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        return None


def cell(text: str) -> str | None:
    """A cell of nvidia-smi's CSV, or None where it says in one of its many ways that it has no value."""
    stripped = text.strip()
    return None if not stripped or _NO_VALUE.fullmatch(stripped) else stripped


def number(text: str) -> float | None:
    """A cell's number without its unit (``160.47 W``), or None."""
    match = re.match(r"[-+]?\d+(?:\.\d+)?", cell(text) or "")
    return float(match.group()) if match else None


def switch(text: str) -> bool | None:
    """A cell that says Enabled or Disabled, or None."""
    return {"enabled": True, "disabled": False}.get((cell(text) or "").lower())
