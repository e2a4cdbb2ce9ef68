"""AMD and Ascend machines as far as files and npu-smi tell today."""

from __future__ import annotations

from pytest_accel.stack.ascend import AscendPlatform
from pytest_accel.stack.rocm import RocmPlatform

NODE = "/sys/class/kfd/kfd/topology/nodes"


def amd(machines, fixture_text, **changes):
    files = {
        **machines.pci_files("0000:03:00.0", "1002", "74a1", "0x120000", "amdgpu"),
        "/sys/module/amdgpu/initstate": "live\n",
        "/sys/module/amdgpu/version": "6.16.6\n",
        "/opt/rocm/.info/version": "7.2.4\n",
        "/dev/kfd": "",
        f"{NODE}/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
        f"{NODE}/1/properties": fixture_text("amd/kfd_mi300x.txt"),
        f"{NODE}/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
        **changes,
    }
    return {path: text for path, text in files.items() if text is not False}


def test_an_amd_card_is_read_from_the_kernels_topology(machines, fixture_text):
    found = RocmPlatform().probe(machines.Recorded(amd(machines, fixture_text)))
    assert found.state == "present"
    assert found.slug == "amd-mi300x"
    (device,) = found.devices
    assert (device.architecture, device.pci, device.uuid) == ("gfx942", "0000:03:00.0", "GPU-0123456789abcdef")
    assert device.memory_bytes == 206141652992
    assert found.versions["driver"] == "6.16.6"
    assert found.versions["toolkit"] == "7.2.4"


def test_the_in_tree_driver_has_no_version_of_its_own(machines, fixture_text):
    files = amd(machines, fixture_text, **{"/sys/module/amdgpu/version": False})
    assert RocmPlatform().probe(machines.Recorded(files)).versions["driver"] == "in-tree"


def test_an_amd_card_whose_driver_or_node_is_missing_is_broken_with_the_mend(machines, fixture_text):
    for change, words in (
        ({"/sys/module/amdgpu/initstate": False, "/sys/module/amdgpu/version": False}, "modprobe"),
        ({"/dev/kfd": False}, "--device=/dev/kfd"),
        ({"/dev/kfd": None}, "--group-add"),
        ({f"{NODE}/1/properties": None}, "renderD"),
    ):
        found = RocmPlatform().probe(machines.Recorded(amd(machines, fixture_text, **change)))
        assert found.state == "broken", change
        assert words in found.mend
        assert found.slug == "amd-mi300x"


def test_a_display_adapter_without_rocm_is_no_accelerator(machines):
    host = machines.Recorded(machines.pci_files("0000:0c:00.0", "1002", "164e", "0x030000", "amdgpu"))
    found = RocmPlatform().probe(host)
    assert found.state == "absent"
    assert "display adapter" in found.reason


def test_variables_that_differ_are_refused_and_a_list_in_a_list_is_followed(machines, fixture_text):
    second = (
        fixture_text("amd/kfd_mi300x.txt")
        .replace("location_id 768", "location_id 10752")
        .replace("81985529216486895", "7")
    )
    files = amd(machines, fixture_text, **{f"{NODE}/2/properties": second})
    host = machines.Recorded(files, env={"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"})
    assert RocmPlatform().probe(host).findings[0].code == "visibility-differs"
    host = machines.Recorded(files, env={"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"})
    assert [device.pci for device in RocmPlatform().probe(host).devices] == ["0000:2a:00.0"]
    found = RocmPlatform().probe(machines.Recorded(files, env={"HIP_VISIBLE_DEVICES": ""}))
    assert (found.state, found.hardware["hidden_devices"]) == ("broken", 2)


def test_a_partition_of_an_amd_card_is_named(machines, fixture_text):
    base = "/sys/bus/pci/devices/0000:03:00.0"
    files = amd(
        machines,
        fixture_text,
        **{f"{base}/current_compute_partition": "CPX\n", f"{base}/current_memory_partition": "NPS4\n"},
    )
    found = RocmPlatform().probe(machines.Recorded(files))
    assert found.devices[0].partition == "cpx-nps4"
    assert found.slug == "amd-mi300x-cpx-nps4"


def ascend(machines, fixture_text, env=None, commands=None):
    files = {
        **machines.pci_files("0000:c1:00.0", "19e5", "d802", "0x120000"),
        "/dev/davinci0": "",
        "/dev/davinci4": "",
        "/dev/davinci_manager": "",
        "/usr/local/Ascend/driver/version.info": fixture_text("ascend/driver_version.info"),
        "/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info": fixture_text(
            "ascend/toolkit.info"
        ),
    }
    if commands is None:
        commands = {
            "npu-smi info -m": machines.Result(0, fixture_text("ascend/info_m.txt"), ""),
            "npu-smi info": machines.Result(0, fixture_text("ascend/info.txt"), ""),
        }
    return machines.Recorded(files, commands, env=env, machine="aarch64")


def test_ascend_chips_come_in_torchs_order_with_their_exact_model(machines, fixture_text):
    found = AscendPlatform().probe(ascend(machines, fixture_text))
    assert found.state == "present"
    assert found.slug == "ascend-910b3"
    assert [(device.index, device.pci) for device in found.devices] == [(0, "0000:c1:00.0"), (1, "0000:02:00.0")]
    assert found.devices[0].memory_bytes == 65536 * 2**20
    assert (found.versions["driver"], found.versions["toolkit"]) == ("25.2.1", "8.2.RC1")


def test_ascend_without_its_tool_or_with_a_failing_one_is_broken(machines, fixture_text):
    found = AscendPlatform().probe(ascend(machines, fixture_text, commands={}))
    assert (found.state, found.findings[0].code) == ("broken", "tool-missing")
    words = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005\n"
    found = AscendPlatform().probe(ascend(machines, fixture_text, commands={"npu-smi": machines.Result(0, words, "")}))
    assert found.state == "broken"
    assert "-8005" in found.reason


def test_ascends_variable_narrows(machines, fixture_text):
    found = AscendPlatform().probe(ascend(machines, fixture_text, env={"ASCEND_RT_VISIBLE_DEVICES": "1"}))
    assert [device.pci for device in found.devices] == ["0000:02:00.0"]


def test_a_huawei_network_card_or_display_is_no_accelerator(machines):
    files = {
        **machines.pci_files("0000:01:00.0", "19e5", "1711", "0x030000"),
        **machines.pci_files("0000:02:00.0", "19e5", "0222", "0x020000"),
    }
    assert AscendPlatform().probe(machines.Recorded(files)).state == "absent"
