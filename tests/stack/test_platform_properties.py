"""What a platform says of its vendor in data: operators that may vary, variables of measuring processes, links."""

from __future__ import annotations

import importlib.util
import re

import pytest

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.stack import common, variation
from pytest_accel.stack.ascend import AscendPlatform
from pytest_accel.stack.cuda import CudaPlatform
from pytest_accel.stack.registry import names, platform
from pytest_accel.stack.rocm import RocmPlatform
from pytest_accel.stack.rocm_kfd import NODES
from pytest_accel.stack.types import Stack


# --- operators that may vary -----------------------------------------------------------------------------------------
def test_what_may_vary_is_each_platforms_own():
    cuda, ascend, cpu = (Accelerator(platform(name), 0, Stack(name)) for name in ("cuda", "ascend", "cpu"))
    assert [accel.may_vary("cumsum") for accel in (cuda, ascend, cpu)] == [True, True, False]
    assert [accel.may_vary("matmul") for accel in (cuda, ascend, cpu)] == [False, True, False]
    assert [accel.may_vary("index_put") for accel in (cuda, ascend, cpu)] == [True, True, True]
    assert not any(accel.may_vary("softmax") for accel in (cuda, ascend, cpu))
    assert platform("rocm").may_vary == platform("cuda").may_vary


def test_nothing_may_vary_where_deterministic_algorithms_are_in_force():
    accel = Accelerator(platform("ascend"), 0, Stack("ascend", settings={"deterministic_algorithms": True}))
    assert not any(accel.may_vary(name) for name in variation.ASCEND)


def test_torchs_own_page_says_so_of_every_operator_that_may_vary_on_cuda():
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("torch is not installed here")
    with open(found.origin, encoding="utf-8") as stream:
        page = stream.read().split("def use_deterministic_algorithms")[1][:9000]
    called = {"nn.functional.nll_loss": "NLLLoss", "nn.functional.cross_entropy": "NLLLoss", "put": "put_"}
    for name in variation.CUDA:
        word = called.get(name, name.replace("nn.functional.max_unpool", "MaxUnpool"))
        said = re.search(rf"\.{word}_?`(?!.*attempting to differentiate)", page)
        assert said, f"{name}: the page does not say that it may vary when called"


def test_every_operator_that_may_vary_is_in_torchs_database():
    pytest.importorskip("torch")
    from torch.testing._internal.common_methods_invocations import op_db

    known = {entry.name for entry in op_db}
    # not in the database: a suite cannot name them, so that they do no harm
    lacking = {"vdot", "bincount", "nn.functional.fold"} | {"put"}
    assert (variation.CUDA | variation.ASCEND) - known <= lacking


# --- variables -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", names())
def test_every_platform_says_which_variables_measuring_processes_get(name):
    for variables in (platform(name).measuring_env, platform(name).default_env):
        assert all(isinstance(value, str) for value in variables.values())


def test_warnings_of_work_on_the_host_cannot_be_switched_off_and_numbers_mean_the_bus_order():
    assert AscendPlatform.measuring_env == {"TORCH_NPU_WARNING_DISABLE": "0", "TORCH_NPU_DISABLED_WARNING": "0"}
    assert CudaPlatform.default_env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert RocmPlatform.default_env == {}


# --- how devices are joined ------------------------------------------------------------------------------------------
TOPOLOGY = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m
GPU0\t X \tNV18\tSYS\tPIX\t0-23
GPU1\tNV18\t X \tSYS\tSYS\t0-23
GPU2\tSYS\tSYS\t X \tSYS\t24-47
NIC0\tPIX\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe
"""


def test_a_topology_table_is_read_in_nvidias_and_ascends_form():
    pairs = {(0, 1): "NV18", (0, 2): "SYS", (1, 2): "SYS"}
    assert common.matrix(TOPOLOGY, "GPU") == pairs
    assert common.matrix(TOPOLOGY.replace("GPU", "NPU").replace("NV18", "HCCS"), "NPU") == {**pairs, (0, 1): "HCCS"}
    assert common.matrix("nvidia-smi: unknown option topo", "GPU") == {}


def test_links_are_one_word_where_all_pairs_are_alike():
    assert common.links({(0, 1): "NV18", (0, 2): "NV18", (1, 2): "NV18"}, 3) == "NV18"
    assert common.links({(0, 1): "NV18", (0, 2): "SYS", (1, 2): "SYS"}, 3) == "0-1 NV18, 0-2 SYS, 1-2 SYS"
    assert common.links({(0, 1): "NV18"}, 1) is None
    assert common.links({}, 2) is None


def test_count_and_links_are_hardware_by_nvml_and_by_the_tool(machines):
    cards = [machines.Card(uuid=f"GPU-{n}", bus=f"00000000:{n + 1:02x}:00.0") for n in range(3)]
    nvml = machines.Nvml(cards=cards)
    nvml.nvmlDeviceGetTopologyCommonAncestor = lambda one, other: 50
    nvml.nvmlDeviceGetP2PStatus = lambda one, other, what: 0 if {one.uuid, other.uuid} == {"GPU-0", "GPU-1"} else 2
    nvml.nvmlDeviceGetNvLinkState = lambda card, link: 1
    probe = CudaPlatform().probe(machines.Recorded(libraries={"pynvml": nvml}))
    assert (probe.hardware["count"], probe.hardware["links"]) == (3, "0-1 NV18, 0-2 SYS, 1-2 SYS")
    narrowed = machines.Recorded(libraries={"pynvml": nvml}, env={"CUDA_VISIBLE_DEVICES": "2,0"})
    probe = CudaPlatform().probe(narrowed)
    assert (probe.hardware["count"], probe.hardware["links"]) == (2, "SYS")


def test_nvidia_smi_is_asked_for_links_where_there_is_no_nvml(machines, fixture_text):
    answer = machines.smi_from_csv(fixture_text("nvidia/two_h200.csv"))

    def run(argv):
        return machines.Result(0, TOPOLOGY, "") if list(argv) == ["nvidia-smi", "topo", "-m"] else answer(argv)

    probe = CudaPlatform().probe(machines.SmiHost(run))
    assert (probe.hardware["count"], probe.hardware["links"]) == (2, "NV18")


def test_amds_links_and_firmware_are_in_the_kernels_files(machines, fixture_text):
    text = fixture_text("amd/kfd_mi300x.txt")
    pci = "/sys/bus/pci/devices/0000:03:00.0"
    files = {
        **machines.pci_files("0000:03:00.0", "1002", "74a1", "0x120000", "amdgpu"),
        "/sys/module/amdgpu/initstate": "live\n",
        "/dev/kfd": "",
        f"{NODES}/1/properties": text,
        f"{NODES}/2/properties": text.replace("location_id 768", "location_id 1024"),
        f"{NODES}/1/io_links/0/properties": "type 2\nnode_from 1\nnode_to 0\n",
        f"{NODES}/1/io_links/1/properties": "type 11\nnode_from 1\nnode_to 2\nweight 15\n",
        f"{NODES}/2/io_links/0/properties": "type 11\nnode_from 2\nnode_to 1\nweight 15\n",
        f"{pci}/fw_version/mec_fw_version": "0x000000a8\n",
        f"{pci}/fw_version/smc_fw_version": "0x00555300\n",
        f"{pci}/fw_version/uvd_fw_version": "0x00000000\n",
    }
    probe = RocmPlatform().probe(machines.Recorded(files))
    assert (probe.hardware["count"], probe.hardware["links"]) == (2, "XGMI")
    assert probe.versions["firmware"] == "mec 0x000000a8, smc 0x00555300"


def test_ascends_links_are_told_by_npu_smi(machines, fixture_text):
    files = {**machines.pci_files("0000:c1:00.0", "19e5", "d802", "0x120000"), "/dev/davinci0": ""}
    commands = {
        "npu-smi info -m": machines.Result(0, fixture_text("ascend/info_m.txt"), ""),
        "npu-smi info": machines.Result(0, fixture_text("ascend/info.txt"), ""),
        "npu-smi info -t topo": machines.Result(0, TOPOLOGY.replace("GPU", "NPU").replace("NV18", "HCCS"), ""),
    }
    probe = AscendPlatform().probe(machines.Recorded(files, commands))
    assert probe.hardware["count"] == len(probe.devices) > 1
    assert "HCCS" in str(probe.hardware["links"])
