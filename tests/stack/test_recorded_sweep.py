"""Recorded outputs of real machines, where they lie beside this checkout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_recorded_ascend_errors_are_understood():
    classify = platform("ascend").classify
    kinds = {path.stem: classify(path.read_text()) for path in files("ascend/torch_npu_*")}
    assert kinds["torch_npu_EZ1001_dtype_not_implemented"] == ErrorKind.DTYPE_UNSUPPORTED
    assert kinds["torch_npu_EZ9999_cannot_find_bin_ERR01100"] == ErrorKind.UNSUPPORTED
    assert kinds["torch_npu_fallback_warning_ERR01007"] == ErrorKind.UNSUPPORTED
    assert kinds["torch_npu_set_device_invalid_EE1001"] == ErrorKind.OTHER
