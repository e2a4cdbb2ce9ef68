"""Killed at any moment, or two at once: files stay whole, nothing is lost, no process stays."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUIETER = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
SLEEPY = """
import time, pathlib
def sleepy(accel, n):
    pathlib.Path("pids").mkdir(exist_ok=True)
    (pathlib.Path("pids") / str(__import__("os").getpid())).touch()
    time.sleep(0.05)
    return {"answer": n}
"""
CASES = """
- name: c
  workload: sleepy:sleepy
  matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
"""


def start(project, *arguments):
    command = [sys.executable, "-m", "pytest", *QUIETER, "--accel=cpu", "--accel-report=results.json"]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=project.path,
        env={**os.environ, **project.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def processes_in(folder: Path) -> list[int]:
    """Live processes whose working directory is ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if Path(os.readlink(entry / "cwd")) == folder and (entry / "stat").read_text().split()[2] != "Z":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until_gone(folder: Path, seconds: float = 15.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("seed", range(4))
def test_sigkill_at_any_moment_leaves_whole_files_and_no_process(project, seed):
    project.write("sleepy.py", SLEEPY)
    project.suite(CASES)
    project.accept()
    before = project.baseline_bytes()
    moment = random.Random(seed).uniform(0.3, 2.5)
    process = start(project, "--accel-record=add")
    time.sleep(moment)
    process.kill()
    process.wait(10)
    process.stdout.close()
    assert wait_until_gone(project.path) == []
    json.loads((project.path / "results.json").read_text(encoding="utf-8"))
    for name, text in project.baseline_bytes().items():
        if name.endswith(".json"):
            assert json.loads(text)["schema"] == "pytest-accel/baseline/1"
    assert set(before) <= set(project.baseline_bytes())
    assert project.run().ret == 0, "the next run finds everything in order"


def test_ctrl_c_ends_with_code_2_a_report_and_no_process(project):
    project.write("sleepy.py", SLEEPY.replace("0.05", "1"))
    project.suite(CASES)
    process = start(project, "--accel-allow-new")
    deadline = time.monotonic() + 60
    while not (project.path / "pids").is_dir() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert project.results["run"]["exit_code"] == 2
    verdicts = list(project.verdicts().values())
    assert len(verdicts) == 12
    assert "UNMEASURED" in verdicts
    assert wait_until_gone(project.path) == []


def test_two_runs_that_record_at_once_lose_nothing(project):
    project.write("sleepy.py", SLEEPY)
    project.suite(CASES, "one.accel.yaml")
    project.write("two.accel.yaml", (project.path / "one.accel.yaml").read_text())
    pair = [
        start(project, f"{name}.accel.yaml", "--accel-record=new", "-o", "addopts=") for name in ("one", "two", "one")
    ]
    for process in pair:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
    for suite in ("one", "two"):
        assert len(json.loads(project.baseline_file(suite).read_text())["entries"]) == 12
    assert not [path for path in (project.path / "baselines").rglob("*") if path.is_file() and path.suffix != ".json"]


def test_a_worker_of_xdist_that_dies_with_its_suspects_leaves_every_variant_with_a_verdict(project):
    project.write(
        "killer.py",
        """
        import os, signal, time
        def f(accel, n):
            if n == 3 and os.path.exists("kill"):
                os.remove("kill")
                os.kill(int(open("/proc/%d/stat" % os.getpid()).read().split()[3]), signal.SIGKILL)
                time.sleep(5)
            return {"answer": n}
        """,
    )
    project.suite("- {name: c, workload: 'killer:f', matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8]}}")
    project.accept()
    (project.path / "kill").touch()
    result = project.run("-n", "2")
    assert result.ret in (1, 11)
    assert len(project.verdicts()) == 8
    assert project.verdicts()["s/c[n=3]"] != "PASS"
    assert wait_until_gone(project.path) == []
