"""What every platform's probe tells of packages, communication and processes; and how long looking takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pytest_accel.stack.common import PACKAGES, communication, host_versions, other_processes
from pytest_accel.stack.identity import device_identity

NIC = "/sys/class/infiniband/mlx5_0/ports/1"


def test_every_package_has_a_version_or_none(machines):
    host = machines.Recorded(
        packages={"torch": "2.9.1+rocm6.4", "pytorch-triton-rocm": "3.5.1", "onnxruntime-rocm": "1.22.1"}
    )
    found = host_versions(host)
    assert set(PACKAGES) <= set(found)
    assert (found["torch"], found["triton"], found["onnxruntime"]) == ("2.9.1+rocm6.4", "3.5.1", "1.22.1")
    assert [name for name in PACKAGES if found[name] is not None] == ["torch", "triton", "onnxruntime"]
    assert found["kernel"] == "6.8.0-79-generic"


def test_packages_are_not_imported():
    code = (
        "import sys; from pytest_accel.stack.host import Host; from pytest_accel.stack.common import host_versions\n"
        "assert host_versions(Host())['python']; print([name for name in ('torch', 'numpy', 'triton') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_only_listed_communication_settings_are_told_and_only_where_set(machines):
    env = {
        "NCCL_ALGO": "Ring",
        "HCCL_BUFFSIZE": "200",
        "NCCL_COMM_ID": "192.0.2.1:9",
        "HCCL_IF_IP": "192.0.2.1",
        "API_KEY": "x",
    }
    assert communication(machines.Recorded(env=env)) == {"NCCL_ALGO": "Ring", "HCCL_BUFFSIZE": "200"}


def test_the_network_cards_rate_and_state_are_told(machines):
    files = {f"{NIC}/rate": "400 Gb/sec (4X NDR)\n", f"{NIC}/state": "4: ACTIVE\n"}
    assert communication(machines.Recorded(files)) == {"nic": "mlx5_0/1 400 Gb/sec (4X NDR), ACTIVE"}
    told = communication(machines.Recorded({f"{NIC}/rate": None, f"{NIC}/state": ""}))
    assert told == {"nic": "mlx5_0/1 rate unknown, state unknown"}


def test_descendants_are_no_others_and_foreign_ids_are_unknown(machines):
    own = os.getpid()
    host = machines.Recorded({"/proc/9001/status": f"Name: x\nPPid:\t{own}\n", "/proc/9002/status": "PPid:\t1\n"})
    assert other_processes(host, [own, 9001, 9002], own_is_among=True) == 1
    assert other_processes(host, [9002], own_is_among=True) is None
    assert other_processes(host, [9002], own_is_among=False) == 1
    assert other_processes(host, [], own_is_among=True) == 0


def test_a_slot_is_another_device_in_another_machine(machines):
    one, two = (machines.Recorded({"/etc/machine-id": name}) for name in ("a", "b"))
    assert device_identity(one, None, "0000:03:00.0") != device_identity(two, None, "0000:03:00.0")
    assert device_identity(one, "GPU-1", "0000:03:00.0") == device_identity(two, "GPU-1", "0000:04:00.0")
    assert device_identity(one, None, None) == ""


@pytest.mark.skipif(
    os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/kfd"), reason="an accelerator is here"
)
def test_looking_for_accelerators_takes_no_time_where_there_is_none():
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.registry import names, platform

    best = 1.0
    for _ in range(3):
        start = time.perf_counter()
        for name in names():
            platform(name).probe(Host())
        best = min(best, time.perf_counter() - start)
    assert best < 0.3
