"""Crashes, hangs, exceptions, poisoned state: one fault costs one variant."""

from __future__ import annotations

FAULTS = """
import os, time, ctypes
_poisoned = []

def fine(accel, n):
    if _poisoned:
        raise RuntimeError("the device is poisoned by an earlier call")
    return {"answer": n}

def fault(accel, n, kind="none"):
    if n == 3 and kind == "exit":
        os._exit(1)
    if n == 3 and kind == "segfault":
        ctypes.string_at(0)
    if n == 3 and kind == "poison":
        _poisoned.append(n)
        raise RuntimeError("illegal state")
    if n == 3 and kind == "hang":
        time.sleep(60)
    return fine(accel, n)
"""


KINDS = {"exit": "crash", "segfault": "crash", "poison": "error", "hang": "timeout"}
TIME_LIMIT = {"hang": "1s"}


def suite_of(project, *kinds):
    project.write("faults.py", FAULTS)
    project.suite(
        "\n".join(
            f"- {{name: {kind}, workload: 'faults:fault', params: {{kind: {kind}}}, matrix: {{n: [1, 2, 3, 4, 5, 6, 7, 8]}},"
            f" timeout: {TIME_LIMIT.get(kind, '20s')}}}"
            for kind in kinds
        )
    )


def check_one_regression(project, kind):
    verdicts = {key: verdict for key, verdict in project.verdicts().items() if key.startswith(f"s/{kind}[")}
    assert len(verdicts) == 8
    bad = [key for key, verdict in verdicts.items() if verdict == "REGRESSION"]
    assert len(bad) == 1
    assert "n=3" in bad[0]
    assert [v for v in verdicts.values() if v != "REGRESSION"] == ["NEW"] * 7
    assert project.codes()[bad[0]] == KINDS[kind]


def test_an_exit_a_segfault_a_poisoned_process_and_a_hang_cost_one_variant_each(project):
    suite_of(project, *KINDS)
    result = project.run("--accel-allow-new")
    assert result.ret == 1
    for kind in KINDS:
        check_one_regression(project, kind)
    result.assert_outcomes(passed=28, failed=4)
    result.stdout.fnmatch_lines(["*SIGSEGV*"])


def test_under_xdist_a_process_that_exits_costs_one_variant_too(project):
    suite_of(project, "exit")
    result = project.run("--accel-allow-new", "-n", "2")
    assert result.ret == 1
    check_one_regression(project, "exit")
