"""``pytest-accel trace``: a real program is traced, its suite runs and gates; mistakes are told before it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pytest_accel.cli import main

PROGRAM = """
import os, sys, threading
import torch

secret = torch.full((3,), 123.4567)
model = torch.nn.Linear(6, 4)
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(0, 4, (5,)))
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1 / (step + 1)).step()
thread = threading.Thread(target=lambda: torch.ones(7).cosh())
thread.start()
thread.join()
print("arguments", sys.argv[1:])
sys.stdout.flush()
if "die" in sys.argv:
    os._exit(5)  # no clean-up runs
"""


def test_a_program_that_dies_is_traced_until_then_and_its_suite_records_and_gates(tmp_path):
    pytest.importorskip("torch")
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    tmp_path.joinpath("program.py").write_text(PROGRAM)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest_accel.cli", "trace", "-o", "mine.accel.yaml", "--"]
    done = subprocess.run(
        [*command, sys.executable, "program.py", "--token=hidden", "die"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "arguments ['--token=hidden', 'die']" in done.stdout
    assert "failed with exit code 5" in done.stderr
    text = tmp_path.joinpath("mine.accel.yaml").read_text()
    assert "hidden" not in text
    for op in ("addmm", "_log_softmax_backward_data", "mm", "cosh"):  # forward, backward, another thread
        assert f"aten.{op}.default" in text
    assert text.count("aten.add_.Tensor}") == 1
    fills = [line for line in text.splitlines() if "123.4567" in line]
    assert fills == ['        - [[3], 123.4567, {"device": "device:accel"}]']  # the program's own number, no tensor's
    assert "aten.view.default" not in text.partition("cases:")[2]
    report = tmp_path / "r.json"
    gate = [sys.executable, "-m", "pytest", "-q", "mine.accel.yaml", "--accel=cpu", f"--accel-report={report}"]
    for extra, verdict in (["--accel-record=new"], "NEW"), ([], "PASS"):
        run = subprocess.run([*gate, *extra], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout
        verdicts = json.loads(report.read_text())["summary"]["verdicts"]
        assert list(verdicts) == [verdict]
    assert verdicts["PASS"] > 8


def test_a_program_without_torch_gives_no_suite_and_says_so(tmp_path, capsys):
    output = tmp_path / "mine.accel.yaml"
    assert main(["trace", "-o", str(output), "--", sys.executable, "-c", "print('hello')"]) == 4
    assert "no operator of torch was seen" in capsys.readouterr().err
    assert main(["trace", "-o", str(output), "--", sys.executable, "-I", "-c", "raise SystemExit(7)"]) == 7
    assert "-I reads no environment" in capsys.readouterr().err
    assert not output.exists()


def test_a_module_is_run_and_a_sitecustomize_of_the_users_own_still_runs(tmp_path, capfd, monkeypatch):
    tmp_path.joinpath("sitecustomize.py").write_text("print('the other sitecustomize ran')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output = tmp_path / "mine.accel.yaml"
    assert main(["trace", "-o", str(output), "--", sys.executable, "-m", "this"]) == 4
    out = capfd.readouterr().out
    assert "the other sitecustomize ran" in out
    assert "Namespaces are one honking great idea" in out


def test_a_programs_signal_is_passed_on_as_a_shell_does(tmp_path, capsys):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert main(["trace", "-o", str(tmp_path / "m.accel.yaml"), "--", sys.executable, "-c", code]) == 128 + 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "mine.accel.yaml"], "no program is named"),
        (["-o", "mine.yaml", "--", "true"], "call it mine.accel.yaml"),
        (["-o", "no/such/mine.accel.yaml", "--", "true"], "is not there"),
        (["-o", "mine.accel.yaml", "--limit", "0", "--", "true"], "--limit 0"),
        (["-o", "mine.accel.yaml", "--", "./script.py"], "begin with an interpreter"),
        (["-o", "taken.accel.yaml", "--", "true"], "no trace wrote it"),
    ],
)
def test_mistakes_are_one_message_and_the_program_does_not_run(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("script.py").write_text("raise SystemExit(99)")
    tmp_path.joinpath("taken.accel.yaml").write_text("schema: pytest-accel/suite/1\n")
    assert main(["trace", *arguments]) == 4
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_call_that_cannot_be_made_again_or_crashes_is_named_and_the_rest_are_tried():
    pytest.importorskip("torch")
    from pytest_accel.trace import check
    from pytest_accel.trace.select import Call

    calls = [
        Call("aten.neg.default", ["float32:4"]),
        Call("aten.mm.default", ["float32:4x5", "float32:4x5"]),
        Call("aten._ctc_loss.default", ["float32:4x1x3", "int64:1x2", [4], [2]]),
        Call("aten._cudnn_rnn_flatten_weight.default", [["float32:4"], 1, 1, 0, 1, 1, 1, False, False]),
        Call("aten.cosh.default", ["float32:4"]),
    ]
    found = check.why_not(calls)
    assert found is not None
    assert sorted(found) == [1, 2, 3]
    assert "cannot be made again" in found[1]
    assert "hang together" in found[2]


def test_a_crash_while_trying_costs_one_call(monkeypatch):
    from pytest_accel.trace import check
    from pytest_accel.trace.select import Call

    answers = iter([{0: "", 1: "cannot be made again: x"}, {0: ""}])
    monkeypatch.setattr(check, "_child", lambda calls: next(answers))
    monkeypatch.setattr(check.importlib.util, "find_spec", lambda name: object())
    found = check.why_not([Call(f"aten.op{i}.default", []) for i in range(4)])
    assert found == {1: "cannot be made again: x", 2: "its arguments, made again, crash the host"}
