"""The machine around the torch that reports HIP: the files of a recorded MI210 host, and what makes torch say so."""

from __future__ import annotations

import os
from pathlib import Path

DEVICE, HOST = Path(__file__).parent / "rocm_device", Path(__file__).parent / "device" / "simulated_host.py"
HIP, DRIVER, ROCM = "6.4.43482-0f2d60242", "6.12.12", "6.4.0-47"
_NODE = """\
cpu_cores_count 0
simd_count 416
mem_banks_count 1
gfx_target_version 90010
vendor_id 4098
device_id 29711
location_id {place}
domain 0
unique_id {unique}
local_mem_size 68702699520
num_xcc 1
"""


def build(folder: Path, devices: int = 1) -> dict[str, str]:
    """Write the machine below ``folder``; returns the environment in which it is seen."""
    files = {
        "etc/machine-id": "51a1a7edde51a1a7edde51a1a7edde01\n",
        "proc/sys/kernel/osrelease": "5.14.0-503.el9.simulated\n",
        "sys/module/amdgpu/initstate": "live\n",
        "sys/module/amdgpu/version": f"{DRIVER}\n",
        "opt/rocm/.info/version": f"{ROCM}\n",
        "dev/kfd": "",
        "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
    }
    for index in range(devices):
        base = f"sys/bus/pci/devices/0000:{index + 3:02x}:00.0"
        node = f"sys/class/kfd/kfd/topology/nodes/{index + 1}"
        files |= {
            f"{base}/vendor": "0x1002\n",
            f"{base}/device": "0x740f\n",
            f"{base}/class": "0x038000\n",
            f"{base}/uevent": "DRIVER=amdgpu\n",
            f"{base}/vbios_version": "113-D67301-059\n",
            f"{node}/properties": _NODE.format(place=(index + 3) << 8, unique=81985529216486895 + index),
            f"{node}/gpu_id": f"{51110 + index}\n",
            f"dev/dri/renderD{128 + index}": "",
        }
    for name, text in files.items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    site = folder / "site"
    for name, points in (
        ("simulated_rocm", "[torch.backends]\nsimulated_rocm = simulated_rocm:_autoload\n"),
        ("simulated_host", "[pytest11]\nsimulated_host = simulated_host\n"),
    ):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        info.joinpath("entry_points.txt").write_text(points)
    site.joinpath("simulated_host.py").write_text(HOST.read_text(encoding="utf-8"), encoding="utf-8")
    return {
        "PYTHONPATH": f"{DEVICE}{os.pathsep}{site}",
        "SIM_ROOT": str(folder / "root"),
        "SIM_TORCH_HIP": HIP,
        "SIM_ROCM_DEVICES": str(devices),
    }
