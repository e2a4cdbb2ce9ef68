"""Locks over several devices, and which device a worker's process sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_accel.gate.devices import Devices
from pytest_accel.gate.workers import device_environment
from pytest_accel.measure.types import Unfit
from pytest_accel.measure.watch import Watch
from pytest_accel.stack.common import RUN_MARK, other_processes
from pytest_accel.stack.host import Host
from pytest_accel.stack.types import Device, Machine, Probe, Telemetry

CARDS = tuple(Device(index=n, name="card", uuid=f"GPU-{n}", identity=f"test-devices-{n}") for n in range(4))


def gate_with(devices=CARDS, worker="", wait=0.2):
    probe = Probe("cuda", "present", devices=devices)
    number = int(worker.removeprefix("gw") or 0)
    return SimpleNamespace(
        machine=Machine("cuda", probe, True, "", "machine"),
        platform=SimpleNamespace(visible_env=("CUDA_VISIBLE_DEVICES",)),
        options=SimpleNamespace(lock_wait=wait),
        worker_id=worker,
        worker_number=number,
        device_identity=lambda: devices[number % len(devices)].identity,
    )


def test_a_variant_of_several_devices_waits_for_each_device_that_is_in_use():
    one, all_of_them = Devices(gate_with(worker="gw2")), Devices(gate_with())
    assert one.lock(exclusive=True)
    assert not all_of_them.lock(exclusive=True, wide=True)
    one.unlock()
    assert all_of_them.lock(exclusive=True, wide=True)
    assert not one.lock(exclusive=True)
    all_of_them.close()
    assert one.lock(exclusive=True)
    one.close()


def test_two_workers_on_two_devices_do_not_wait_for_each_other():
    first, second = Devices(gate_with(worker="gw0")), Devices(gate_with(worker="gw1"))
    assert first.lock(exclusive=True)
    assert second.lock(exclusive=True)
    first.close()
    second.close()


def test_work_that_is_no_timing_shares_the_device():
    first, second = Devices(gate_with()), Devices(gate_with())
    assert first.lock(exclusive=False)
    assert second.lock(exclusive=False)
    assert not Devices(gate_with()).lock(exclusive=True)
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("visible", "worker", "sees"),
    [
        (None, "gw0", {"CUDA_VISIBLE_DEVICES": "0"}),
        (None, "gw5", {"CUDA_VISIBLE_DEVICES": "1"}),
        ("2,3", "gw0", {"CUDA_VISIBLE_DEVICES": "2"}),
        ("2,3", "gw3", {"CUDA_VISIBLE_DEVICES": "3"}),
        ("GPU-a,GPU-b", "gw1", {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ("", "gw1", {"CUDA_VISIBLE_DEVICES": ""}),
        ("2,3", "", {}),
    ],
)
def test_a_worker_stays_inside_the_callers_list_of_devices(monkeypatch, visible, worker, sees):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_environment(gate_with(worker=worker)) == sees


def test_processes_of_this_very_run_are_no_others_on_the_device():
    marks = {"ours": {RUN_MARK: "run-1"}, "another run's": {RUN_MARK: "run-10"}, "somebody's": {RUN_MARK: ""}}
    detached = [
        "sh",
        "-c",
        "sleep 60 > /dev/null 2>&1 & echo $!",
    ]  # no child of this process, as other workers' are not
    ids = {name: int(subprocess.check_output(detached, env={**os.environ, **mark})) for name, mark in marks.items()}
    try:

        def unfit(mark, *names):
            host = Host(env={RUN_MARK: mark} if mark else {})
            state = Telemetry(other_processes=other_processes(host, [ids[name] for name in names], own_is_among=False))
            try:
                Watch(lambda: state).before()
            except Unfit as error:
                return error.code, error.reason.split()[0]
            return None

        assert unfit("run-1", "ours") is None
        assert unfit("run-1", "ours", "another run's", "somebody's") == ("shared", "2")
        assert unfit("", "ours", "somebody's") == ("shared", "2")
    finally:
        for number in ids.values():
            os.kill(number, signal.SIGKILL)


def test_every_measuring_process_of_a_run_carries_the_runs_mark(project):
    project.write("mark.py", "import os\ndef f(accel, n):\n    return {'run': os.environ['PYTEST_ACCEL_RUN']}\n")
    project.suite("- {name: a, workload: 'mark:f', matrix: {n: [1, 2, 3, 4]}}")
    assert project.run("-n", "2", "--accel-allow-new", env={RUN_MARK: "an outer run"}).ret == 0
    assert {case["metrics"]["run"]["value"] for case in project.results["cases"]} == {project.results["run"]["id"]}


def test_a_suite_on_a_broken_platform_is_env_and_starts_no_process(project):
    project.suite("- {name: a, workload: 'work:constant'}\n- {name: b, workload: 'work:constant'}")
    result = project.run("--accel-devices=3")
    assert result.ret == 10
    assert set(project.codes().values()) == {"too-few-devices"}
    result.stdout.fnmatch_lines(["*NOT FIT TO JUDGE*3*"])


def test_doctor_answers_without_torch_and_as_json():
    script = (
        "import json, sys\n"
        "from pytest_accel.cli import main\n"
        "code = main(['doctor', '--json', '--accel', 'cpu'])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    import json

    report = json.loads(done.stdout)
    assert set(report) == {"platform", "fit", "stack", "devices", "findings"}
    assert set(report["stack"]) == {"hardware", "settings", "versions"}
    assert report["platform"] == "cpu"
