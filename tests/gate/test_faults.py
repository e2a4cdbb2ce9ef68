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


def suite_of(project, kind, timeout="20s"):
    project.write("faults.py", FAULTS)
    project.suite(
        f"""
        - name: c
          workload: faults:fault
          params: {{kind: {kind}}}
          matrix: {{n: [1, 2, 3, 4, 5, 6, 7, 8]}}
          timeout: {timeout}
        """
    )


def check_one_regression(project, code):
    verdicts = project.verdicts()
    assert len(verdicts) == 8
    bad = [key for key, verdict in verdicts.items() if verdict == "REGRESSION"]
    assert len(bad) == 1
    assert "n=3" in bad[0]
    assert [v for v in verdicts.values() if v != "REGRESSION"] == ["NEW"] * 7
    assert project.codes()[bad[0]] == code


def test_a_process_that_exits_costs_one_variant_and_all_eight_are_reported(project):
    suite_of(project, "exit")
    result = project.run("--accel-allow-new")
    assert result.ret == 1
    check_one_regression(project, "crash")
    result.assert_outcomes(passed=7, failed=1)


def test_under_xdist_a_process_that_exits_costs_one_variant_too(project):
    suite_of(project, "exit")
    result = project.run("--accel-allow-new", "-n", "2")
    assert result.ret == 1
    check_one_regression(project, "crash")


def test_a_segfault_names_the_signal(project):
    suite_of(project, "segfault")
    result = project.run("--accel-allow-new")
    assert result.ret == 1
    check_one_regression(project, "crash")
    result.stdout.fnmatch_lines(["*SIGSEGV*"])


def test_a_poisoned_process_does_not_fail_the_variants_behind_it(project):
    suite_of(project, "poison")
    result = project.run("--accel-allow-new")
    assert result.ret == 1
    check_one_regression(project, "error")


def test_a_hang_ends_at_its_time_limit(project):
    suite_of(project, "hang", timeout="2s")
    result = project.run("--accel-allow-new")
    assert result.ret == 1
    check_one_regression(project, "timeout")
