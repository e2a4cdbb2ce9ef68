"""Recorded outputs of real machines, where they lie beside this checkout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_accel.stack import ascend_files, ascend_smi, rocm_kfd, rocm_smi, rocm_text
from pytest_accel.stack.ascend_smi import failure as ascend_failure
from pytest_accel.stack.cuda import CudaPlatform
from pytest_accel.stack.cuda_text import failure_of_smi, kernel_module
from pytest_accel.stack.registry import platform
from pytest_accel.stack.types import ErrorKind

RECORDED = Path(__file__).parents[2].parent / "shared" / "recorded"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded outputs beside this checkout")


def files(pattern: str) -> list[Path]:
    return sorted(RECORDED.glob(pattern))


@pytest.mark.parametrize("path", files("nvidia/*query_gpu_csv*"), ids=lambda path: path.stem)
def test_every_recorded_csv_gives_one_card_with_its_driver(machines, path):
    found = CudaPlatform().probe(machines.SmiHost(machines.smi_from_csv(path.read_text())))
    assert found.state == "present"
    assert len(found.devices) == 1
    assert found.devices[0].pci is not None
    driver = re.search(r"_(\d{3}(?:\.\d+)+)_query", path.name)
    assert driver is not None
    assert found.versions["driver"] == driver.group(1)
    kind = path.name.split("_")[0]
    assert found.slug == {"rtx2080s": "nvidia-geforce-rtx-2080-super"}.get(kind, f"nvidia-{kind}")
    assert not [name for name, value in found.settings.items() if value == 0 and value is not False]
    if kind == "rtx2080s":
        assert (found.settings["ecc"], found.settings["mig_mode"]) == (None, None)


@pytest.mark.parametrize("path", files("nvidia/error_*"), ids=lambda path: path.stem)
def test_every_recorded_failure_is_known(path):
    code = {
        "error_couldnt_communicate_with_driver": "driver-not-loaded",
        "error_device_handle_unknown_error": "device-lost",
        "error_gpu_is_lost_old": "device-lost",
        "error_no_devices_were_found": "no-devices",
        "error_nvml_driver_library_mismatch_570.124": "driver-mismatch",
        "error_nvml_unknown_error_container": "nvml-unknown",
    }[path.stem]
    from pytest_accel.stack.host import CommandResult

    found = failure_of_smi(CommandResult(0, path.read_text(), ""))
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize("path", files("nvidia/proc_driver_nvidia_version_*"), ids=lambda path: path.stem)
def test_every_recorded_kernel_module_is_read(path):
    flavour, version = re.search(r"version_(open|proprietary)_([\d.]+)\.txt", path.name).groups()
    assert kernel_module(path.read_text()) == (version, flavour)


@pytest.mark.parametrize("path", files("ascend/npu-smi_error_*"), ids=lambda path: path.stem)
def test_every_recorded_npu_smi_failure_is_known(path):
    from pytest_accel.stack.host import CommandResult

    found = ascend_failure(CommandResult(0, path.read_text(), ""))
    assert found is not None
    assert "failed" in found[1]


def named(pattern: str):
    """Every recorded file of a pattern as a parameter."""
    return pytest.mark.parametrize("path", files(pattern), ids=lambda path: path.stem)


KINDS = {
    "torch_npu_EZ1001_dtype_not_implemented": ErrorKind.DTYPE_UNSUPPORTED,
    "torch_npu_EZ9999_cannot_find_bin_ERR01100": ErrorKind.UNSUPPORTED,
    "torch_npu_fallback_warning_ERR01007": ErrorKind.UNSUPPORTED,
    "torch_npu_hccl_timeout_EI0002": ErrorKind.POISONED,
}


@named("ascend/torch_npu_*")
def test_every_recorded_ascend_error_is_understood(path):
    assert platform("ascend").classify(path.read_text()) == KINDS.get(path.stem, ErrorKind.OTHER)
    first = path.read_text().splitlines()[0]
    if "fall back" in first:
        assert platform("ascend").classify(first) == ErrorKind.FALLBACK


# --- Ascend: chips, driver and processes as the file's name and text say ------------------------------------------------
@named("ascend/npu-smi_info_[9A3]*")
def test_every_recorded_npu_smi_table_is_read(path):
    text = path.read_text()
    table = ascend_smi.parse(text)
    model, driver = re.match(r"npu-smi_info_(910B\w\w?|A3|310\w\w)_(\d+\.\d+\.\w+(?:\.\d+)?)", path.stem).groups()
    driver = driver.split("_")[0]
    buses = re.findall(r"\| (0000:[0-9A-F]{2}:[0-9A-F]{2}\.\d)  *\|", text)
    assert table.driver == driver
    assert [chip.pci for chip in table.chips] == ([bus.lower() for bus in buses] or [None])
    assert {chip.health for chip in table.chips} == {"OK"}
    assert all(chip.memory_bytes and chip.temperature_c for chip in table.chips)
    assert all(chip.power_w != 0 for chip in table.chips)
    assert table.two_dies is (model == "A3")
    names = {ascend_smi.soc_name(chip.name, None, table.two_dies)[0] for chip in table.chips}
    assert names == {{"A3": "Ascend910_93"}.get(model, f"Ascend{model}")}
    rows = re.findall(r"^\| *(\d+) +(\d+) +\| (\d+) +\| [^|]*\| \d+ +\|", text, re.MULTILINE)
    told = table.processes or {}
    assert sum(map(len, told.values())) == len(rows)
    assert all(int(pid) in told[npu, chip] for npu, chip, pid in rows)
    assert (table.processes is None) is ("Process id" not in text)


@named("ascend/npu-smi_info_m_*")
def test_every_recorded_listing_is_in_torchs_order_without_controllers(path):
    found = ascend_smi.chips(path.read_text(), "")
    assert [(chip.logic, chip.npu, chip.name) for chip in found] == [(0, "0", "Ascend 910B3"), (1, "1", "Ascend 910B3")]


@named("ascend/npu-smi_info_t_*")
def test_every_recorded_detail_is_read_and_na_is_left_out(path):
    text = path.read_text()
    pairs = dict(re.findall(r"^\s*(\S.*?) +: (\S.*?)\s*$", text, re.MULTILINE))
    assert ascend_smi.details(text) == {key: value for key, value in pairs.items() if value != "NA"}


@named("ascend/driver_version.info_*")
def test_every_recorded_driver_file_tells_the_drivers_version(machines, path):
    host = machines.Recorded({f"{ascend_files.BASE}/driver/version.info": path.read_text()})
    assert ascend_files.driver_version(host) == path.stem.split("_")[2].removesuffix("_no")


@named("ascend/firmware_version.info_*")
def test_every_recorded_firmware_file_tells_the_firmwares_version(machines, path):
    host = machines.Recorded({f"{ascend_files.BASE}/firmware/version.info": path.read_text()})
    assert ascend_files.firmware_version(host) == path.name.removesuffix(".txt").split("_")[2]


@named("ascend/ascend_toolkit_install.info_*")
def test_every_recorded_toolkit_file_tells_canns_version(machines, path):
    place = f"{ascend_files.BASE}/cann/aarch64-linux/ascend_toolkit_install.info"
    host = machines.Recorded({place: path.read_text()}, machine="aarch64")
    assert ascend_files.cann_version(host) == path.name.removesuffix(".txt").split("_")[3]


@named("ascend/*p*_version.info_8*")
def test_every_recorded_package_file_tells_the_release_of_its_package(path):
    assert ascend_files.package_version(path.read_text()) == path.name.removesuffix(".txt").rpartition("_")[2]


@named("ascend/toolkit_version.info_*")
def test_the_recorded_toolkit_package_tells_its_release(path):
    assert ascend_files.package_version(path.read_text()) == "8.2.RC1"


@named("ascend/version.cfg_*")
def test_every_recorded_version_cfg_tells_canns_version(machines, path):
    host = machines.Recorded({f"{ascend_files.BASE}/ascend-toolkit/latest/version.cfg": path.read_text()})
    assert ascend_files.cann_version(host) == path.name.removesuffix(".txt").rpartition("_")[2]
    assert ascend_files.cann_packages(host)["hccl"] == "8.0.T63"


# --- AMD ----------------------------------------------------------------------------------------------------------------
@named("rocm/amd-smi_static_json_*")
def test_every_recorded_static_output_is_read(path):
    (card,) = map(rocm_smi.card, rocm_smi.entries(path.read_text()))
    told = {
        "rx6600": ("0000:0b:00.0", "1002:73ff", None, 8176 * 2**20, 100.0),
        "strixhalo": ("0000:c4:00.0", "1002:1586", "gfx1151", 32768 * 2**20, None),
    }[path.stem.split("_")[3]]
    assert (card.pci, card.ids, card.gfx, card.memory_bytes, card.power_limit_w) == told
    assert (card.driver, card.partition, card.ecc) == ("in-tree", None, None)


@named("rocm/amd-smi_metric_json_*")
def test_every_recorded_metric_output_is_read(path):
    (state,) = map(rocm_smi.state, rocm_smi.entries(path.read_text()))
    told = {"rx6600": (800, 541, 6.0, 37.0), "mi300x": (None, None, 158.0, 45.0)}[path.stem.split("_")[3]]
    assert (state.sm_clock_mhz, state.memory_clock_mhz, state.power_w, state.temperature_c) == told
    assert state.throttled == ()


@named("rocm/amd-smi_process_json_*")
def test_every_recorded_process_output_is_read(path):
    listed = [rocm_smi.process_ids(entry) for entry in rocm_smi.entries(path.read_text())]
    assert listed == [[213534, 213890, 213952, 213953]] * 2


@named("rocm/amd-smi_version*")
def test_every_recorded_version_line_is_split(path):
    text = path.read_text()
    lines = [text] if "json" in path.name else [line for line in text.splitlines() if line.startswith("AMDSMI")]
    for line in lines:
        found = rocm_smi.version_line(line)
        assert found["rocm"] == re.search(r"(?:ROCm version: |rocm_version\": \")([\d.]+)", line).group(1)
        driver = re.search(r"amdgpu[ _]version\"?: \"?([^\s|\"]+)", line)
        assert found.get("driver") == (
            None if driver is None else "in-tree" if "Linux" in driver.group(1) else driver.group(1)
        )
        assert "N/A" not in found.values()


@named("rocm/rocm-smi_*json*")
def test_every_recorded_rocm_smi_output_is_read(path):
    text = path.read_text()
    cards = rocm_smi.older_cards(text)
    assert len(cards) == len(re.findall(r"\"card\d+\"", text))
    for card, state in cards.values():
        assert (card.ids is None) is ("Device ID" not in text and "GPU ID" not in text)
        assert (card.pci is None) is ("PCI Bus" not in text)
        assert 0 not in (card.memory_bytes, card.power_limit_w, state.power_w, state.temperature_c, state.sm_clock_mhz)
        assert (state.power_w is None) is ("Secondary die" in text or "Package Power" not in text)
        assert card.name is None or not card.name.startswith("0x")
    driver = re.search(r"\"Driver version\": \"([\w.-]+)\"", text)
    if driver:
        assert {card.driver for card, _ in cards.values()} == {"in-tree" if "-" in driver.group(1) else driver.group(1)}


@named("rocm/rocminfo_[mr]*")
def test_every_recorded_rocminfo_lists_its_gpus(path):
    text = path.read_text()
    found = rocm_text.agents(text)
    assert [agent.uuid for agent in found] == re.findall(r"GPU-[0-9a-f]{16}", text)
    kind, count = re.match(r"rocminfo_(\w+?)_x(\d)", path.stem).groups()
    assert len(found) == int(count)
    told = {"mi300x": ("gfx942", "1002:74a1", 304, 206141652992), "r9700": ("gfx1201", "1002:7551", 64, 34208743424)}[
        kind
    ]
    assert {(agent.gfx, agent.ids, agent.compute_units, agent.memory_bytes) for agent in found} == {told}
    assert rocm_text.module_version(text) == ("6.12.12" if kind == "r9700" else None)
    assert rocm_text.failure(text) is None


ROCM_FAILURES = {
    "amd-smi_version_missing_render_group": "no-permission",
    "rocm-smi_error_driver_not_initialized": "driver-not-loaded",
    "rocminfo_error_invalid_argument_container": "kfd-refused",
    "rocminfo_error_module_not_loaded": "driver-not-loaded",
    "rocminfo_error_no_kfd": "driver-not-loaded",
}


@named("rocm/*")
def test_only_the_recorded_failures_of_amds_tools_are_failures(path):
    found = rocm_text.failure(path.read_text())
    assert (found.code if found else None) == ROCM_FAILURES.get(path.stem)


@named("rocm/kfd_topology_node_*")
def test_every_recorded_node_is_a_gpu(path):
    node = rocm_kfd.node_of(path.read_text())
    assert (node.gfx, node.pci, node.ids, node.memory_bytes) == ("gfx942", "0000:75:00.0", "1002:74a0", 206142726144)


@named("rocm/opt_rocm_info_version_files*")
def test_every_recorded_version_file_of_rocm_is_read(machines, path):
    for line in path.read_text().splitlines():
        assert rocm_kfd.rocm_version(machines.Recorded({"/opt/rocm/.info/version": line + "\n"})) == line


# --- any text where any tool's was expected -----------------------------------------------------------------------------
@named("*/*.txt")
def test_no_recorded_text_is_a_traceback_wherever_it_comes(machines, path):
    text = path.read_text()
    tools = ("nvidia-smi", "amd-smi", "rocm-smi", "rocminfo", "npu-smi")
    files = {
        **machines.pci_files("0000:03:00.0", "1002", "7551", "0x120000", "amdgpu"),
        **machines.pci_files("0000:04:00.0", "19e5", "d802", "0x120000"),
        **machines.pci_files("0000:18:00.0", "10de", "2335", driver="nvidia"),
        "/sys/module/amdgpu/version": text,
        "/dev/kfd": "",
        "/dev/davinci0": "",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": text + "\nsimd_count 4\ngfx_target_version 120001\n",
        "/usr/local/Ascend/driver/version.info": text,
        "/usr/local/Ascend/cann/aarch64-linux/ascend_toolkit_install.info": text,
        "/proc/driver/nvidia/version": text,
    }
    for code in (0, 1):
        host = machines.Recorded(files, {tool: machines.Result(code, text, "") for tool in tools}, machine="aarch64")
        for name in ("cuda", "rocm", "ascend"):
            found = platform(name).probe(host)
            assert found.state in ("present", "broken")
            assert (found.state == "present") is bool(found.devices)
            for device in found.devices:
                assert device.memory_bytes != 0
                state = platform(name).telemetry(host, device)
                assert 0 not in (state.sm_clock_mhz, state.power_w, state.temperature_c)
