"""NVIDIA machines, good and broken, through NVML, nvidia-smi and files."""

from __future__ import annotations

import pytest

from pytest_accel.stack.cuda import MODULE_FILE, CudaPlatform
from pytest_accel.stack.types import Device


def probe(machines, nvml=None, *, smi=None, **more):
    libraries = {"pynvml": nvml} if nvml is not None else {}
    if smi is not None:
        return CudaPlatform().probe(machines.SmiHost(smi, libraries=libraries, **more))
    return CudaPlatform().probe(machines.Recorded(libraries=libraries, **more))


# --- NVML --------------------------------------------------------------------------------------------------------------


def test_nvml_alone_is_enough_where_proc_and_the_pci_bus_are_hidden(machines):
    nvml = machines.Nvml()
    found = probe(machines, nvml)
    assert found.state == "present"
    assert found.slug == "nvidia-h200"
    assert nvml.started == 0
    (device,) = found.devices
    assert (device.name, device.pci, device.capability, device.architecture) == (
        "NVIDIA H200",
        "0000:18:00.0",
        (9, 0),
        "sm_90",
    )
    assert device.memory_bytes == 143771 * 2**20
    assert len(device.identity) == 16
    assert device.uuid is not None
    assert device.uuid not in device.identity
    assert found.versions["driver"] == found.versions["driver_user"] == "580.105.08"
    assert found.versions["cuda_driver"] == "13.0"
    assert found.settings == {"power_limit_w": 700.0, "ecc": True, "compute_mode": "default", "mig_mode": False}
    assert found.findings == ()


def test_older_modules_that_answer_in_bytes_are_understood(machines):
    card = machines.Card(name=b"NVIDIA H200", bus=b"00000000:18:00.0")
    found = probe(machines, machines.Nvml(cards=[card], driver=b"535.161.08"))
    assert found.devices[0].name == "NVIDIA H200"
    assert found.devices[0].pci == "0000:18:00.0"
    assert found.versions["driver"] == "535.161.08"


def test_what_a_card_does_not_support_is_none_and_never_zero(machines):
    card = machines.Card(name="NVIDIA GeForce RTX 3090", device=0x220410DE, mig=None, ecc=None, power_limit=None)
    found = probe(machines, machines.Nvml(cards=[card]))
    assert found.settings["ecc"] is None
    assert found.settings["power_limit_w"] is None
    assert found.settings["mig_mode"] is None
    assert found.versions["vbios"] is None


def test_the_kernel_modules_version_is_the_drivers(machines, fixture_text):
    found = probe(machines, machines.Nvml(), files={MODULE_FILE: fixture_text("nvidia/proc_version_open.txt")})
    assert found.versions["driver"] == "580.105.08"
    assert found.versions["driver_module"] == "open"
    assert found.findings == ()


def test_a_kernel_module_that_differs_from_the_libraries_is_an_error_that_names_both(machines, fixture_text):
    found = probe(machines, machines.Nvml(), files={MODULE_FILE: fixture_text("nvidia/proc_version_proprietary.txt")})
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("driver-mismatch", "error")
    assert "535.161.08" in finding.message
    assert "580.105.08" in finding.message
    assert "reboot" in finding.mend


def test_a_lost_card_is_an_error_beside_those_that_answer(machines):
    found = probe(machines, machines.Nvml(cards=[machines.Card(), machines.Card(broken=15)]))
    assert len(found.devices) == 1
    assert [(finding.code, finding.severity) for finding in found.findings] == [("device-lost", "error")]
    assert "GPU is lost" in found.findings[0].message


def test_a_card_that_the_control_group_hides_is_none_of_ours(machines):
    found = probe(
        machines, machines.Nvml(cards=[machines.Card(broken=4), machines.Card(uuid="GPU-b", bus="00000000:2A:00.0")])
    )
    assert [device.uuid for device in found.devices] == ["GPU-b"]
    assert found.findings == ()


@pytest.mark.parametrize(
    ("number", "code"), [(18, "driver-mismatch"), (999, "nvml-unknown"), (15, "device-lost"), (7, "driver-failed")]
)
def test_a_driver_that_fails_is_broken_even_where_no_file_shows_a_card(machines, number, code):
    found = probe(machines, machines.Nvml(wrong=number))
    assert found.state == "broken"
    assert f"({number})" in found.reason
    assert found.mend
    assert found.findings[0].code == code


def test_a_library_without_a_card_is_absent(machines):
    assert probe(machines, machines.Nvml(wrong=12)).state == "absent"
    assert probe(machines, machines.Nvml(wrong=9)).state == "absent"
    assert probe(machines).state == "absent"


def test_a_card_on_the_bus_without_a_driver_is_broken_and_still_named(machines):
    found = probe(
        machines, machines.Nvml(wrong=9), files=machines.pci_files("0000:18:00.0", "10de", "2335", driver="nouveau")
    )
    assert found.state == "broken"
    assert "1 NVIDIA card(s) on the PCI bus" in found.reason
    assert "nouveau" in found.reason
    assert "modprobe" in found.mend
    assert found.slug == "nvidia-h200"


def test_a_container_that_was_given_no_device_is_told_how_to_get_one(machines, fixture_text):
    found = probe(machines, files={**machines.h200_on_bus, MODULE_FILE: fixture_text("nvidia/proc_version_open.txt")})
    assert found.state == "broken"
    assert "--gpus" in found.mend
    assert found.versions["driver"] == "580.105.08"


@pytest.mark.parametrize("class_code", ["0x040300", "0x068000"])
def test_audio_and_bridges_of_the_same_vendor_are_no_cards(machines, class_code):
    assert probe(machines, files=machines.pci_files("0000:18:00.1", "10de", "22ba", class_code)).state == "absent"


def test_a_driver_that_lists_no_card_is_broken_where_one_is_on_the_bus(machines):
    found = probe(machines, machines.Nvml(cards=[]), files=machines.h200_on_bus)
    assert found.state == "broken"
    assert found.findings[0].code == "no-devices"


# --- visibility --------------------------------------------------------------------------------------------------------


def two(machines):
    return machines.Nvml(cards=[machines.Card(), machines.Card(uuid="GPU-bbbbbbbb-2", bus="00000000:2A:00.0")])


@pytest.mark.parametrize(
    ("text", "buses"),
    [
        ("1", ["2a"]),
        ("1,0", ["2a", "18"]),
        ("GPU-bbbb", ["2a"]),
        ("0,1,-1", ["18", "2a"]),
        ("0x1", ["18"]),
        ("0,7", ["18"]),
    ],
)
def test_only_visible_devices_are_counted_in_the_order_given(machines, text, buses):
    found = probe(machines, two(machines), env={"CUDA_VISIBLE_DEVICES": text})
    assert [device.pci[5:7] for device in found.devices] == buses
    assert [device.index for device in found.devices] == list(range(len(buses)))


@pytest.mark.parametrize("text", ["", "-1", "NoDevFiles"])
def test_devices_hidden_on_purpose_are_counted(machines, text):
    found = probe(machines, two(machines), env={"CUDA_VISIBLE_DEVICES": text})
    assert found.state == "broken"
    assert "hides all 2 device(s)" in found.reason
    assert found.hardware["hidden_devices"] == 2


@pytest.mark.parametrize("text", ["7", "GPU-x", "1,1"])
def test_a_variable_that_names_no_device_is_a_mistake_and_is_told_what_there_is(machines, text):
    found = probe(machines, two(machines), env={"CUDA_VISIBLE_DEVICES": text})
    assert found.state == "broken"
    assert "names no device of the 2" in found.reason
    assert "GPU-bbbbbbbb-2" in found.mend
    assert found.hardware["hidden_devices"] == 0


# --- MIG ---------------------------------------------------------------------------------------------------------------


def mig_card(machines, *profiles):
    parts = tuple(
        machines.Card(name=f"NVIDIA H200 MIG {profile}", uuid=f"MIG-{place}", memory=16 * 2**30)
        for place, profile in enumerate(profiles)
    )
    return machines.Card(mig=1, parts=parts)


def test_a_process_sees_one_mig_device_and_its_profile_is_in_the_slug(machines):
    found = probe(machines, machines.Nvml(cards=[mig_card(machines, "1g.18gb", "2g.35gb")]))
    (device,) = found.devices
    assert device.partition == "1g.18gb"
    assert device.uuid == "MIG-0"
    assert device.memory_bytes == 16 * 2**30
    assert found.slug == "nvidia-h200-1g.18gb"
    assert found.settings["mig_mode"] is True


def test_of_two_cards_in_mig_mode_one_mig_device_is_seen(machines):
    first, second = mig_card(machines, "1g.18gb"), mig_card(machines, "2g.35gb")
    assert [device.partition for device in probe(machines, machines.Nvml(cards=[first, second])).devices] == ["1g.18gb"]
    mixed = probe(machines, machines.Nvml(cards=[first, machines.Card(uuid="GPU-whole")]))
    assert [device.uuid for device in mixed.devices] == ["GPU-whole"]


def test_a_mig_uuid_chooses_its_device(machines):
    found = probe(
        machines,
        machines.Nvml(cards=[mig_card(machines, "1g.18gb", "2g.35gb")]),
        env={"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-0"},
    )
    assert [device.partition for device in found.devices] == ["2g.35gb"]


def test_mig_mode_without_a_mig_device_is_broken(machines):
    found = probe(machines, machines.Nvml(cards=[mig_card(machines)]))
    assert found.state == "broken"
    assert "nvidia-smi mig" in found.mend


# --- findings ----------------------------------------------------------------------------------------------------------


def test_a_torch_that_was_built_without_cuda_is_an_error_that_gives_both_views(machines):
    found = probe(
        machines,
        machines.Nvml(),
        packages={"torch": "2.13.0+cpu"},
        package_files={("torch", "torch/version.py"): "cuda: Optional[str] = None\nhip: Optional[str] = None\n"},
    )
    (finding,) = found.findings
    assert finding.code == "torch-without-cuda"
    assert "lists 1 card(s)" in finding.message
    assert "2.13.0+cpu" in finding.message


def test_the_toolkit_is_torchs_and_is_read_without_importing_it(machines):
    found = probe(
        machines,
        machines.Nvml(),
        files={"/usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}'},
        packages={"torch": "2.11.0+cu130", "nvidia-cudnn-cu13": "9.15.1.9"},
        package_files={("torch", "torch/version.py"): "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"},
    )
    assert found.versions["toolkit"] == "13.0"
    assert found.versions["cuda_home"] == "12.8.1"
    assert found.versions["nvidia-cudnn"] == "9.15.1.9"
    assert found.findings == ()


def test_cards_of_different_models_and_settings_are_named(machines):
    other = machines.Card(name="NVIDIA L4", uuid="GPU-b", bus="00000000:2A:00.0", device=0x27B810DE, power_limit=72000)
    codes = [finding.code for finding in probe(machines, machines.Nvml(cards=[machines.Card(), other])).findings]
    assert codes == ["mixed-models", "device-order", "settings-differ-between-devices"]


def test_prohibited_compute_mode_is_an_error(machines):
    found = probe(machines, machines.Nvml(cards=[machines.Card(compute_mode=2)]))
    assert [finding.code for finding in found.findings] == ["compute-prohibited"]


# --- nvidia-smi --------------------------------------------------------------------------------------------------------


def test_nvidia_smi_gives_the_same_answer_as_nvml(machines, fixture_text):
    smi = machines.smi_from_csv(fixture_text("nvidia/two_h200.csv"), fixture_text("nvidia/version_580.txt"))
    by_tool = probe(machines, smi=smi)
    by_nvml = probe(machines, machines.Nvml())
    assert by_tool.devices[0] == by_nvml.devices[0]
    assert by_tool.settings == by_nvml.settings
    assert by_tool.slug == by_nvml.slug
    assert by_tool.versions["cuda_driver"] == "13.0"
    assert len(by_tool.devices) == 2


def test_every_way_of_saying_nothing_is_none(machines, fixture_text):
    found = probe(machines, smi=machines.smi_from_csv(fixture_text("nvidia/nothing_known.csv")))
    assert found.state == "present"
    assert found.slug == "nvidia-a100-sxm4-80gb"
    assert found.devices[0].memory_bytes is None
    assert found.devices[0].capability is None
    assert set(found.settings.values()) == {None}
    assert found.versions["vbios"] is None
    assert found.versions["cuda_driver"] is None


def test_a_field_that_a_driver_does_not_know_costs_its_own_group_only(machines, fixture_text):
    text = fixture_text("nvidia/two_h200.csv").replace("mig.mode.current", "mig.mode.gone")
    found = probe(machines, smi=machines.smi_from_csv(text))
    assert found.settings["mig_mode"] is None
    assert found.settings["ecc"] is True


def test_the_words_for_an_unknown_field_are_no_value(machines, fixture_text):
    text = fixture_text("nvidia/two_h200.csv").replace("vbios_version", "vbios_gone")
    assert (
        probe(machines, smi=machines.smi_from_csv(text.split("\n")[0] + "\n" + text.split("\n")[1])).versions["vbios"]
        is None
    )


def test_driver_610s_changed_words_are_read(machines, fixture_text):
    smi = machines.smi_from_csv(fixture_text("nvidia/two_h200.csv"), fixture_text("nvidia/version_610.txt"))
    assert probe(machines, smi=smi).versions["cuda_driver"] == "13.3"


def test_mig_devices_are_listed_by_the_tool_too(machines, fixture_text):
    smi = machines.smi_from_csv(fixture_text("nvidia/mig_a100.csv"), listing=fixture_text("nvidia/mig_list.txt"))
    found = probe(machines, smi=smi, env={"CUDA_VISIBLE_DEVICES": "MIG-2222"})
    assert [device.partition for device in found.devices] == ["1g.10gb"]
    assert found.slug == "nvidia-a100-sxm4-80gb-1g.10gb"


@pytest.mark.parametrize(
    ("rc", "out", "code"),
    [
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105\n",
            "driver-mismatch",
        ),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure\n",
            "driver-not-loaded",
        ),
        (255, "Failed to initialize NVML: Unknown Error\n", "nvml-unknown"),
        (6, "No devices were found\n", "no-devices"),
        (0, "No devices were found\n", "no-devices"),
        (15, "Unable to determine the device handle for GPU0000:18:00.0: Unknown Error\n", "device-lost"),
        (77, "something new\n", "driver-failed"),
        (124, "", "tool-hangs"),
    ],
)
def test_the_tools_failures_are_told_with_its_words_and_a_mend(machines, rc, out, code):
    err = "nvidia-smi did not answer within 15 s" if rc == 124 else ""
    found = probe(machines, files=machines.h200_on_bus, smi=lambda argv: machines.Result(rc, out, err))
    assert found.state == "broken"
    assert found.findings[0].code == code
    assert (out or err).split("\n")[0] in found.reason
    assert found.mend


def test_one_lost_card_among_several_does_not_hide_the_others(machines, fixture_text):
    good = machines.smi_from_csv(fixture_text("nvidia/two_h200.csv"))

    def smi(argv):
        result = good(argv)
        if argv[1].startswith("--query"):
            return machines.Result(
                15, result.out + "Unable to determine the device handle for GPU0000:2A:00.0: GPU is lost.\n", ""
            )
        return result

    found = probe(machines, smi=smi)
    assert found.state == "present"
    assert "device-lost" in [finding.code for finding in found.findings]


# --- telemetry ---------------------------------------------------------------------------------------------------------


def test_telemetry_is_joined_by_uuid_and_names_slow_downs_only(machines):
    cards = [machines.Card(uuid="GPU-other"), machines.Card(uuid="GPU-mine", reasons=0x4 | 0x40 | 0x1)]
    host = machines.Recorded(libraries={"pynvml": machines.Nvml(cards=cards)})
    state = CudaPlatform().telemetry(host, Device(0, "NVIDIA H200", uuid="GPU-mine"))
    assert state.throttled == ("hardware thermal slow-down",)
    assert (state.sm_clock_mhz, state.memory_clock_mhz, state.power_w, state.temperature_c) == (1980, 3201, 312.5, 51.0)
    assert state.other_processes == 0


def test_processes_of_others_are_counted_and_children_are_ours(machines):
    import os

    own = os.getpid()
    files = {
        "/proc/900/status": f"Name:\tx\nPPid:\t{own}\n",
        "/proc/901/status": "Name:\ty\nPPid:\t1\n",
        "/proc/1/status": "PPid:\t0\n",
    }
    nvml = machines.Nvml(cards=[machines.Card(uuid="GPU-mine", processes=(own, 900, 901))])
    host = machines.Recorded(files, libraries={"pynvml": nvml})
    assert CudaPlatform().telemetry(host, Device(0, "x", uuid="GPU-mine")).other_processes == 1


def test_telemetry_of_a_device_that_is_gone_is_empty(machines):
    host = machines.Recorded(libraries={"pynvml": machines.Nvml(cards=[])})
    state = CudaPlatform().telemetry(host, Device(0, "x", uuid="GPU-gone"))
    assert (state.sm_clock_mhz, state.power_w, state.throttled) == (None, None, ())


def test_telemetry_by_the_tool(machines, fixture_text):
    host = machines.SmiHost(machines.smi_from_csv(fixture_text("nvidia/two_h200.csv")))
    state = CudaPlatform().telemetry(host, Device(0, "x", uuid="GPU-bbbbbbbb-0000-0000-0000-000000000002"))
    assert state.throttled == ("software thermal slow-down", "hardware thermal slow-down")
    assert (state.sm_clock_mhz, state.temperature_c) == (1200, 84.0)
    unknown = machines.SmiHost(machines.smi_from_csv(fixture_text("nvidia/nothing_known.csv")))
    state = CudaPlatform().telemetry(unknown, Device(0, "x", uuid="GPU-cccccccc-0000-0000-0000-000000000003"))
    assert (state.sm_clock_mhz, state.power_w, state.throttled) == (None, None, ())
