"""Files and outputs of real machines, where they lie beside this checkout, through doctor's readings and rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_accel.stack import ascend_files
from pytest_accel.stack.ascend_files import cann, firmware_version, operator_kernels
from pytest_accel.stack.doctor.facts import Facts
from pytest_accel.stack.doctor.readings import dkms_builds, loaded_module
from pytest_accel.stack.doctor.rules_toolkit import cann_and_driver
from pytest_accel.stack.doctor.state import device_states
from pytest_accel.stack.doctor.torch_child import TorchSeen
from pytest_accel.stack.rocm_kfd import rocm_version

RECORDED = Path(__file__).parents[2].parent / "shared" / "recorded"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded outputs beside this checkout")
LATEST = "/usr/local/Ascend/ascend-toolkit/latest"


def texts(pattern: str) -> list[Path]:
    return sorted(RECORDED.glob(pattern))


@pytest.mark.parametrize("path", texts("ascend/driver_version.info_*"), ids=lambda path: path.stem)
def test_every_recorded_driver_file_is_read_whole(doctor, path):
    found = ascend_files.driver(doctor.Host({"/usr/local/Ascend/driver/version.info": path.read_text()}))
    assert found.version == re.search(r"info_(\d+\.\d+\.rc\d+(?:\.\d+)?)", path.name).group(1)
    assert found.inner in found.compatible
    assert found.firmware is not None
    assert found.firmware[0] == "7.0.0"


@pytest.mark.parametrize("path", texts("ascend/ascend_toolkit_install.info_*"), ids=lambda path: path.stem)
@pytest.mark.parametrize("driver", texts("ascend/driver_version.info_*"), ids=lambda path: path.stem)
def test_every_recorded_cann_is_judged_against_every_recorded_driver(doctor, path, driver):
    host = doctor.Host(
        {
            f"{LATEST}/aarch64-linux/ascend_toolkit_install.info": path.read_text(),
            "/usr/local/Ascend/driver/version.info": driver.read_text(),
        },
        machine="aarch64",
    )
    toolkit, found = cann(host), ascend_files.driver(host)
    assert toolkit.version == re.search(r"info_(\d+\.\d+\.(?:RC)?\d+)", path.name).group(1)
    told = list(cann_and_driver(host, {"ascend": doctor.probe("ascend")}, Facts(cann=toolkit, ascend_driver=found)))
    # The oldest toolkit names neither newer driver, and the newest driver no longer names that toolkit.
    old_on_new = toolkit.version == "7.0.RC1" and found.version == "25.0.rc1.1"
    assert doctor.codes(told) == ([("toolkit-older-than-driver", "warning")] if old_on_new else [])


@pytest.mark.parametrize("path", texts("ascend/firmware_version.info_*"), ids=lambda path: path.stem)
def test_every_recorded_firmware_is_judged_by_the_drivers_range(doctor, path):
    host = doctor.Host({"/usr/local/Ascend/firmware/version.info": path.read_text()})
    firmware = firmware_version(host)
    assert firmware in path.name
    for driver in texts("ascend/driver_version.info_*"):
        files = {"/usr/local/Ascend/driver/version.info": driver.read_text()}
        known = ascend_files.driver(doctor.Host(files))
        told = doctor.run("ascend_firmware", doctor.probe("ascend"), ascend_driver=known, ascend_firmware=firmware)
        assert bool(told) is (firmware.startswith("7.7") and known.version.startswith("24.1"))


def test_recorded_operator_packages_and_the_older_version_file_are_read(doctor):
    (package,) = texts("ascend/opp_kernel_version.info_*")
    (older,) = texts("ascend/version.cfg_*")
    host = doctor.Host(
        {f"{LATEST}/opp_kernel/version.info": package.read_text(), f"{LATEST}/version.cfg": older.read_text()}
    )
    installed = cann(host)
    assert installed.version == "8.0.T63"
    assert operator_kernels(host, installed) == "8.2.RC1"


def test_the_recorded_import_without_cann_says_to_source_it(doctor):
    (path,) = texts("ascend/torch_npu_import_without_cann*")
    (found,) = doctor.run("torch_sees_none", doctor.probe("ascend"), seen=TorchSeen(0, path.read_text()))
    assert found.code == "torch-npu-import"
    assert "set_env.sh" in found.mend


def test_the_recorded_memory_and_health_pages_are_of_a_healthy_card(doctor):
    (listing,) = texts("ascend/npu-smi_info_m_910B3*")
    (ecc,) = texts("ascend/npu-smi_info_t_ecc*")
    (health,) = texts("ascend/npu-smi_info_t_health*")
    host = doctor.Host(
        commands={
            "npu-smi info -m": doctor.Result(0, listing.read_text(), ""),
            "npu-smi info -t ecc -i 0": doctor.Result(0, ecc.read_text(), ""),
            "npu-smi info -t health -i 0": doctor.Result(0, health.read_text(), ""),
        }
    )
    state = device_states(host, doctor.probe("ascend"))[0]
    assert (state.uncorrected, state.retired, state.health) == (0, 0, "OK")
    assert not doctor.run("device_state", doctor.probe("ascend"), states={0: state})


@pytest.mark.parametrize("path", texts("rocm/dkms_*"), ids=lambda path: path.stem)
def test_every_recorded_dkms_status_is_read(doctor, path):
    host = doctor.Host(commands={"dkms status": doctor.Result(0, path.read_text(), "")})
    found = dkms_builds(host, ask_tool=True)
    assert found
    assert {build.module for build in found} == {"amdgpu"}
    assert all(build.version.startswith(("6.10.5-", "6.16.6-")) for build in found)


def test_every_recorded_rocm_version_file_is_read(doctor):
    (path,) = texts("rocm/opt_rocm_info_version_files*")
    for version in path.read_text().split():
        assert rocm_version(doctor.Host({"/opt/rocm/.info/version": version + "\n"})) == version


@pytest.mark.parametrize("path", texts("nvidia/proc_driver_nvidia_version_*"), ids=lambda path: path.stem)
def test_every_recorded_kernel_module_is_held_against_the_libraries(doctor, path):
    version = re.search(r"_([\d.]+)\.txt", path.name).group(1)
    files = {"/proc/driver/nvidia/version": path.read_text()}
    assert loaded_module(doctor.Host(files), "nvidia") == version
    other = doctor.Host({**files, "/usr/lib64/libcuda.so.595.71.05": ""})
    (found,) = doctor.run("driver_mismatch", doctor.probe("cuda", "broken"), host=other)
    assert version in found.message
