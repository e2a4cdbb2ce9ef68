"""On a machine with a CUDA device: doctor agrees with the vendor's own report and with torch, field by field."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi here")

ASK_TORCH = """
import json, torch
print(json.dumps({
    "torch": torch.__version__, "cuda": torch.version.cuda,
    "devices": [
        {"name": p.name, "uuid": str(p.uuid), "bus": p.pci_bus_id, "capability": [p.major, p.minor], "bytes": p.total_memory}
        for p in map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    ],
}))
"""


def command(*argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, **more)


@pytest.fixture(scope="module")
def report():
    done = command(sys.executable, "-m", "pytest_accel.cli", "doctor", "--json", "--accel", "cuda")
    assert done.returncode in (0, 10), done.stderr
    return {**json.loads(done.stdout), "exit": done.returncode}


@pytest.fixture(scope="module")
def pages():
    """``nvidia-smi -q``: the head, and one page a card."""
    done = command("nvidia-smi", "-q")
    if done.returncode != 0:
        pytest.skip("nvidia-smi does not answer here")
    head, *cards = re.split(r"^GPU [0-9A-Fa-f:.]+$", done.stdout, flags=re.MULTILINE)
    return head, cards


def line(page, name):
    match = re.search(rf"^\s*{re.escape(name)}\s*:\s*(.+?)\s*$", page, re.MULTILINE)
    return match.group(1) if match else None


def test_doctor_agrees_with_the_vendors_report(report, pages):
    head, cards = pages
    versions = report["stack"]["versions"]
    assert versions["driver"] == (line(head, "Driver Version") or line(head, "KMD Version"))
    assert versions["cuda_driver"] == (line(head, "CUDA Version") or line(head, "CUDA UMD Version"))
    assert len(report["devices"]) == len(cards) == report["stack"]["hardware"]["count"]
    assert (report["stack"]["hardware"]["links"] is None) is (len(cards) == 1)
    for device, page in zip(report["devices"], cards, strict=True):
        assert device["name"] == line(page, "Product Name")
        assert device["uuid"] == line(page, "GPU UUID")
        bus = line(page, "Bus Id").lower()
        assert device["pci"] == f"{int(bus.split(':')[0], 16):04x}:{bus.split(':', 1)[1]}"
        memory = re.search(r"FB Memory Usage\s*\n\s*Total\s*:\s*(\d+) MiB", page)
        assert device["memory_bytes"] // 2**20 == int(memory.group(1))
    first = cards[0]
    assert versions["vbios"] == line(first, "VBIOS Version")
    assert versions["firmware"] in (line(first, "GSP Firmware Version"), None)
    settings = report["stack"]["settings"]
    assert settings["power_limit_w"] == float(line(first, "Current Power Limit").split()[0])
    assert settings["compute_mode"] == line(first, "Compute Mode").lower()
    for ours, theirs in (("ecc", "ECC Mode"), ("mig_mode", "MIG Mode")):
        said = re.search(rf"^\s*{theirs}\s*\n\s*Current\s*:\s*(\w+)", first, re.MULTILINE)
        assert settings[ours] == {"Enabled": True, "Disabled": False}.get(said.group(1) if said else "")


def test_doctor_agrees_with_torch(report):
    if not report["devices"]:
        pytest.skip("doctor sees no device here")
    done = command(sys.executable, "-c", ASK_TORCH)
    if done.returncode != 0 or not json.loads(done.stdout)["cuda"]:
        pytest.skip("torch here is not for CUDA")
    said = json.loads(done.stdout)
    assert report["stack"]["versions"]["torch"] == said["torch"]
    assert report["stack"]["versions"]["toolkit"] == said["cuda"]
    assert len(report["devices"]) == len(said["devices"])
    for device, its in zip(report["devices"], said["devices"], strict=True):
        assert device["name"] == its["name"]
        assert device["uuid"] == f"GPU-{its['uuid']}"
        assert int(device["pci"].split(":")[1], 16) == its["bus"]
        # torch leaves out what the driver keeps for itself: less than 2 % of the card.
        assert 0.98 * device["memory_bytes"] < its["bytes"] <= device["memory_bytes"]
    capability = said["devices"][0]["capability"]
    assert report["stack"]["hardware"]["capability"] == "{}.{}".format(*capability)
    codes = {finding["code"] for finding in report["findings"]}
    assert not codes & {"torch-sees-none", "torch-without-cuda", "architecture-missing", "driver-mismatch"}


def test_a_hidden_device_is_unfit(report):
    if not report["devices"]:
        pytest.skip("doctor sees no device here")
    import os

    done = command(
        *(sys.executable, "-m", "pytest_accel.cli", "doctor", "--json", "--accel", "cuda"),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 10
    assert "devices-hidden" in {finding["code"] for finding in json.loads(done.stdout)["findings"]}
