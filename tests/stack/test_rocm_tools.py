"""AMD's tools, library and files, in the forms in which their releases write them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.stack import rocm_kfd, rocm_smi, rocm_text
from pytest_accel.stack.rocm import RocmPlatform
from pytest_accel.stack.rocm_libraries import file_version, mapped, miopen_version
from pytest_accel.stack.types import Device, Telemetry

NODE = "/sys/class/kfd/kfd/topology/nodes"
PCI = "/sys/bus/pci/devices/0000:03:00.0"


def amd(machines, fixture_text, device="74a1", **changes):
    ids = {"74a1": "29857", "7551": "30033"}
    node = fixture_text("amd/kfd_mi300x.txt").replace("29857", ids[device])
    files = {
        **machines.pci_files("0000:03:00.0", "1002", device, "0x120000", "amdgpu"),
        "/sys/module/amdgpu/initstate": "live\n",
        "/sys/module/amdgpu/version": "6.16.6\n",
        "/dev/kfd": "",
        f"{NODE}/1/properties": node,
        f"{NODE}/1/gpu_id": "51110\n",
        f"{NODE}/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
        **changes,
    }
    return {path: text for path, text in files.items() if text is not False}


def says(machines, **texts):
    return {name.replace("_", "-"): machines.Result(0, text, "") for name, text in texts.items()}


# --- amd-smi ---------------------------------------------------------------------------------------------------------
def test_both_shapes_of_amd_smi_are_one_list():
    assert rocm_smi.entries('[{"gpu": 0}]') == [{"gpu": 0}]
    assert rocm_smi.entries('words before\n{"gpu_data": [{"gpu": 0}, {"gpu": 1}]}\nand after') == [
        {"gpu": 0},
        {"gpu": 1},
    ]
    assert rocm_smi.entries("WARNING: No JSON data to report") == []


def test_static_of_the_newest_form_is_read_and_what_is_not_told_is_none(fixture_text):
    first, second = map(rocm_smi.card, rocm_smi.entries(fixture_text("amd/static_26_2.txt")))
    assert (first.name, first.ids, first.gfx, first.pci) == (
        "AMD Radeon AI PRO R9700",
        "1002:7551",
        "gfx1201",
        "0000:03:00.0",
    )
    assert (first.power_limit_w, first.ecc, first.driver, first.memory_bytes) == (300.0, True, "6.16.6", 32624 * 2**20)
    assert first.partition is None
    assert second == rocm_smi.Card(pci="0000:43:00.0", partition="cpx-nps4")


def test_heat_throttles_and_a_power_cap_does_not(fixture_text):
    (entry,) = rocm_smi.entries(fixture_text("amd/metric_26.txt"))
    assert rocm_smi.state(entry) == Telemetry(1733, 1300, 712.0, 101.0, ("socket-thermal",), None)


def test_only_processes_that_hold_memory_are_on_the_device(fixture_text):
    (entry,) = rocm_smi.entries(fixture_text("amd/process.txt"))
    assert rocm_smi.process_ids(entry) == [4321]
    assert rocm_smi.process_ids({"gpu": 0, "process_list": "N/A"}) is None


@pytest.mark.parametrize(
    ("driver", "meaning", "kernel"),
    [
        ("6.16.6", "6.16.6", None),
        ("Linuxversion6.8.0-79-generic(buildd@host)(gcc)#79-Ubuntu", "in-tree", "6.8.0-79-generic"),
        ("Linuxversion6.17.0(ubuntu@ubuntu)(gcc)", "in-tree", "6.17.0"),
        ("7.0.0-3-pve", "in-tree", None),
        ("N/A", None, None),
    ],
)
def test_an_in_tree_driver_is_named_so_whatever_the_tool_calls_it(driver, meaning, kernel):
    line = f"AMDSMI Tool: 2 | AMDSMI Library version: 1 | ROCm version: 7.2.0 | amdgpu version: {driver} | hsmp version: N/A"
    found = rocm_smi.version_line(f"WARNING: something\n{line}\n")
    assert (found.get("driver"), found.get("kernel"), found["rocm"]) == (meaning, kernel, "7.2.0")


def test_a_version_line_without_a_driver_names_none():
    found = rocm_smi.version_line(
        "AMDSMI Tool: 26.5.0+2b | AMDSMI Library version: 26.5.0 | ROCm version: 7.14.0 | Git version: 2b"
    )
    assert found == {"tool": "26.5.0+2b", "library": "26.5.0", "rocm": "7.14.0"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["N/A", "0x1002", "12 W"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["asic", "limit", "ppt0", "power", "value", "unit", "vram", "size", "clock", "gfx_0", "clk", "ras"]
                )
                | st.sampled_from(
                    ["ecc_block_state", "UMC", "driver", "version", "process_list", "process_info", "bus", "bdf"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_json_of_whatever_shape_is_a_traceback(value):
    for entry in rocm_smi.entries(json.dumps(value)):
        card, state = rocm_smi.card(entry), rocm_smi.state(entry)
        assert card.memory_bytes != 0
        assert state.sm_clock_mhz is None or isinstance(state.sm_clock_mhz, int)
        assert rocm_smi.process_ids(entry) is None or all(isinstance(pid, int) for pid in rocm_smi.process_ids(entry))


# --- rocm-smi and rocminfo ----------------------------------------------------------------------------------------------
def test_rocm_smi_is_read_behind_its_warning_with_old_and_new_keys(fixture_text):
    found = rocm_smi.older_cards(fixture_text("amd/rocm_smi.txt"))
    card, state = found["card0"]
    assert (card.name, card.ids, card.memory_bytes) == ("AMD Instinct MI300X OAM", "1002:74a1", 206141652992)
    assert state == Telemetry(131, 900, 159.0, 45.0)
    card, state = found["card1"]
    assert (card.name, card.ids, state.power_w) == (None, "1002:73df", None)


def test_rocminfo_lists_its_gpus_only(fixture_text):
    text = fixture_text("amd/rocminfo.txt")
    (agent,) = rocm_text.agents(text)
    assert (agent.gfx, agent.uuid, agent.pci, agent.ids) == (
        "gfx1201",
        "GPU-0123456789abcdef",
        "0000:03:00.0",
        "1002:7551",
    )
    assert (agent.compute_units, agent.memory_bytes) == (64, 33406976 * 1024)
    assert rocm_text.module_version(text) == "6.12.12"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ROCk module is NOT loaded, possibly no GPU devices", "driver-not-loaded"),
        (
            "ROCk module is loaded\nUnable to open /dev/kfd read-write: Invalid argument\nroot is member of render group",
            "kfd-refused",
        ),
        ("ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied", "no-permission"),
        ('USER is not member of "render" group, the default DRM access group.', "no-permission"),
        ("Unable to open /dev/kfd read-write: Cannot allocate memory", "kfd-refused"),
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "driver-not-loaded"),
    ],
)
def test_the_vendors_failures_have_a_code_their_words_and_a_mend(text, code):
    found = rocm_text.failure(text)
    assert found is not None
    assert found.code == code
    assert found.words in text
    assert found.mend


def test_a_healthy_tool_says_nothing_wrong(fixture_text):
    assert rocm_text.failure(fixture_text("amd/rocminfo.txt")) is None


# --- the probe ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90010, "gfx90a"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (100302, "gfx1032"),
    ],
)
def test_gfx_names_follow_from_the_kernels_number(version, name):
    assert rocm_kfd.gfx_name(version) == name


def test_a_known_card_needs_no_tool_at_all(machines, fixture_text):
    host = machines.Recorded(
        amd(
            machines,
            fixture_text,
            **{
                f"{PCI}/hwmon/hwmon3/power1_cap": "750000000\n",
                f"{PCI}/ras/umc_err_count": "ue: 0\nce: 0\n",
                f"{PCI}/vbios_version": "113-M3000100-102\n",
                "/sys/module/amdgpu/srcversion": "00374535C9131B51512F32A\n",
            },
        ),
        env={"HSA_OVERRIDE_GFX_VERSION": "9.4.2"},
    )
    found = RocmPlatform().probe(host)
    assert host.ran == []
    assert (found.settings["power_limit_w"], found.settings["ecc"]) == (750.0, True)
    assert found.settings["HSA_OVERRIDE_GFX_VERSION"] == "9.4.2"
    assert "HSA_XNACK" in found.settings
    assert (found.versions["vbios"], found.versions["driver_source"]) == ("113-M3000100-102", "00374535C9131B51512F32A")


def test_the_name_of_an_unknown_card_comes_from_amd_smi_else_rocminfo(machines, fixture_text):
    files = amd(machines, fixture_text, device="7551")
    tools = says(machines, amd_smi=fixture_text("amd/static_26_2.txt"))
    found = RocmPlatform().probe(machines.Recorded(files, tools))
    assert (found.devices[0].name, found.slug) == ("AMD Radeon AI PRO R9700", "amd-radeon-ai-pro-r9700")
    assert (found.settings["power_limit_w"], found.settings["ecc"]) == (300.0, True)
    found = RocmPlatform().probe(machines.Recorded(files, says(machines, rocminfo=fixture_text("amd/rocminfo.txt"))))
    assert found.devices[0].name == "AMD Radeon AI PRO R9700"
    found = RocmPlatform().probe(machines.Recorded(files))
    assert (found.state, found.devices[0].name) == ("present", "AMD gfx942 7551")
    assert (found.settings["power_limit_w"], found.settings["ecc"], found.versions["vbios"]) == (None, None, None)


def test_a_broken_machine_is_told_in_the_vendors_words_and_with_the_nodes_own_group(machines, fixture_text):
    files = amd(machines, fixture_text, **{"/dev/kfd": None})
    words = "ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied\n"
    host = machines.Recorded(files, says(machines, rocminfo=words), groups={"/dev/kfd": 992})
    found = RocmPlatform().probe(host)
    assert (found.state, found.findings[0].code) == ("broken", "no-permission")
    assert "Unable to open /dev/kfd read-write: Permission denied" in found.reason
    assert "--group-add 992" in found.mend


def test_hips_list_may_not_be_longer_than_what_rocr_leaves(machines, fixture_text):
    env = {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0,1"}
    found = RocmPlatform().probe(machines.Recorded(amd(machines, fixture_text), env=env))
    assert (found.state, found.findings[0].code) == ("broken", "visibility-differs")


def test_a_list_that_names_absent_devices_is_a_warning(machines, fixture_text):
    found = RocmPlatform().probe(machines.Recorded(amd(machines, fixture_text), env={"HIP_VISIBLE_DEVICES": "0,7"}))
    assert (found.state, len(found.devices)) == ("present", 1)
    assert [one.code for one in found.findings] == ["visibility-beyond"]


def test_cards_without_an_id_of_their_own_differ_between_machines(machines, fixture_text):
    nameless = fixture_text("amd/kfd_mi300x.txt").replace("unique_id 81985529216486895", "unique_id 0")
    seen = [
        RocmPlatform()
        .probe(
            machines.Recorded(
                amd(machines, fixture_text, **{f"{NODE}/1/properties": nameless, "/etc/machine-id": name})
            )
        )
        .devices[0]
        .identity
        for name in ("one", "two")
    ]
    assert seen[0] != seen[1]
    assert all(seen)


# --- telemetry ----------------------------------------------------------------------------------------------------------
CARD = Device(0, "Instinct MI300X", pci="0000:03:00.0")


def test_sensors_and_processes_are_read_from_the_kernels_files(machines, fixture_text):
    base = f"{PCI}/hwmon/hwmon3"
    proc = "/sys/class/kfd/kfd/proc"
    files = {
        f"{base}/freq1_label": "sclk\n",
        f"{base}/freq1_input": "2100000000\n",
        f"{base}/freq2_label": "mclk\n",
        f"{base}/freq2_input": "1300000000\n",
        f"{base}/power1_average": "612000000\n",
        f"{base}/temp2_label": "junction\n",
        f"{base}/temp2_input": "71000\n",
        f"{proc}/4321/vram_51110": "20000000\n",
        f"{proc}/4322/vram_51110": "0\n",
    }
    host = machines.Recorded(amd(machines, fixture_text, **files))
    assert RocmPlatform().telemetry(host, CARD) == Telemetry(2100, 1300, 612.0, 71.0, (), 1)
    assert host.ran == []


def test_the_tools_are_asked_where_the_kernel_tells_nothing(machines, fixture_text):
    commands = {
        "amd-smi metric --gpu 0000:03:00.0 --json": machines.Result(0, fixture_text("amd/metric_26.txt"), ""),
        "amd-smi process --gpu 0000:03:00.0 --json": machines.Result(0, fixture_text("amd/process.txt"), ""),
    }
    host = machines.Recorded(amd(machines, fixture_text), commands)
    assert RocmPlatform().telemetry(host, CARD) == Telemetry(1733, 1300, 712.0, 101.0, ("socket-thermal",), 1)
    host = machines.Recorded(amd(machines, fixture_text), says(machines, rocm_smi=fixture_text("amd/rocm_smi.txt")))
    assert RocmPlatform().telemetry(host, CARD) == Telemetry(131, 900, 159.0, 45.0)
    assert RocmPlatform().telemetry(machines.Recorded(amd(machines, fixture_text)), CARD) == Telemetry()


class SmiError(Exception):
    pass


def library(**answers):
    """An amdsmi of one card that has the functions in ``answers`` only; an exception as answer is raised."""

    def function(answer):
        def call(*arguments):
            if isinstance(answer, type):
                raise answer("not supported")
            return answer

        return call

    found = {
        "amdsmi_init": None,
        "amdsmi_shut_down": None,
        "amdsmi_get_processor_handles": ["handle"],
        "amdsmi_get_gpu_device_bdf": "0000:03:00.0",
        **answers,
    }
    return SimpleNamespace(
        AmdSmiException=SmiError,
        AmdSmiClkType=SimpleNamespace(GFX=0, MEM=4),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1, EDGE=0),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        **{name: function(answer) for name, answer in found.items()},
    )


def test_the_library_tells_violations_and_what_it_refuses_stays_none(machines, fixture_text):
    smi = library(
        amdsmi_get_power_info={"current_socket_power": "N/A", "socket_power": 650, "average_socket_power": "N/A"},
        amdsmi_get_clock_info={"cur_clk": 2100},
        amdsmi_get_temp_metric=SmiError,
        amdsmi_get_violation_status={"active_ppt_pwr": True, "active_prochot_thrm": True, "active_hbm_thrm": "N/A"},
        amdsmi_get_gpu_process_list=[{"pid": 4321, "memory_usage": {"vram_mem": 5}}],
    )
    host = machines.Recorded(amd(machines, fixture_text), libraries={"amdsmi": smi})
    assert RocmPlatform().telemetry(host, CARD) == Telemetry(2100, 2100, 650.0, None, ("prochot",), 1)


def test_an_older_library_tells_heat_by_its_mask(machines, fixture_text):
    for mask, throttled in ((1 << 36, ("thermal",)), (1 << 2, ()), (2**64 - 1, ()), ("N/A", ())):
        smi = library(
            amdsmi_get_power_info={"average_socket_power": 200},
            amdsmi_get_gpu_metrics_info={"indep_throttle_status": mask},
        )
        host = machines.Recorded(amd(machines, fixture_text), libraries={"amdsmi": smi})
        assert RocmPlatform().telemetry(host, CARD).throttled == throttled


def test_a_library_that_does_not_start_is_passed_over(machines, fixture_text):
    host = machines.Recorded(amd(machines, fixture_text), libraries={"amdsmi": library(amdsmi_init=SmiError)})
    assert RocmPlatform().telemetry(host, CARD) == Telemetry()


def test_the_library_is_never_imported_without_the_kernels_compute_driver(machines):
    host = machines.Recorded(libraries={"amdsmi": library()})
    host.library = lambda name: pytest.fail(f"{name} was imported")
    assert RocmPlatform().telemetry(host, CARD) == Telemetry()


def test_a_card_is_told_by_the_library_where_the_table_does_not_know_it(machines, fixture_text):
    smi = library(
        amdsmi_get_gpu_asic_info={
            "market_name": "AMD Radeon AI PRO R9700",
            "device_id": "0x7551",
            "target_graphics_version": "gfx1201",
        },
        amdsmi_get_power_cap_info={"power_cap": 300000000},
    )
    host = machines.Recorded(amd(machines, fixture_text, device="7551"), libraries={"amdsmi": smi})
    found = RocmPlatform().probe(host)
    assert (found.devices[0].name, found.settings["power_limit_w"]) == ("AMD Radeon AI PRO R9700", 300.0)


# --- loaded libraries ---------------------------------------------------------------------------------------------------
def test_versions_of_loaded_libraries_are_unpacked():
    assert (miopen_version(3004001), miopen_version(None), miopen_version(0)) == ("3.4.1", None, None)
    maps = "7f00-7f01 r-xp 00000000 00:00 1   /opt/rocm-7.2.0/lib/libhipblaslt.so.1.2.70200\n"
    assert file_version(mapped("libhipblaslt", maps)) == "1.2.70200"
    assert file_version(mapped("librocblas", maps)) is None
    assert file_version("/venv/torch/lib/librocblas.so") is None


def test_a_variable_of_opencls_that_may_hide_devices_is_a_warning(machines, fixture_text):
    found = RocmPlatform().probe(machines.Recorded(amd(machines, fixture_text), env={"GPU_DEVICE_ORDINAL": "0"}))
    assert (found.state, [(one.code, one.severity) for one in found.findings]) == (
        "present",
        [("visibility-ordinal", "warning")],
    )


def test_a_module_that_is_not_live_is_broken(machines, fixture_text):
    files = amd(machines, fixture_text, **{"/sys/module/amdgpu/initstate": "coming\n"})
    found = RocmPlatform().probe(machines.Recorded(files))
    assert (found.state, found.findings[0].code) == ("broken", "driver-not-loaded")
    assert "coming" in found.reason
