"""However pytest goes, its measuring process, the watcher and all their children go with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

PARENT = """
import os, sys, time
sys.path.insert(0, {folder!r})
from pytest_accel.runner.runner import Runner
from pytest_accel.runner.types import Request
runner = Runner("cpu", 0, env={env!r})
runner.prestart()
if {forks}:
    if os.fork() == 0:  # as forked tests do: it holds a copy of every pipe
        time.sleep(60)
        os._exit(0)
print("started", flush=True)
for name in {names!r}:
    result = runner.measure(Request(name, "{module}:" + name, {{}}, {{}}, 60.0))
    print(name, result.outcome, flush=True)
time.sleep(60)
"""

WORK = """
import os, subprocess, sys, time
def fine(accel):
    return {"a": 1}
def fork(accel):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return {"a": 1}
def hang(accel):
    time.sleep(60)
def deaf(accel):
    import signal
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(60)
"""


@pytest.fixture
def parent(bench):
    bench.work(WORK)
    started = []

    def start(*names, forks=False):
        script = PARENT.format(folder=str(bench.folder), env=bench.env, names=names, module=bench.module, forks=forks)
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            process.wait()
            process.stdout.close()


def wait_for(process, line):
    for read in process.stdout:
        if read.strip() == line:
            return
    raise AssertionError(f"the parent never said {line!r}")


def test_children_of_a_workload_end_when_the_runner_closes(bench):
    bench.work(WORK)
    runner = bench.runner()
    assert runner.measure(bench.request("fork")).outcome == "measured"
    assert len(bench.processes()) == 4  # the process, its watcher, and two children
    runner.close()
    assert bench.soon_gone(1.0)


def test_kill_9_of_the_parent_leaves_no_process_not_even_grandchildren(bench, parent):
    process = parent("fork", "hang")
    wait_for(process, "fork measured")
    assert len(bench.processes()) == 4
    process.kill()
    assert bench.soon_gone()


def test_kill_9_of_a_parent_that_has_forked_leaves_none_either(bench, parent):
    process = parent("fork", "deaf", forks=True)
    wait_for(process, "fork measured")
    process.kill()
    assert bench.soon_gone()


@pytest.mark.parametrize("seed", range(8))
def test_kill_9_of_the_parent_at_a_random_moment_leaves_no_process(bench, parent, seed):
    process = parent("fine", "fork", "fine", "hang")
    wait_for(process, "started")
    time.sleep(random.Random(seed).uniform(0.0, 0.6))
    process.kill()
    assert bench.soon_gone()


@pytest.mark.parametrize("moment", ["started", "fork measured"])
def test_ctrl_c_leaves_no_process(bench, parent, moment):
    process = parent("fork", "hang")
    wait_for(process, moment)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) != 0
    assert bench.soon_gone()


def test_ctrl_c_inside_a_request_kills_the_process_and_goes_on_up(bench):
    bench.work(WORK)
    runner = bench.runner()
    runner.measure(bench.request("fork"))
    previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.measure(bench.request("hang"))
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert bench.soon_gone(1.0)
    assert runner.measure(bench.request("fine")).outcome == "measured"


def test_a_parent_that_ends_without_closing_leaves_no_process(bench, parent):
    process = parent("fork")
    wait_for(process, "fork measured")
    process.terminate()
    process.wait(20)
    assert bench.soon_gone()


def test_no_descriptors_and_no_files_are_left_in_the_parent(bench):
    bench.work(WORK)
    runner = bench.runner()
    runner.measure(bench.request("fine"))
    runner.close()
    before = sorted(os.listdir("/proc/self/fd"))
    for name in ("fine", "fork", "hang", "fine"):
        runner.measure(bench.request(name, timeout=0.3))
    runner.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
