"""torch beside a device: built for it, able to load, seeing what the tool sees, carrying its architecture."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_accel.stack.ascend_files import Cann
from pytest_accel.stack.doctor.rules_torch import runs_on
from pytest_accel.stack.doctor.torch_child import MARK, SCRIPT, TorchSeen, ask_torch
from pytest_accel.stack.host import TIMED_OUT, Host


# --- built for another ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("platform", "build", "extension", "code"),
    [
        ("cuda", {}, None, "torch-without-cuda"),
        ("cuda", {"hip": "7.2"}, None, "torch-without-cuda"),
        ("cuda", {"cuda": "13.0"}, None, None),
        ("rocm", {}, None, "torch-without-rocm"),
        ("rocm", {"hip": "7.2"}, None, None),
        ("ascend", {}, None, "torch-npu-missing"),
        ("ascend", {}, "2.12.0", None),
    ],
)
def test_a_torch_that_was_built_without_the_live_device_is_an_error(doctor, platform, build, extension, code):
    torch = doctor.torch("2.12.0+cpu", **build)
    found = doctor.run("torch_for_host_only", doctor.probe(platform), torch=torch, torch_npu=extension)
    assert doctor.codes(found) == ([(code, "error")] if code else [])
    assert not doctor.run("torch_for_host_only", doctor.probe(platform, "broken"), torch=torch)


def test_no_torch_beside_a_device_is_a_note(doctor):
    assert doctor.codes(doctor.run("torch_missing", doctor.probe("cuda"))) == [("torch-missing", "note")]
    assert not doctor.run("torch_missing", doctor.probe("cuda"), torch=doctor.torch())
    assert not doctor.run("torch_missing")


# --- CANN and permissions ------------------------------------------------------------------------------------------------
HOME = "/usr/local/Ascend/ascend-toolkit/latest"


def test_cann_that_the_loader_cannot_find_is_told_before_torch_is_imported(doctor):
    facts = {"torch_npu": "2.7.1", "cann": Cann(HOME, "8.3.RC1")}
    found = doctor.run("cann_not_sourced", doctor.probe("ascend"), **facts)
    assert doctor.codes(found) == [("cann-not-sourced", "error")]
    assert "set_env.sh" in found[0].mend
    sourced = doctor.Host(env={"LD_LIBRARY_PATH": f"{HOME}/lib64:/usr/lib"})
    assert not doctor.run("cann_not_sourced", doctor.probe("ascend"), host=sourced, **facts)
    listed = doctor.Host({"/etc/ld.so.conf.d/ascend.conf": f"{HOME}/lib64\n"})
    assert not doctor.run("cann_not_sourced", doctor.probe("ascend"), host=listed, **facts)
    assert not doctor.run("cann_not_sourced", doctor.probe("ascend"), torch_npu=None, cann=facts["cann"])


def test_torch_npu_without_any_cann_is_told(doctor):
    found = doctor.run("cann_missing", doctor.probe("ascend"), torch_npu="2.7.1")
    assert doctor.codes(found) == [("cann-missing", "warning")]
    assert not doctor.run("cann_missing", doctor.probe("ascend"), torch_npu="2.7.1", cann=Cann(HOME, "8.3.RC1"))


def test_render_nodes_that_this_user_may_not_use_are_an_error(doctor):
    closed = doctor.Host({"/dev/dri/renderD128": None, "/dev/dri/card0": ""})
    found = doctor.run("render_nodes", doctor.probe("rocm"), host=closed)
    assert doctor.codes(found) == [("no-render-permission", "error")]
    assert "/dev/dri/renderD128" in found[0].message
    assert not doctor.run("render_nodes", doctor.probe("rocm"), host=doctor.Host({"/dev/dri/renderD128": ""}))
    assert not doctor.run("render_nodes", doctor.probe("rocm"), host=doctor.Host())


# --- the tool sees it, torch does not ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("platform", "error", "mend"),
    [
        ("cuda", "RuntimeError: ... Error 802: system not yet initialized", "fabric manager"),
        ("cuda", "RuntimeError: Error 803: system has unsupported display driver / cuda driver combination", "reboot"),
        ("cuda", "RuntimeError: The NVIDIA driver on your system is too old (found version 12040).", "upgrade"),
        ("cuda", "RuntimeError: CUDA-capable device(s) is/are busy or unavailable", "exclusive"),
        ("rocm", "RuntimeError: No HIP GPUs are available", "/dev/kfd"),
        ("cuda", "torch did not answer within 90 s", "hangs"),
        ("cuda", "RuntimeError: something new", "torch's message"),
    ],
)
def test_a_torch_that_fails_where_the_tool_lists_devices_is_an_error_with_both_views(doctor, platform, error, mend):
    found = doctor.run("torch_sees_none", doctor.probe(platform, devices=2), seen=TorchSeen(0, error))
    assert doctor.codes(found) == [("torch-sees-none", "error")]
    assert "lists 2 device(s)" in found[0].message
    assert error in found[0].message
    assert mend in found[0].mend


def test_torch_npu_that_cannot_be_imported_says_to_source_cann(doctor):
    error = (
        "RuntimeError: Failed to load the backend extension: torch_npu.; ImportError: libhccl.so: cannot open shared "
        "object file: No such file or directory. Please check that the cann package is installed."
    )
    found = doctor.run("torch_sees_none", doctor.probe("ascend"), seen=TorchSeen(0, error))
    assert doctor.codes(found) == [("torch-npu-import", "error")]
    assert "set_env.sh" in found[0].mend


def test_torch_npu_that_is_broken_otherwise_is_its_import_too(doctor):
    found = doctor.run(
        "torch_sees_none", doctor.probe("ascend"), seen=TorchSeen(0, "OSError: libtorch_npu.so: bad ELF")
    )
    assert doctor.codes(found) == [("torch-npu-import", "error")]


@pytest.mark.parametrize(
    ("count", "codes"),
    [(0, [("torch-sees-none", "error")]), (1, [("torch-counts-otherwise", "warning")]), (2, [])],
)
def test_counts_of_tool_and_torch_are_compared(doctor, count, codes):
    found = doctor.run("torch_sees_none", doctor.probe("cuda", devices=2), seen=TorchSeen(count))
    assert doctor.codes(found) == codes


def test_where_torch_was_not_asked_nothing_is_said(doctor):
    assert not doctor.run("torch_sees_none", doctor.probe("cuda"))
    assert not doctor.run("architecture_missing", doctor.probe("cuda"))


# --- architectures -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("device", "carried", "runs"),
    [
        ("sm_90", ["sm_80", "sm_90"], True),
        ("sm_89", ["sm_80", "sm_90"], True),
        ("sm_75", ["sm_80", "sm_90"], False),
        ("sm_120", ["sm_80", "sm_90"], False),
        ("sm_120", ["sm_90", "compute_90"], True),
        ("sm_103", ["sm_100"], True),
        ("sm_90", ["sm_90a"], True),
        ("sm_103", ["sm_100a"], False),
        ("gfx942:sramecc+:xnack-", ["gfx90a", "gfx942"], True),
        ("gfx1151", ["gfx90a", "gfx942"], False),
        ("gfx1151", ["gfx11-generic"], True),
    ],
)
def test_what_runs_on_what(device, carried, runs):
    assert runs_on(device, carried) is runs


def test_a_device_that_torch_carries_nothing_for_is_an_error(doctor):
    seen = TorchSeen(1, architectures=("sm_80", "sm_90"), devices=("sm_120",))
    found = doctor.run("architecture_missing", doctor.probe("cuda"), seen=seen)
    assert doctor.codes(found) == [("architecture-missing", "error")]
    assert "sm_120" in found[0].message
    fitting = TorchSeen(1, architectures=("sm_80", "sm_90"), devices=("sm_90",))
    assert not doctor.run("architecture_missing", doctor.probe("cuda"), seen=fitting)
    spoofed = doctor.Host(env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    other = TorchSeen(1, architectures=("gfx1030",), devices=("gfx1031",))
    assert not doctor.run("architecture_missing", doctor.probe("rocm"), seen=other, host=spoofed)
    assert doctor.run("architecture_missing", doctor.probe("rocm"), seen=other)


# --- the child -----------------------------------------------------------------------------------------------------------
def asked(doctor, rc, out, err="", packages=None):
    host = doctor.Host(commands={sys.executable: doctor.Result(rc, out, err)}, packages=packages or {"torch": "2.12.0"})
    return ask_torch(host, "cuda")


def test_what_the_child_prints_is_read_between_other_output(doctor):
    said = {"count": 2, "error": None, "archs": ["sm_90"], "devices": ["sm_90", "sm_90"], "version": "2.12.0"}
    out = f"warning: something\n{MARK}{json.dumps(said)}\n"
    assert asked(doctor, 0, out) == TorchSeen(2, None, ("sm_90",), ("sm_90", "sm_90"))


def test_a_child_that_crashes_or_hangs_is_an_answer(doctor):
    assert "code -11: Fatal Python error" in asked(doctor, -11, "", "x\nFatal Python error").error
    assert "did not answer" in asked(doctor, TIMED_OUT, "").error
    assert "no output" in asked(doctor, 1, "").error


def test_without_torch_nobody_is_asked(doctor):
    host = doctor.Host(commands={sys.executable: doctor.Result(0, "", "")})
    assert ask_torch(host, "cuda") is None
    assert host.ran == []


FAKE = """
class cuda:
    device_count = staticmethod(lambda: {count})
    get_arch_list = staticmethod(lambda: ["sm_90"])
    def init(): raise AssertionError("Torch not compiled with CUDA enabled")
    def get_device_properties(index):
        if {broken}: raise RuntimeError("Error 802: system not yet initialized")
        class about: major, minor, gcnArchName = 9, 0, "NVIDIA H200"
        return about
class version: hip = None
__version__ = "0.0"
"""


@pytest.mark.parametrize(
    ("count", "broken", "error"),
    [(0, False, "not compiled with CUDA"), (1, True, "RuntimeError: Error 802"), (2, False, None)],
)
def test_the_script_tells_devices_or_the_error(tmp_path, count, broken, error):
    (tmp_path / "torch.py").write_text(FAKE.format(count=count, broken=broken))
    done = subprocess.run([sys.executable, "-c", SCRIPT % "cuda"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.removeprefix(MARK))
    assert said["archs"] == ["sm_90"]
    if error:
        assert error in said["error"]
    else:
        assert (said["error"], said["devices"]) == (None, ["sm_90", "sm_90"])


def test_a_failed_import_comes_with_its_cause(tmp_path):
    (tmp_path / "torch.py").write_text(
        "raise RuntimeError('Failed to load') from ImportError('libhccl.so: cannot open')"
    )
    done = subprocess.run([sys.executable, "-c", SCRIPT % "npu"], capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(done.stdout.removeprefix(MARK))["error"] == (
        "RuntimeError: Failed to load; ImportError: libhccl.so: cannot open"
    )


def test_the_real_host_runs_the_script_with_a_limit(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr("pytest_accel.stack.doctor.torch_child.LIMIT", 0.5)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(Host, "package_version", lambda self, name: "0.0")
    seen = ask_torch(Host(), "cuda")
    assert seen.count == 0
    assert "did not answer within 0.5 s" in seen.error


def test_variables_that_hide_work_on_the_host_are_told(doctor):
    host = doctor.Host(env={"TORCH_NPU_WARNING_DISABLE": "1", "TORCH_NPU_DISABLED_WARNING": "0"})
    found = doctor.run("fallback_hidden", doctor.probe("ascend"), host=host)
    assert doctor.codes(found) == [("fallback-hidden", "note")]
    assert "TORCH_NPU_WARNING_DISABLE=1 hides" in found[0].message
    assert doctor.run("fallback_hidden", doctor.probe("cuda"), host=host) == []


def test_where_torch_gets_no_amd_device_the_runtimes_own_words_are_told(doctor):
    words = (
        "ROCk module is loaded\nUnable to open /dev/kfd read-write: Invalid argument\nroot is member of render group\n"
    )
    host = doctor.Host(commands={"rocminfo": doctor.Result(0, words, "")})
    found = doctor.run("runtime_refuses", doctor.probe("rocm"), host=host, seen=TorchSeen(0))
    assert doctor.codes(found) == [("kfd-refused", "error")]
    assert "Invalid argument" in found[0].message
    assert doctor.run("runtime_refuses", doctor.probe("rocm"), host=host, seen=TorchSeen(1)) == []
    assert doctor.run("runtime_refuses", doctor.probe("rocm"), host=host) == []
