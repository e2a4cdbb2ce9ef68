"""Toolkit against driver, firmware, torch and its extension."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.stack import ascend_files
from pytest_accel.stack.ascend_files import AscendDriver, Cann, cann, firmware_version
from pytest_accel.stack.doctor import tables
from pytest_accel.stack.doctor.rules_toolkit import oldest_to_newest

NEWER = "toolkit-newer-than-driver"


def cuda(doctor, driver, **more):
    return doctor.probe("cuda", versions={"driver": driver, "driver_user": driver, **more})


# --- CUDA --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("toolkit", "driver", "fires"),
    [
        ("13.0", "550.135", True),
        ("13.0", "580.65.06", False),
        ("13.0", "580.65.05", True),
        ("13.0.2", "580.82.07", True),
        ("13.0.2", "580.95.05", False),
        ("12.8", "570.26", False),
        ("12.8", "565.57.01", True),
        ("12.8.1", "570.86.10", True),
        ("12.6", "560.28.03", False),
        ("12.6", "525.60.12", True),
        ("12.1", "595.71.05", False),
        ("11.8", "418.87.01", True),
        ("11.7", "450.80.02", False),
        ("13.5", "580.65.06", False),
        ("13.5", "575.57.08", True),
    ],
)
def test_cuda_needs_a_driver_by_the_whole_dotted_number(doctor, toolkit, driver, fires):
    found = doctor.run("cuda_toolkit", cuda(doctor, driver), torch=doctor.torch(cuda=toolkit))
    assert doctor.codes(found) == ([(NEWER, "warning")] if fires else [])
    assert all(toolkit in finding.message and driver in finding.message for finding in found)


def test_a_toolkit_of_no_row_is_compared_with_the_cuda_that_the_driver_serves(doctor):
    found = doctor.run("cuda_toolkit", cuda(doctor, "595.80", cuda_driver="13.2"), torch=doctor.torch(cuda="13.4"))
    assert doctor.codes(found) == [(NEWER, "warning")]
    served = cuda(doctor, "615.10", cuda_driver="13.4")
    assert not doctor.run("cuda_toolkit", served, torch=doctor.torch(cuda="13.4"))


def test_strict_makes_a_newer_toolkit_an_error(doctor):
    found = doctor.run("cuda_toolkit", cuda(doctor, "550.135"), torch=doctor.torch(cuda="13.0"), policy="strict")
    assert doctor.codes(found) == [(NEWER, "error")]


def test_the_toolkit_of_torch_counts_before_the_one_below_usr_local(doctor):
    assert not doctor.run("cuda_toolkit", cuda(doctor, "570.26"), torch=doctor.torch(cuda="12.8"), cuda="13.0.1")
    assert doctor.run("cuda_toolkit", cuda(doctor, "570.26"), cuda="13.0.1")


def test_the_compatibility_package_is_named_where_it_is(doctor):
    (found,) = doctor.run("cuda_toolkit", cuda(doctor, "550.135"), cuda="13.0", cuda_compat=True)
    assert "cuda-compat" in found.message


@given(st.sampled_from(sorted(tables.CUDA_SHIPPED_WITH.items())))
@settings(max_examples=40)
def test_each_toolkit_is_served_by_the_driver_that_it_came_with(row):
    from pytest_accel.stack.doctor.facts import Facts
    from pytest_accel.stack.doctor.rules_toolkit import cuda_toolkit
    from pytest_accel.stack.recorded import RecordedHost
    from pytest_accel.stack.types import Probe

    numbers, driver = row
    probes = {"cuda": Probe("cuda", "present", versions={"driver": driver})}
    assert not list(cuda_toolkit(RecordedHost(), probes, Facts(cuda=".".join(map(str, numbers)))))


def test_no_driver_or_no_toolkit_is_not_judged(doctor):
    assert not doctor.run("cuda_toolkit", cuda(doctor, None), torch=doctor.torch(cuda="13.0"))
    assert not doctor.run("cuda_toolkit", cuda(doctor, "550.135"), torch=doctor.torch())


# --- ROCm --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("toolkit", "driver", "code"),
    [
        ("7.2.26015-fc0010cf6a", "6.16.6", None),
        ("7.2.26015-fc0010cf6a", "6.12.12", NEWER),
        ("6.4.43482-0f2d60242", "6.10.5", None),
        ("7.13.1", "6.16.6", NEWER),
        ("10.1.0", "6.16.13", NEWER),
        ("6.0.2", "6.16.6", "toolkit-older-than-driver"),
        ("7.2.0", "in-tree", None),
        ("7.2.0", "6.19.14", None),
        ("7.2.0", None, None),
    ],
)
def test_rocm_is_held_against_the_window_of_its_driver(doctor, toolkit, driver, code):
    found = doctor.run(
        "rocm_window", doctor.probe("rocm", versions={"driver": driver}), torch=doctor.torch(hip=toolkit)
    )
    assert doctor.codes(found) == ([(code, "warning")] if code else [])


def test_a_hip_of_another_release_than_the_systems_rocm_is_told(doctor):
    found = doctor.run(
        "hip_unlike_rocm", doctor.probe("rocm"), torch=doctor.torch(hip="6.4.43482-0f2d60242"), rocm="7.1.1"
    )
    assert doctor.codes(found) == [("hip-unlike-rocm", "warning")]
    assert "6.4.43482-0f2d60242" in found[0].message
    assert "7.1.1" in found[0].message
    alike = doctor.torch(hip="6.4.43482-0f2d60242")
    assert not doctor.run("hip_unlike_rocm", doctor.probe("rocm"), torch=alike, rocm="6.4.0-47")
    assert not doctor.run("hip_unlike_rocm", doctor.probe("rocm"), torch=alike, rocm=None)


# --- Ascend ------------------------------------------------------------------------------------------------------------
DRIVER_INFO = """Version=25.0.rc1.1
Innerversion=V100R001C21SPC002B220
compatible_version=[V100R001C17],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]
compatible_version_fw=[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""
CANN_INFO = """package_name=Ascend-cann-toolkit
version=8.2.RC1
innerversion=V100R001C22SPC001B231
compatible_version=[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21],[V100R001C23]
arch=aarch64
"""


def test_the_files_of_driver_firmware_and_cann_are_read(doctor):
    host = doctor.Host(
        {
            "/usr/local/Ascend/driver/version.info": DRIVER_INFO,
            "/usr/local/Ascend/firmware/version.info": "Version=7.7.0.1.231\npackage_version=25.0.rc1.1\n",
            "/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info": CANN_INFO,
        }
    )
    driver, toolkit = ascend_files.driver(host), cann(host)
    assert (driver.version, driver.inner, driver.firmware) == ("25.0.rc1.1", "V100R001C21", ("7.0.0", "7.7.99"))
    assert (toolkit.version, toolkit.inner, toolkit.compatible[-1]) == ("8.2.RC1", "V100R001C22", "V100R001C23")
    assert firmware_version(host) == "7.7.0.1.231"
    assert not doctor.run("cann_and_driver", doctor.probe("ascend"), cann=toolkit, ascend_driver=driver)


def test_the_driver_is_found_where_its_installer_says(doctor):
    host = doctor.Host(
        {
            "/etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/data/Ascend\n",
            "/data/Ascend/driver/version.info": "Version=24.1.rc1\nInnerversion=V100R001C15SPC006B220\n",
        }
    )
    assert ascend_files.driver(host).version == "24.1.rc1"


def test_cann_of_the_older_file_is_the_text_after_the_colon(doctor):
    text = "# version: 1.0\ntoolkit_running_version=[7.6.T13.0.B094:8.0.T63]\n"
    assert cann(doctor.Host({"/usr/local/Ascend/ascend-toolkit/latest/version.cfg": text})).version == "8.0.T63"


def test_cann_and_driver_that_do_not_list_each_other_are_told(doctor):
    old = AscendDriver("23.0.7", "V100R001C13", ("V100R001C13",))
    new = Cann("/cann", "8.2.RC1", "V100R001C22", ("V100R001C15", "V100R001C21"))
    found = doctor.run("cann_and_driver", doctor.probe("ascend"), cann=new, ascend_driver=old)
    assert doctor.codes(found) == [(NEWER, "warning")]
    assert "8.2.RC1" in found[0].message
    assert "23.0.7" in found[0].message
    strict = doctor.run("cann_and_driver", doctor.probe("ascend"), cann=new, ascend_driver=old, policy="strict")
    assert doctor.codes(strict) == [(NEWER, "error")]
    young = AscendDriver("25.5.0", "V100R001C25", ("V100R001C23",))
    found = doctor.run("cann_and_driver", doctor.probe("ascend"), cann=new, ascend_driver=young)
    assert doctor.codes(found) == [("toolkit-older-than-driver", "warning")]


@pytest.mark.parametrize(
    ("firmware", "inside"),
    [("7.7.0.1.231", True), ("7.0.0", True), ("7.7.99.1", True), ("7.8.0.1", False), ("6.4.12", False)],
)
def test_the_firmware_must_lie_in_the_range_that_the_driver_gives(doctor, firmware, inside):
    driver = AscendDriver("25.0.rc1.1", firmware=("7.0.0", "7.7.99"))
    found = doctor.run("ascend_firmware", doctor.probe("ascend"), ascend_driver=driver, ascend_firmware=firmware)
    assert doctor.codes(found) == ([] if inside else [("firmware-out-of-range", "warning")])
    assert oldest_to_newest(firmware, "7.0.0", "7.7.99") is inside


@pytest.mark.parametrize(
    ("torch", "extension", "fires"),
    [
        ("2.7.1+cpu", "2.7.1.post8", False),
        ("2.7.1", "2.7.1", False),
        ("2.8.0", "2.7.1", True),
        ("2.10.0", "2.1.0", True),
    ],
)
def test_torch_npu_must_be_of_torchs_own_number(doctor, torch, extension, fires):
    found = doctor.run("torch_npu_and_torch", doctor.probe("ascend"), torch=doctor.torch(torch), torch_npu=extension)
    assert doctor.codes(found) == ([("torch-npu-unlike-torch", "error")] if fires else [])


@pytest.mark.parametrize(
    ("extension", "version", "fires"),
    [
        ("2.6.0", "8.2.RC1", False),
        ("2.6.0", "8.1.RC1", True),
        ("2.6.0", "8.5.0", True),
        ("2.7.1", "8.3.RC2", False),
        ("2.7.1", "8.3.RC1.alpha001", True),
        ("2.1.0.post8", "8.0.RC2", True),
        ("2.14.0", "8.0.RC2", False),
        ("2.1.0", "7.0.RC1", True),
    ],
)
def test_torch_npu_is_held_against_cann_by_the_vendors_table(doctor, extension, version, fires):
    found = doctor.run("torch_npu_and_cann", doctor.probe("ascend"), torch_npu=extension, cann=Cann("/cann", version))
    assert doctor.codes(found) == ([("torch-npu-unlike-cann", "warning")] if fires else [])


def test_every_row_of_that_table_agrees_with_itself(doctor):
    for version, made in tables.TORCH_NPU_OF_CANN.items():
        for extension in made:
            ascend = doctor.probe("ascend")
            assert not doctor.run("torch_npu_and_cann", ascend, torch_npu=extension, cann=Cann("/cann", version))


def test_the_operators_binaries_must_be_of_canns_version(doctor):
    files = {"/cann/opp_kernel/version.info": "Version=8.1.0.0.201\nversion_dir=8.1.RC1\n"}
    from pytest_accel.stack.ascend_files import operator_kernels

    installed = Cann("/cann", "8.2.RC1")
    said = operator_kernels(doctor.Host(files), installed)
    assert said == "8.1.RC1"
    found = doctor.run("operator_kernels", doctor.probe("ascend"), cann=installed, operator_kernels=said)
    assert doctor.codes(found) == [("operator-kernels-differ", "warning")]
    assert not doctor.run("operator_kernels", doctor.probe("ascend"), cann=installed, operator_kernels="8.2.RC1")
    assert not doctor.run("operator_kernels", doctor.probe("ascend"), cann=installed, operator_kernels=None)
