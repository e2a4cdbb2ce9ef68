"""The host: files below a root, commands that are absent, hang or fail."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

from pytest_accel.stack.host import TIMED_OUT, Host


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_an_absent_file_is_none_and_an_empty_one_is_text(tmp_path):
    (tmp_path / "empty").write_text("")
    host = Host()
    assert host.read(str(tmp_path / "absent")) is None
    assert host.read(str(tmp_path)) is None
    assert host.read(str(tmp_path / "empty")) == ""


def test_bytes_that_are_no_utf8_do_not_stop_reading(tmp_path):
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    assert Host().read(str(tmp_path / "latin")) == "caf�"


def test_absolute_links_stay_below_the_root(tmp_path):
    (tmp_path / "opt/rocm-7.2/.info").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "opt/rocm-7.2/.info/version").write_text("7.2.4\n")
    (tmp_path / "etc/rocm").symlink_to("/opt/rocm-7.2")
    (tmp_path / "opt/rocm").symlink_to("/etc/rocm")
    host = Host(root=tmp_path)
    assert host.read("/opt/rocm/.info/version") == "7.2.4\n"
    assert host.listdir("/opt/rocm") == [".info"]
    assert host.exists("/opt/../../../opt/rocm")


def test_a_link_that_points_at_itself_is_absent(tmp_path):
    (tmp_path / "loop").symlink_to("/loop")
    assert Host(root=tmp_path).read("/loop/file") is None


def test_a_tool_that_is_not_on_path_is_none(tmp_path):
    assert Host(env={"PATH": str(tmp_path)}).run(["nvidia-smi"]) is None


def test_a_tool_runs_in_the_c_locale_and_its_code_is_kept(tmp_path):
    tool(tmp_path, "smi", "import os, sys; print(os.environ['LC_ALL']); print('bad', file=sys.stderr); sys.exit(18)")
    result = Host(env={"PATH": str(tmp_path)}).run(["smi"])
    assert result is not None
    assert (result.rc, result.out, result.err) == (18, "C\n", "bad\n")


def test_a_tool_that_hangs_is_a_result_with_words_and_leaves_no_child(tmp_path):
    tool(tmp_path, "smi", "import subprocess, sys, time; subprocess.run(['sleep', '60'])")
    begin = time.monotonic()
    result = Host(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout=0.5).run(["smi"])
    assert result is not None
    assert result.rc == TIMED_OUT
    assert "did not answer within 0.5 s" in result.err
    assert time.monotonic() - begin < 10


def test_a_library_that_fails_to_load_in_an_odd_way_is_none_and_its_words_are_kept(tmp_path, monkeypatch):
    (tmp_path / "odd_vendor_library.py").write_text("raise KeyError('ROCM_HOME')")
    monkeypatch.syspath_prepend(tmp_path)
    host = Host()
    assert host.library("odd_vendor_library") is None
    assert "ROCM_HOME" in host.library_errors["odd_vendor_library"]


def test_torch_is_read_from_its_metadata():
    host = Host()
    assert host.package_version("pytest") is not None
    assert host.package_version("no-such-distribution-at-all") is None
    assert host.package_file("no-such-distribution-at-all", "x") is None
