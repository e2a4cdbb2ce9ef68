"""Ascend's tool, files and variables, in the forms in which their releases write them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.stack import ascend_files, ascend_settings, ascend_smi
from pytest_accel.stack.ascend import AscendPlatform
from pytest_accel.stack.chips import slug_of
from pytest_accel.stack.types import Device, Telemetry

BASE = "/usr/local/Ascend"


def ascend(machines, table, listing="", env=None, files=None, more=None, **rest):
    found = {
        **machines.pci_files("0000:9d:00.0", "19e5", "d803", "0x120000"),
        "/dev/davinci0": "",
        "/dev/davinci_manager": "",
        "/dev/devmm_svm": "",
        "/dev/hisi_hdc": "",
        **(files or {}),
    }
    commands = {
        "npu-smi info -m": machines.Result(0, listing, ""),
        "npu-smi info": machines.Result(0, table, ""),
        **{name: machines.Result(0, text, "") for name, text in (more or {}).items()},
    }
    return machines.Recorded(found, commands, env=env, machine="aarch64", **rest)


# --- npu-smi ------------------------------------------------------------------------------------------------------------
def test_two_rows_are_a_chip_and_a_die_without_power_has_none(fixture_text):
    table = ascend_smi.parse(fixture_text("ascend/info_a3.txt"))
    assert (table.driver, table.two_dies) == ("25.2.0", True)
    first, second = table.chips
    assert (first.npu, first.chip, first.pci, first.power_w) == ("0", "0", "0000:9d:00.0", 174.3)
    assert (second.npu, second.chip, second.pci, second.power_w) == ("0", "1", "0000:9f:00.0", None)
    assert (second.health, second.temperature_c, second.memory_bytes) == ("Alarm", 36.0, 65536 * 2**20)
    assert table.processes == {("0", "1"): (930242,)}
    assert table.warning.startswith("The driver package may not be completely installed")


def test_the_wide_form_tells_the_process_as_the_container_counts_it(fixture_text):
    table = ascend_smi.parse(fixture_text("ascend/info_wide.txt"))
    assert [chip.name for chip in table.chips] == ["910B4"]
    assert table.processes == {("0", "0"): (77,)}


def test_a_310_has_no_bus_address_no_power_and_perhaps_no_list_of_processes(fixture_text):
    table = ascend_smi.parse(fixture_text("ascend/info_310.txt"))
    (chip,) = table.chips
    assert (chip.npu, chip.name, chip.pci, chip.power_w, chip.memory_bytes) == (
        "32",
        "310P3",
        None,
        None,
        21527 * 2**20,
    )
    assert table.processes is None


def test_the_950s_name_has_a_cell_of_its_own(fixture_text):
    (chip,) = ascend_smi.parse(fixture_text("ascend/info_950.txt")).chips
    assert (chip.npu, chip.name, chip.memory_bytes, chip.power_w) == ("0", "Ascend950", 131072 * 2**20, 210.0)


def test_without_a_listing_the_table_is_the_order(fixture_text):
    assert [chip.logic for chip in ascend_smi.chips("", fixture_text("ascend/info_a3.txt"))] == [0, 1]


def test_a_listing_of_two_dies_and_of_the_950_are_read():
    a3 = (
        "\tNPU ID    Chip ID    Chip Logic ID    Chip Phy-ID    Chip Name\n"
        "\t0         1          1                1              Ascend910\n"
        "\t0         0          0                0              Ascend910\n"
        "\t0         2          -                -              Mcu\n"
    )
    assert [(chip.logic, chip.chip) for chip in ascend_smi.chips(a3, "")] == [(0, "0"), (1, "1")]
    a5 = "NPU ID   Slot ID   Chip ID   Chip Phy-ID   Chip Name\n3   3   0   3   Ascend950\n3   3   1   -   Mcu\n"
    assert [(chip.logic, chip.npu, chip.name) for chip in ascend_smi.chips(a5, "")] == [(3, "3", "Ascend950")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005",
            "driver-failed",
        ),
        ("dcmi module initialize failed. (ret=4)", "driver-failed"),
        ("dcmi model initialized failed, because the device is used. ret is -8020", "device-taken"),
        ("Container ID verify failed.", "device-taken"),
        ("There is no NPU card on this server.", "no-devices"),
        (
            "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file",
            "library-missing",
        ),
    ],
)
def test_failures_on_stdout_with_code_0_are_failures(machines, text, code):
    found = ascend_smi.failure(machines.Result(0, text, ""))
    assert found is not None
    assert found[0] == code
    assert found[1] in text
    assert found[2]


def test_details_keep_the_chips_value_and_leave_out_what_is_not_told():
    found = ascend_smi.details(
        "\tChip ID   : 0\n\tTemperature(C)   : 44\n\tError Code   : NA\n\n\tTemperature(C)   : 38\n"
    )
    assert found == {"Chip ID": "0", "Temperature(C)": "44"}


@given(st.text(alphabet="|+-= \n0123456789/:.NAOKPchipI", max_size=200))
def test_no_table_is_a_traceback_and_no_memory_is_zero(text):
    table = ascend_smi.parse(text)
    assert all(chip.memory_bytes != 0 for chip in table.chips)
    assert isinstance(ascend_smi.chips(text, text), list)


@pytest.mark.parametrize(
    ("name", "board", "two_dies", "soc", "slug"),
    [
        ("Ascend 910B3", {}, False, "Ascend910B3", "ascend-910b3"),
        ("910B4", {}, False, "Ascend910B4", "ascend-910b4"),
        ("910ProA", {}, False, "Ascend910ProA", "ascend-910proa"),
        ("Ascend910", {"NPU Name": "9391"}, True, "Ascend910_9391", "ascend-910-9391"),
        ("Ascend910", {}, True, "Ascend910_93", "ascend-910-93"),
        ("Ascend910", {}, False, "Ascend910", "ascend-910"),
        ("310P3", {}, False, "Ascend310P3", "ascend-310p3"),
    ],
)
def test_chips_are_named_as_torch_names_them(name, board, two_dies, soc, slug):
    assert ascend_smi.soc_name(name, board, two_dies) == (soc, None)
    assert slug_of("ascend", soc) == slug


def test_a_part_of_a_chip_is_named_apart():
    assert ascend_smi.soc_name("Ascend310P3vir02") == ("Ascend310P3", "vir02")
    assert ascend_smi.soc_name("910B3-vir05_1c_16g") == ("Ascend910B3", "vir05_1c_16g")


# --- files --------------------------------------------------------------------------------------------------------------
def test_the_driver_is_read_where_it_was_installed_and_without_a_package_version(machines):
    files = {
        "/etc/ascend_install.info": "Driver_Install_Path_Param=/opt/npu\n",
        "/opt/npu/driver/version.info": "Version=24.1.rc1\nascendhal_version=7.35.19\n",
        "/opt/npu/firmware/version.info": "Version=7.7.0.1.231\npackage_version=25.0.rc1.1\n",
    }
    host = machines.Recorded(files)
    assert ascend_files.driver_version(host) == "24.1.rc1"
    assert ascend_files.firmware_version(host) == "7.7.0.1.231"


CANN = "package_name=Ascend-cann-toolkit\nversion={}\narch=aarch64\n"


@pytest.mark.parametrize(
    ("env", "files", "version"),
    [
        (
            {},
            {f"{BASE}/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.2.RC1")},
            "8.2.RC1",
        ),
        ({}, {f"{BASE}/cann/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.5.0")}, "8.5.0"),
        (
            {},
            {f"{BASE}/ascend-toolkit/latest/arm64-linux/ascend_toolkit_install.info": CANN.format("7.0.RC1")},
            "7.0.RC1",
        ),
        ({}, {f"{BASE}/nnrt/latest/aarch64-linux/ascend_nnrt_install.info": CANN.format("8.0.0")}, "8.0.0"),
        (
            {},
            {f"{BASE}/ascend-toolkit/latest/version.cfg": "# 1\nruntime_running_version=[7.6.T13:8.0.T63]\n"},
            "8.0.T63",
        ),
        (
            {"HOME": "/home/u"},
            {"/home/u/Ascend/cann/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.5.0")},
            "8.5.0",
        ),
        (
            {"ASCEND_HOME_PATH": f"{BASE}/cann-8.5.0"},
            {
                f"{BASE}/cann-8.5.0/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.5.0"),
                f"{BASE}/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.2.RC1"),
            },
            "8.5.0",
        ),
        ({}, {}, None),
    ],
)
def test_cann_is_found_where_each_of_its_releases_puts_it(machines, env, files, version):
    assert ascend_files.cann_version(machines.Recorded(files, env=env, machine="aarch64")) == version


def test_the_kernels_package_is_a_version_of_its_own(machines):
    home = f"{BASE}/ascend-toolkit/latest"
    files = {
        f"{home}/aarch64-linux/ascend_toolkit_install.info": CANN.format("8.2.RC1"),
        f"{home}/opp_kernel/version.info": "Version=8.1.0.0.100\nversion_dir=8.1.RC1\n",
        f"{home}/version.cfg": "hccl_running_version=[7.6.T13.0.B094:8.0.T63]\n",
    }
    host = machines.Recorded(files, machine="aarch64")
    assert ascend_files.cann_packages(host) == {"cann_ops": "8.1.RC1", "hccl": "8.0.T63"}
    assert ascend_files.cann_packages(machines.Recorded()) == {"cann_ops": None, "hccl": None}


def test_only_numbered_nodes_are_devices(machines):
    host = machines.Recorded({"/dev/davinci10": "", "/dev/davinci2": "", "/dev/davinci_manager": ""})
    assert ascend_files.device_nodes(host) == [2, 10]
    assert ascend_files.nodes_missing(host) == ["/dev/devmm_svm", "/dev/hisi_hdc"]


@pytest.mark.parametrize(
    ("text", "count", "places", "wrong"),
    [
        (None, 2, [0, 1], False),
        ("1,3", 4, [1, 3], False),
        ("0, 1", 4, [0, 1], False),
        ("0,x,2", 4, [0], False),
        ("0x1,2", 4, [0], False),
        ("0,-1,2", 4, [0], False),
        ("", 4, [], False),
        ("-1", 4, [], False),
        ("4,7", 4, [], True),
        ("1,0", 4, [], True),
        ("1,1", 4, [], True),
    ],
)
def test_the_variable_has_rising_numbers_of_what_the_container_sees(text, count, places, wrong):
    found, complaint = ascend_files.visible(text, count)
    assert (found, bool(complaint)) == (places, wrong)


# --- the probe ----------------------------------------------------------------------------------------------------------
def test_the_board_completes_a3s_name_and_an_alarm_is_an_error(machines, fixture_text):
    more = {"npu-smi info -t board -i 0 -c 0": fixture_text("ascend/board_a3.txt")}
    found = AscendPlatform().probe(ascend(machines, fixture_text("ascend/info_a3.txt"), more=more))
    assert (found.state, found.slug, found.hardware["dies_per_module"]) == ("present", "ascend-910-9391", 2)
    assert found.hardware["chip"] == "19e5:d803"
    assert [device.name for device in found.devices] == ["Ascend910_9391"] * 2
    assert len({device.identity for device in found.devices}) == 2
    assert [(one.code, one.severity) for one in found.findings] == [
        ("device-unhealthy", "error"),
        ("driver-incomplete", "warning"),
    ]
    assert found.versions["driver"] == "25.2.0"


def test_a_device_without_a_bus_address_still_has_an_identity(machines, fixture_text):
    found = AscendPlatform().probe(ascend(machines, fixture_text("ascend/info_310.txt")))
    assert (found.slug, found.devices[0].pci) == ("ascend-310p3", None)
    assert found.devices[0].identity


def test_a_wrong_list_is_broken_with_canns_number(machines, fixture_text):
    host = ascend(machines, fixture_text("ascend/info_a3.txt"), env={"ASCEND_RT_VISIBLE_DEVICES": "4,7"})
    found = AscendPlatform().probe(host)
    assert (found.state, found.findings[0].code) == ("broken", "visibility-wrong")
    assert "207004" in found.reason
    assert found.hardware["hidden_devices"] == 0
    hidden = ascend(machines, fixture_text("ascend/info_a3.txt"), env={"ASCEND_RT_VISIBLE_DEVICES": ""})
    assert AscendPlatform().probe(hidden).hardware["hidden_devices"] == 2


def test_nodes_that_a_container_lacks_are_named(machines):
    host = ascend(machines, "", files={"/dev/hisi_hdc": ""})
    host.files.pop("/dev/devmm_svm")
    host.commands = {"npu-smi": machines.Result(0, "dcmi module initialize failed. ret is -8005", "")}
    found = AscendPlatform().probe(host)
    assert (found.state, found.findings[0].code) == ("broken", "driver-failed")
    assert "/dev/devmm_svm not there" in found.reason


def test_switches_are_settings_and_packages_are_versions(machines, fixture_text):
    host = ascend(
        machines,
        fixture_text("ascend/info_wide.txt"),
        env={"TASK_QUEUE_ENABLE": "2", "HCCL_ALGO": "level0:ring", "HCCL_IF_IP": "192.0.2.1"},
        packages={"torch": "2.7.1+cpu", "torch-npu": "2.7.1.post2", "vllm": "0.9.2", "triton-ascend": "3.2.0"},
    )
    found = AscendPlatform().probe(host)
    assert found.settings["TASK_QUEUE_ENABLE"] == "2"
    assert (found.versions["torch_npu"], found.versions["vllm"]) == ("2.7.1.post2", "0.9.2")
    assert (found.versions["triton"], found.versions["deepspeed"]) == ("3.2.0", None)
    assert found.versions["HCCL_ALGO"] == "level0:ring"
    assert "192.0.2.1" not in found.versions.values()


POINTS = "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"


def test_torch_npu_without_cann_is_told_without_importing_it(machines, fixture_text):
    host = ascend(
        machines,
        fixture_text("ascend/info_wide.txt"),
        packages={"torch": "2.7.1", "torch-npu": "2.7.1"},
        package_files={("torch-npu", "torch_npu-2.7.1.dist-info/entry_points.txt"): POINTS},
    )
    found = AscendPlatform().probe(host)
    assert [one.code for one in found.findings] == ["cann-missing"]
    assert "import torch with it" in found.findings[0].message
    host.env = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert "import torch with it" not in AscendPlatform().probe(host).findings[0].message
    host.env = {"ASCEND_HOME_PATH": f"{BASE}/cann"}
    assert AscendPlatform().probe(host).findings == ()


# --- telemetry ----------------------------------------------------------------------------------------------------------
def test_state_is_joined_by_bus_address(machines, fixture_text):
    more = {"npu-smi info -t common -i 0": fixture_text("ascend/common.txt")}
    host = ascend(machines, fixture_text("ascend/info_a3.txt"), more=more)
    platform = AscendPlatform()
    assert platform.telemetry(host, Device(7, "x", pci="0000:9d:00.0")) == Telemetry(1650, None, 174.3, 37.0, (), 0)
    # The module's clock is its first die's, and the second die has no power of its own.
    assert platform.telemetry(host, Device(0, "x", pci="0000:9f:00.0")) == Telemetry(None, None, None, 36.0, (), 1)
    assert platform.telemetry(host, Device(0, "x", pci="0000:01:00.0")) == Telemetry()


def test_a_tool_that_fails_tells_nothing(machines):
    host = ascend(machines, "dcmi module initialize failed. ret is -8005")
    assert AscendPlatform().telemetry(host, Device(0, "x", pci="0000:9d:00.0")) == Telemetry()


# --- in the measuring process ---------------------------------------------------------------------------------------------
def refuses():
    raise RuntimeError("not initialised")


@pytest.mark.parametrize(
    ("npu", "overflow", "jit"),
    [
        (
            SimpleNamespace(utils=SimpleNamespace(is_support_inf_nan=lambda: True), is_jit_compile_false=lambda: True),
            "ieee",
            False,
        ),
        (SimpleNamespace(utils=SimpleNamespace(is_support_inf_nan=lambda: False)), "saturating", None),
        (SimpleNamespace(utils=SimpleNamespace(is_support_inf_nan=refuses)), None, None),
        (SimpleNamespace(), None, None),
    ],
)
def test_overflow_is_saturating_ieee_or_unknown(npu, overflow, jit):
    assert ascend_settings.in_force(npu) == {"overflow_mode": overflow, "jit_compile": jit}


def test_canns_empty_version_is_unknown():
    npu = SimpleNamespace(utils=SimpleNamespace(get_cann_version=lambda module: {"HCCL": "8.2.RC1"}.get(module, "")))
    assert ascend_settings.cann_loaded(npu, "HCCL") == "8.2.RC1"
    assert ascend_settings.cann_loaded(npu, "CANN") is None
    assert ascend_settings.cann_loaded(SimpleNamespace(), "CANN") is None


def test_a_torch_npu_that_does_not_load_is_named_with_its_cause(monkeypatch):
    cause = ImportError("libhccl.so: cannot open shared object file: No such file or directory")
    outer = RuntimeError("Failed to load the backend extension: torch_npu.")
    outer.__cause__ = cause
    platform = AscendPlatform()
    for error in (outer, OSError("libhccl.so: cannot open shared object file")):

        def module(error=error):
            raise error

        monkeypatch.setattr(platform, "_module", module)
        with pytest.raises(RuntimeError, match=re.escape("libhccl.so")) as caught:
            platform.check(0)
        assert "set_env.sh" in str(caught.value)
