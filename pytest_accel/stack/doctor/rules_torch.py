"""Rules about torch beside a device: built for it, able to load, and seeing what the vendor's tool sees."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_accel.stack import rocm_text
from pytest_accel.stack.ascend_files import SILENCERS
from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Finding, Probe

Probes = Mapping[str, Probe]
SEES_NONE = "torch-sees-none"
_SOURCE = "source CANN's set_env.sh in the shell or service that starts this process"

# What torch says where it does not get the device, and how that is mended; the first that matches counts.
_MENDS = (
    (
        r"Error 802|system not yet initialized",
        "start the fabric manager (systemctl start nvidia-fabricmanager) of the driver's version",
    ),
    (
        r"Error 803|unsupported display driver",
        "the driver's libraries and kernel module differ: reboot, or load the module anew",
    ),
    (
        r"driver (?:on your system is too old|version is insufficient)",
        "upgrade the driver, or install a torch for an older toolkit",
    ),
    (r"busy or unavailable", "another process holds the device in exclusive mode: end it, or nvidia-smi -c DEFAULT"),
    (r"libhccl\.so|libascend\w*\.so|set_env\.sh", _SOURCE),
    (r"Two accelerators cannot be used", "install a torch without another accelerator beside torch_npu"),
    (r"No HIP GPUs|/dev/kfd", "let this user read and write /dev/kfd and /dev/dri/renderD* (group render)"),
    (r"did not answer within", "the driver or torch hangs: see the kernel's log, reset the device or reboot"),
)


def torch_for_host_only(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """A torch built for no accelerator, or for another one, beside a device that is alive."""
    build = None if facts.image else facts.torch
    for name, says in (("cuda", build and build.cuda), ("rocm", build and build.hip)):
        probe = probes.get(name)
        if build is None or probe is None or probe.state != "present" or not build.known or says:
            continue
        what = f"{len(probe.devices)} device(s) answer, but torch {build.version} was built without {name.upper()}"
        yield Finding(
            f"torch-without-{name}", "error", what, f"install a {name.upper()} build of torch, or say --accel=cpu"
        )
    probe = probes.get("ascend")
    if probe is not None and probe.state == "present" and build is not None and facts.torch_npu is None:
        what = f"{len(probe.devices)} device(s) answer, but torch_npu is not installed beside torch {build.version}"
        mend = "install the torch_npu of this torch's version, or say --accel=cpu"
        yield Finding("torch-npu-missing", "error", what, mend)


def torch_missing(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """No torch in this interpreter beside a device."""
    if facts.torch is None and any(probe.state == "present" and probe.devices for probe in probes.values()):
        yield Finding(
            "torch-missing", "note", "torch is not installed here, so nothing can be measured", "install torch"
        )


def cann_not_sourced(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """CANN's libraries are not where the loader looks, so that torch_npu, and with it torch, cannot be imported."""
    if "ascend" not in probes or facts.torch_npu is None or facts.cann is None or facts.image:
        return
    path = host.env.get("LD_LIBRARY_PATH", "")
    listed = "".join(
        host.read(f"/etc/ld.so.conf.d/{name}") or ""
        for name in host.listdir("/etc/ld.so.conf.d")
        if name.endswith("conf")
    )
    if re.search(r"ascend|cann", path + listed, re.IGNORECASE) or facts.cann.home in path:
        return
    what = f"CANN {facts.cann.version} is in {facts.cann.home}, and neither LD_LIBRARY_PATH nor ld.so.conf names it"
    yield Finding("cann-not-sourced", "error", what, _SOURCE)


def cann_missing(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """torch_npu without any CANN."""
    if "ascend" in probes and facts.torch_npu is not None and facts.cann is None:
        what = f"torch_npu {facts.torch_npu} is installed and no CANN is found"
        yield Finding(
            "cann-missing", "error" if facts.image else "warning", what, "install CANN, and source its set_env.sh"
        )


def fallback_hidden(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """torch_npu was told to be silent about operators that run on the host. Measuring processes do not obey; jobs do."""
    silent = [f"{name}={host.env[name]}" for name in SILENCERS if host.env.get(name) == "1"]
    if "ascend" in probes and silent:
        what = f"{', '.join(silent)} hides which operators run on the host; measuring processes are started without it"
        yield Finding("fallback-hidden", "note", what, "unset it, so that your own jobs say it as well")


def render_nodes(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """ROCm's runtime needs the render nodes as well as /dev/kfd."""
    probe = probes.get("rocm")
    if probe is None or probe.state != "present" or facts.image:
        return
    nodes = [f"/dev/dri/{name}" for name in host.listdir("/dev/dri") if name.startswith("renderD")]
    if nodes and not any(host.access(node, os.R_OK | os.W_OK) for node in nodes):
        what = f"this user may not read and write any of {', '.join(nodes)}"
        mend = "join the group that owns them (render); in a container, --group-add its number"
        yield Finding("no-render-permission", "error", what, mend)


def torch_sees_none(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The tool lists devices and torch has fewer, or none: the message carries both views."""
    seen = facts.seen
    for probe in probes.values():
        if seen is None or probe.state != "present" or not probe.devices:
            continue
        listed = len(probe.devices)
        if seen.error is not None:
            what = f"the driver lists {listed} device(s), torch fails: {' '.join(seen.error.split())[:600]}"
            importing = probe.platform == "ascend" and re.search(
                r"ImportError|ModuleNotFound|OSError|torch_npu", seen.error
            )
            yield Finding("torch-npu-import" if importing else SEES_NONE, "error", what, _mend(seen.error))
        elif seen.count == 0:
            what = f"the driver lists {listed} device(s), torch sees none"
            mend = "compare torch's toolkit with the driver, and the visibility variables"
            yield Finding(SEES_NONE, "error", what, mend)
        elif seen.count != listed:
            what = f"the driver lists {listed} device(s), torch sees {seen.count}"
            yield Finding("torch-counts-otherwise", "warning", what, "compare the visibility variables and permissions")


def runtime_refuses(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """ROCm's tools say why torch gets no device though the kernel's files are in order (a container, a card too new)."""
    probe = probes.get("rocm")
    if probe is None or probe.state != "present" or facts.seen is None or facts.seen.count > 0:
        return
    said = rocm_text.said(host)
    if said is not None:
        yield Finding(said.code, "error", said.words, said.mend)


def architecture_missing(host: Host, probes: Probes, facts: Facts) -> Iterator[Finding]:
    """The device's architecture is in none of the binaries that torch carries, and no PTX can be compiled for it."""
    seen = facts.seen
    if seen is None or not seen.architectures or "HSA_OVERRIDE_GFX_VERSION" in host.env:
        return
    for device in dict.fromkeys(seen.devices):
        if not runs_on(device, seen.architectures):
            built = ", ".join(seen.architectures)
            what = (
                f"torch {facts.torch.version if facts.torch else ''} carries {built}, and none of it runs on {device}"
            )
            yield Finding("architecture-missing", "error", what, "install a torch built for this device")


def runs_on(device: str, carried: Sequence[str]) -> bool:
    """Whether one of ``carried`` runs on ``device`` (``sm_90``, ``gfx942:sramecc+``).

    CUDA: a binary runs on its own major version from its minor on, PTX (``compute_…``) on everything newer; the letters
    of ``sm_90a`` and ``sm_100f`` bind it to one chip or family. AMD: the name itself, flags aside; ``…-generic`` is not judged.
    """
    chip = device.split(":")[0]
    mine = _capability(chip)
    if mine is None:
        if not chip.startswith("gfx"):
            return True  # a name that says nothing of the architecture is not judged
        return chip in {name.split(":")[0] for name in carried} or any(name.endswith("generic") for name in carried)
    for name in carried:
        its = _capability(name)
        if its is None:
            continue
        if name.startswith("compute_") and its <= mine:
            return True
        if name[-1:].isdigit() and its[0] == mine[0] and its[1] <= mine[1]:
            return True
        if not name[-1:].isdigit() and its == mine:
            return True
    return False


def _capability(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[a-z]?", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _mend(error: str) -> str:
    return next((mend for pattern, mend in _MENDS if re.search(pattern, error, re.IGNORECASE)), "see torch's message")


RULES = (
    torch_for_host_only,
    torch_missing,
    cann_not_sourced,
    cann_missing,
    fallback_hidden,
    render_nodes,
    torch_sees_none,
    runtime_refuses,
    architecture_missing,
)
