"""Public reports of harm after an upgrade, each as the kind of fault that it stands for; its issue threads are named with it."""

from __future__ import annotations

import json
import sys

import pytest

from pytest_accel.stack import versions
from pytest_accel.stack.chips import slug_of
from pytest_accel.stack.choose import choose, visible_for_worker
from pytest_accel.stack.cuda import CudaPlatform
from pytest_accel.stack.doctor.examine import examine_machine
from pytest_accel.stack.doctor.torch_child import MARK
from pytest_accel.stack.registry import platform
from pytest_accel.stack.visible import parse_visible

CUDA_TORCH = {("torch", "torch/version.py"): "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n"}


# --- A15: the device is gone after an upgrade (huggingface_hub#4134, pytorch#28195, nvidia-docker#584) -----------------
@pytest.mark.parametrize(
    ("torch_says", "mend"),
    [
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
            "fabric manager",
        ),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040).", "upgrade the driver"),
        (None, "visibility variables"),
    ],
)
def test_a15_a_tool_that_lists_a_device_and_a_torch_that_gets_none_is_unfit_with_both_views(machines, torch_says, mend):
    answer = {"count": 0, "error": torch_says, "archs": ["sm_90"], "devices": [], "version": "2.13.0+cu130"}
    host = machines.Recorded(
        libraries={"pynvml": machines.Nvml()},
        packages={"torch": "2.13.0+cu130"},
        package_files=CUDA_TORCH,
        commands={sys.executable: machines.Result(0, MARK + json.dumps(answer), "")},
    )
    machine = choose("auto", host, None)
    assert (machine.platform, len(machine.probe.devices)) == ("cuda", 1)
    (wrong,) = (found for found in examine_machine(machine, host, ask=True) if found.severity == "error")
    assert wrong.code == "torch-sees-none"
    assert "the driver lists 1 device(s), torch" in wrong.message
    assert (torch_says or "sees none") in wrong.message
    assert mend in wrong.mend


def test_a15_a_kernel_module_older_than_the_libraries_is_broken_by_nvml_by_the_tool_and_by_the_files(
    machines, fixture_text
):
    words = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n"
    proc = {"/proc/driver/nvidia/version": fixture_text("nvidia/proc_version_open.txt")}
    by_nvml = machines.Recorded(proc, libraries={"pynvml": machines.Nvml(wrong=18)})
    by_tool = machines.Recorded(proc, {"nvidia-smi": machines.Result(18, words, "")})
    by_files = machines.Recorded(proc, libraries={"pynvml": machines.Nvml(driver="590.48.01")})
    for host in (by_nvml, by_tool, by_files):
        machine = choose("auto", host, None)
        assert machine.platform == "cuda"
        assert machine.unfit is not None
        assert machine.unfit[0] == "accelerator-broken"
        assert {found.code for found in machine.probe.findings} == {"driver-mismatch"}
        assert "reboot" in machine.unfit[1]


def test_a15_a_machine_that_measured_on_a_device_and_finds_none_is_env_under_auto(machines):
    machine = choose("auto", machines.Recorded(), None, baseline_hint="nvidia-h200")
    assert machine.unfit is not None
    assert machine.unfit[0] == "accelerator-gone"


# --- B06: which device does a worker get (aimnetcentral PR#103, triton PR#11831, rocm-libraries PR#11898) --------------
@pytest.mark.parametrize(
    ("listed", "gets"),
    [
        ("1", ["1"] * 8),
        ("2,3", ["2", "3"] * 4),
        ("GPU-a,GPU-b", ["GPU-a", "GPU-b"] * 4),
        ("", [""] * 8),
        (None, ["0", "1", "2", "3"] * 2),
    ],
)
def test_b06_eight_workers_stay_inside_the_callers_list(listed, gets):
    assert [visible_for_worker(listed, 4, worker) for worker in range(8)] == gets


# --- C13: fields of nvidia-smi (i3pystatus PR#776, prmon PR#318, Device-SMI) -------------------------------------------
@pytest.mark.parametrize(
    "nothing", ["[Not Supported]", "[N/A]", "N/A", "[Insufficient Permissions]", "[Unknown Error]", ""]
)
@pytest.mark.parametrize("lines", [1, 2])
def test_c13_a_cell_without_a_value_is_none_and_no_number_of_lines_is_assumed(machines, nothing, lines):
    head = "index, name, uuid, pci.bus_id, driver_version, memory.total [MiB], pci.device_id, compute_cap, "
    head += "enforced.power.limit [W], ecc.mode.current, compute_mode, mig.mode.current, vbios_version"
    row = "{0}, NVIDIA H200, GPU-{0}, 00000000:0{0}:00.0, 418.87.01, " + ", ".join([nothing] * 8)
    text = "\n".join([head, *(row.format(number) for number in range(lines))]) + "\n\n"
    probe = CudaPlatform().probe(machines.SmiHost(machines.smi_from_csv(text)))
    assert len(probe.devices) == lines
    assert {device.memory_bytes for device in probe.devices} == {None}
    assert {device.capability for device in probe.devices} == {None}
    assert set(probe.settings.values()) == {None}
    assert probe.versions["driver_user"] == "418.87.01"


def test_c13_no_line_is_no_device_and_versions_are_no_floats(machines):
    empty = machines.smi_from_csv("index, name, uuid, pci.bus_id, driver_version\n")
    probe = CudaPlatform().probe(machines.SmiHost(empty, machines.h200_on_bus))
    assert (probe.state, probe.devices) == ("broken", ())
    drivers = ["550.54.14", "418.87.01", "535.161.08", "535.54.03"]
    assert sorted(drivers, key=versions.key) == ["418.87.01", "535.54.03", "535.161.08", "550.54.14"]


# --- C15: UUIDs, MIG, two ways of counting (vllm#41848, pytorch#90543, pytorch#86539) ----------------------------------
def test_c15_text_is_never_taken_for_a_number():
    assert parse_visible("GPU-8932f937-d72c") == ["GPU-8932f937-d72c"]
    assert parse_visible("MIG-8932f937") == ["MIG-8932f937"]
    assert [parse_visible(text) for text in ("0,1,-1,2", "1,1", "0, 1", "0x1", "NoDevFiles", "")] == [
        [0, 1],
        [],
        [0, 1],
        [0],
        [],
        [],
    ]


def test_c15_the_device_that_is_watched_is_the_one_that_is_used_whatever_the_order(machines):
    cards = [machines.Card(uuid=f"GPU-{n}", bus=f"00000000:0{n}:00.0", reasons=8 * (n == 2)) for n in range(3)]
    host = machines.Recorded(libraries={"pynvml": machines.Nvml(cards=cards)}, env={"CUDA_VISIBLE_DEVICES": "2,0"})
    first, second = CudaPlatform().probe(host).devices
    assert (first.uuid, second.uuid) == ("GPU-2", "GPU-0")
    assert platform("cuda").telemetry(host, first).throttled == ("hardware slow-down",)
    assert platform("cuda").telemetry(host, second).throttled == ()


def test_c15_a_slice_and_a_whole_card_share_no_baseline():
    whole, slice_ = (slug_of("nvidia", "NVIDIA H100 80GB HBM3", "10de:2330", part) for part in (None, "1g.10gb"))
    assert whole != slice_


# --- C16: version strings and detection (transformers#29286, pytorch PR#166085, FlagTree#1022, monarch PR#3740) --------
@pytest.mark.parametrize(
    "raw",
    [
        "2.0.0.nv23.05",
        "6.4.43482-0f2d60242",
        "6.0.32831+",
        "8.2.RC1.alpha003",
        "515.65.01-1ubuntu",
        "2.6.0a0+ecf3bae40a.nv25.01",
    ],
)
def test_c16_a_string_that_no_standard_knows_is_stored_as_it_is_and_has_a_place(machines, raw):
    host = machines.Recorded(packages={"torch": raw, "triton": raw})
    stored = (
        CudaPlatform()
        .probe(machines.Recorded(libraries={"pynvml": machines.Nvml()}, packages={"triton": raw}))
        .versions
    )
    assert stored["triton"] == raw
    assert host.package_version("torch") == raw
    assert versions.compare("0.1", raw) < 0 < versions.compare("9999.0", raw)


def test_c16_numbers_are_ordered_as_numbers_and_builds_are_two_stacks():
    assert versions.compare("2.9.1", "2.10.0") < 0
    assert "2.9.1+cu128" != "2.9.1+cu130"
    assert versions.compare("2.5.0+rocm5.7.git", "2.5.0a0") > 0


ASCEND = {"/dev/davinci0": "", "/dev/davinci_manager": ""}


@pytest.mark.parametrize(
    ("cuda", "hip", "extension", "chosen"),
    [("'13.0'", "None", False, "cuda"), ("None", "'7.2.1'", False, "rocm"), ("None", "None", True, "ascend")],
)
def test_c16_the_back_end_is_told_by_torchs_own_file_and_an_extension_comes_first(
    machines, fixture_text, cuda, hip, extension, chosen
):
    """Whatever ``cuda.is_available()`` would say: it is True on ROCm, and on Ascend under its transfer shim."""
    amd = {
        **machines.pci_files("0000:03:00.0", "1002", "74a1", "0x120000", "amdgpu"),
        "/sys/module/amdgpu/initstate": "live",
        "/dev/kfd": "",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": fixture_text("amd/kfd_mi300x.txt"),
    }
    huawei = {**machines.pci_files("0000:c1:00.0", "19e5", "d802", "0x120000"), **ASCEND}
    tool = {
        "npu-smi info -m": machines.Result(0, fixture_text("ascend/info_m.txt"), ""),
        "npu-smi info": machines.Result(0, fixture_text("ascend/info.txt"), ""),
    }
    host = machines.Recorded(
        {**amd, **huawei},
        tool,
        libraries={"pynvml": machines.Nvml()},
        packages={"torch": "2.13.0", **({"torch-npu": "2.13.0"} if extension else {})},
        package_files={("torch", "torch/version.py"): f"cuda = {cuda}\nhip = {hip}\n"},
        env={"ASCEND_HOME_PATH": "/usr/local/Ascend/cann"},
    )
    assert choose("auto", host, None).platform == chosen
