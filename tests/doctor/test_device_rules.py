"""The devices: visibility, partitions, faults, others at work, and WSL2."""

from __future__ import annotations

import csv

import pytest

from pytest_accel.stack.doctor.state import DeviceState, device_states


# --- visibility ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("platform", "variable", "text", "words"),
    [
        ("cuda", "CUDA_VISIBLE_DEVICES", "1,1", "twice"),
        ("cuda", "CUDA_VISIBLE_DEVICES", "0,x", "'x' is no device"),
        ("cuda", "CUDA_VISIBLE_DEVICES", "0,1,7", "names 3 device(s), 2 visible"),
        ("cuda", "CUDA_VISIBLE_DEVICES", "0,1", None),
        ("cuda", "CUDA_VISIBLE_DEVICES", "", None),
        ("cuda", "CUDA_VISIBLE_DEVICES", "-1", None),
        ("cuda", "ASCEND_RT_VISIBLE_DEVICES", "1,1", None),
        ("rocm", "HIP_VISIBLE_DEVICES", "0,0", "twice"),
        ("rocm", "ROCR_VISIBLE_DEVICES", "0,1,2", None),
        ("ascend", "ASCEND_RT_VISIBLE_DEVICES", "1,0", "ascending"),
        ("ascend", "ASCEND_RT_VISIBLE_DEVICES", "0,1", None),
    ],
)
def test_a_visibility_variable_that_names_what_is_not_there_is_told(doctor, platform, variable, text, words):
    host = doctor.Host(env={variable: text})
    found = doctor.run("visibility_names_nothing", doctor.probe(platform, devices=2), host=host)
    assert doctor.codes(found) == ([("visibility-names-nothing", "warning")] if words else [])
    assert all(words in finding.message and text in finding.message for finding in found)


@pytest.mark.parametrize(
    ("env", "fires"),
    [
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, True),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}, False),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0,1"}, True),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0,1"}, False),
        ({}, False),
    ],
)
def test_variables_that_contradict_each_other_are_an_error(doctor, env, fires):
    found = doctor.run("visibility_contradicts", doctor.probe("rocm"), host=doctor.Host(env=env))
    assert doctor.codes(found) == ([("visibility-differs", "error")] if fires else [])
    assert not doctor.run("visibility_contradicts", doctor.probe("cuda"), host=doctor.Host(env=env))


# --- partitions ----------------------------------------------------------------------------------------------------------
def test_mig_that_nobody_named_is_told(doctor):
    on = doctor.probe("cuda", settings={"mig_mode": True})
    assert doctor.codes(doctor.run("partition_unexpected", on)) == [("mig-on", "warning")]
    named = doctor.Host(env={"CUDA_VISIBLE_DEVICES": "MIG-aaaa"})
    assert not doctor.run("partition_unexpected", on, host=named)
    assert not doctor.run("partition_unexpected", doctor.probe("cuda", settings={"mig_mode": False}))


# --- state ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "code", "severity"),
    [
        ({"throttled": ("hardware thermal slow-down",)}, "throttled", "warning"),
        ({"other_processes": 2}, "device-shared", "warning"),
        ({"uncorrected": 1}, "memory-errors", "warning"),
        ({"retired": 3}, "memory-retired", "note"),
        ({"repair_pending": True}, "memory-repair-pending", "warning"),
        ({"repair_failed": True}, "memory-repair-failed", "error"),
        ({"persistence": False}, "persistence-off", "note"),
        ({"fabric": "In Progress"}, "fabric-not-ready", "error"),
        ({"health": "Alarm"}, "device-unhealthy", "error"),
        ({"health": "Warning"}, "device-unhealthy", "warning"),
    ],
)
def test_each_state_has_its_code(doctor, state, code, severity):
    found = doctor.run("device_state", doctor.probe("cuda"), states={3: DeviceState(**state)})
    assert doctor.codes(found) == [(code, severity)]
    assert "device 3" in found[0].message


def test_a_healthy_device_and_one_that_was_not_asked_are_silent(doctor):
    well = DeviceState((), 0, 0, 0, False, False, True, "Completed", "OK")
    assert not doctor.run("device_state", doctor.probe("cuda"), states={0: well, 1: DeviceState()})
    assert not doctor.run("device_state", doctor.probe("cuda"), states=None)


def smi(doctor, row: dict[str, str]):
    """An nvidia-smi that knows the fields of ``row`` and refuses queries with others, as the real one does."""

    class Smi(doctor.Host):
        def _recorded(self, argv):
            self.ran.append(tuple(argv))
            wanted = argv[1].partition("=")[2].split(",") if argv[0] == "nvidia-smi" else []
            if not wanted or any(name not in row for name in wanted):
                return doctor.Result(2, "Field is not a valid field to query.\n", "")
            return doctor.Result(0, ", ".join(row[name] for name in wanted) + "\n", "")

    return Smi()


def test_the_state_is_read_by_address_and_a_group_that_is_refused_is_unknown(doctor):
    row = {
        "persistence_mode": "Disabled",
        "ecc.errors.uncorrected.volatile.total": "4",
        "remapped_rows.uncorrectable": "2",
        "remapped_rows.pending": "Yes",
        "remapped_rows.failure": "No",
        "retired_pages.pending": "[N/A]",
    }
    host = smi(doctor, row)
    state = device_states(host, doctor.probe("cuda"))[0]
    assert (state.persistence, state.uncorrected, state.retired) == (False, 4, 2)
    assert (state.repair_pending, state.repair_failed, state.fabric) == (True, False, None)
    assert all("--id=0000:83:00.0" in argv or "--id=GPU" in " ".join(argv) for argv in host.ran)


def test_cells_without_a_value_stay_unknown(doctor):
    row = dict.fromkeys(
        ("persistence_mode", "ecc.errors.uncorrected.volatile.total", "retired_pages.pending", "fabric.state"), "[N/A]"
    )
    state = device_states(smi(doctor, row), doctor.probe("cuda"))[0]
    assert state == DeviceState()


def test_ascends_health_and_memory_are_read_by_the_cards_own_number(doctor):
    ecc = (
        "NPU ID : 8\nHBM Single Bit Error Count : 9\nHBM Double Bit Error Count : 1\n"
        "HBM Double Bit Aggregate Total Err Cnt : 7\nHBM Double Bit Isolated Pages Count : 2\n"
    )
    host = doctor.Host(
        commands={
            "npu-smi info -m": doctor.Result(
                0,
                "\tNPU ID    Chip ID    Chip Logic ID    Chip Name\n\t8    0    0    Ascend 910B3\n\t8    1    -    Mcu\n",
                "",
            ),
            "npu-smi info -t ecc -i 8": doctor.Result(0, ecc, ""),
            "npu-smi info -t health -i 8": doctor.Result(0, " Health Status    : Warning\n", ""),
        }
    )
    state = device_states(host, doctor.probe("ascend"))[0]
    assert (state.uncorrected, state.retired, state.health) == (1, 2, "Warning")
    assert device_states(doctor.Host(), doctor.probe("ascend"))[0] == DeviceState()


def test_amds_memory_errors_and_throttling_are_read(doctor):
    text = '{"gpu_data": [{"gpu": 0, "ecc": {"total_uncorrectable_count": 3}, "throttle_status": "THROTTLED"}]}'
    host = doctor.Host(commands={"amd-smi": doctor.Result(0, text, "")})
    state = device_states(host, doctor.probe("rocm"))[0]
    assert state.uncorrected == 3
    assert state.throttled
    calm = doctor.Host(commands={"amd-smi": doctor.Result(0, '[{"throttle_status": "UNTHROTTLED", "ecc": "N/A"}]', "")})
    assert device_states(calm, doctor.probe("rocm"))[0] == DeviceState()


# --- recorded ------------------------------------------------------------------------------------------------------------
def test_every_recorded_csv_of_a_healthy_card_gives_no_error(doctor):
    files = sorted(doctor.recorded.glob("nvidia/*query_gpu_csv*"))
    if not files:
        pytest.skip("no recorded outputs beside this checkout")
    for path in files:
        head, *rows = [row for row in csv.reader(path.read_text().splitlines(), skipinitialspace=True) if row]
        row = {name.split(" [")[0]: value for name, value in zip(head, rows[0], strict=True)}
        states = device_states(smi(doctor, row), doctor.probe("cuda"))
        found = doctor.run("device_state", doctor.probe("cuda"), states=states)
        assert {finding.severity for finding in found} <= {"note"}, path.name
        if path.name.startswith("h200_590"):
            assert (states[0].persistence, states[0].uncorrected, states[0].fabric) == (True, 0, "Completed")


# --- WSL2 ----------------------------------------------------------------------------------------------------------------
def test_wsl_with_a_vendors_library_is_not_a_machine_without_accelerator(doctor):
    host = doctor.Host({"/dev/dxg": "", "/usr/lib/wsl/lib/libcuda.so.1": ""})
    assert doctor.codes(doctor.run("wsl", host=host)) == [("wsl-no-driver", "error")]
    bare = doctor.Host({"/dev/dxg": ""})
    assert doctor.codes(doctor.run("wsl", host=bare, torch=doctor.torch(cuda="13.0"))) == [("wsl-no-driver", "error")]
    assert doctor.codes(doctor.run("wsl", host=bare, torch=doctor.torch())) == [("wsl-no-driver", "warning")]
    assert not doctor.run("wsl", host=doctor.Host())
    assert not doctor.run("wsl", doctor.probe("cuda"), host=host)
