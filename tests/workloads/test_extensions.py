"""Extensions: the small one is really built and run; the user's own are imported and called."""

from __future__ import annotations

import shutil
import sys

import pytest

from pytest_accel.measure.types import Unmeasured
from pytest_accel.workloads import extension

torch = pytest.importorskip("torch")
CAN_BUILD = shutil.which("c++") is not None and shutil.which("ninja") is not None


@pytest.mark.skipif(not CAN_BUILD, reason="no C++ compiler or no ninja on this machine")
def test_the_extension_is_built_loaded_and_right_and_leaves_nothing_behind(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(extension.tempfile, "tempdir", str(tmp_path))
    found = measured("extension")
    assert (found["status"], found["device_code"]) == ("supported", "none")
    assert list(tmp_path.glob("pytest-accel-extension-*")) == []


def test_without_a_compiler_it_is_unmeasured_and_an_error_where_it_is_required(measured, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Unmeasured, match="no C\\+\\+ compiler"):
        measured("extension")
    with pytest.raises(RuntimeError, match="required: true"):
        measured("extension", required=True)


def test_without_ninja_it_is_unmeasured(measured, monkeypatch):
    from torch.utils import cpp_extension

    def absent():
        raise RuntimeError("Ninja is required to load C++ extensions")

    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(cpp_extension, "verify_ninja_availability", absent)
    with pytest.raises(Unmeasured, match="ninja"):
        measured("extension")


def test_sums_that_are_wrong_are_found(accelerator):
    class Operators:
        @staticmethod
        def axpy(x, y, a):
            return y + a * x

        @staticmethod
        def block_sum(x, block):  # a reduction that took 32 of 64 lanes for all
            padded = torch.cat((x, x.new_zeros(-x.numel() % block))).reshape(-1, block)
            return padded[:, : block // 2].sum(1)

    assert extension._judged(accelerator, Operators, on_device=True, seed=0).status == "wrong"
    assert extension._judged(accelerator, Operators, on_device=False, seed=0).status == "supported"


def test_a_kernels_shuffles_take_the_warps_width_from_the_device():
    source = (extension.SOURCES / "extension_device.cu").read_text()
    assert "warpSize / 2" in source
    assert "% 32" not in source
    assert "/ 32" not in source.replace("kThreads / 32;  // 32 is the narrowest", "")


def test_a_users_extension_is_called_and_compared_with_their_own_reference(measured):
    call = ["bfloat16:4x8", "bfloat16:8x3"]
    assert measured("extension_call", implementation="torch.ops:aten.mm", call=call)["status"] == "unverified"
    right = measured("extension_call", implementation="torch.ops:aten.mm", call=call, reference="torch:matmul")
    assert right["status"] == "supported"
    wrong = measured("extension_call", implementation="torch:neg", call=["float32:4"], reference="torch:abs")
    assert (wrong["status"], wrong["faults"]) == ("wrong", 1)


def test_a_users_extension_that_is_gone_or_lacks_the_function_is_told_apart(measured):
    with pytest.raises(Unmeasured, match="accel_test_absent"):
        measured("extension_call", implementation="accel_test_absent:run")
    assert measured("extension_call", implementation="torch.ops:aten.no_such_op")["status"] == "unsupported"
