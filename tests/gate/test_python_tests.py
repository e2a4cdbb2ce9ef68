"""Python tests with the plugin's markers and fixtures."""

from __future__ import annotations

import pytest

TEST = """
import json, pathlib, pytest

def value():
    path = pathlib.Path("state.json")
    return json.loads(path.read_text())["a"] if path.exists() else 1.0

@pytest.mark.accel("cpu")
@pytest.mark.parametrize("size", [1, 2])
def test_step(accel, accel_device, accel_check, size):
    assert str(accel_device) == "cpu"
    accel_check("time", value(), unit="us", better="lower", worse_by="10%")

@pytest.mark.accel("cuda")
def test_elsewhere(accel_check):
    raise AssertionError("never run here")

@pytest.mark.accel
def test_checks_nothing(accel):
    assert accel.platform == "cpu"

def test_ordinary():
    pass
"""


def test_checks_are_recorded_judged_and_red_when_worse(project):
    project.write("test_it.py", TEST)
    first = project.run()
    assert first.ret == 11
    first.assert_outcomes(passed=2, failed=2, skipped=1)
    project.record()
    again = project.run()
    assert again.ret == 0
    again.assert_outcomes(passed=4, skipped=1)
    assert project.verdicts() == {
        "py:test_it.py::test_step[size=1]": "PASS",
        "py:test_it.py::test_step[size=2]": "PASS",
    }
    project.state(a=1.6)
    worse = project.run()
    assert worse.ret == 1
    worse.assert_outcomes(passed=2, failed=2, skipped=1)
    project.state(a=1.2)
    in_doubt = project.run()
    assert in_doubt.ret == 11, "a suspect timing with no fresh session to confirm it is inconclusive"
    assert set(project.verdicts().values()) == {"INCONCLUSIVE"}


def test_the_same_under_xdist(project):
    project.write("test_it.py", TEST)
    project.record()
    assert project.run("-n", "2").ret == 0
    assert set(project.verdicts().values()) == {"PASS"}


def test_a_check_that_is_no_longer_made_is_missing_and_so_is_a_test_that_went(project):
    project.write("test_it.py", TEST)
    project.record()
    project.write("test_it.py", TEST.replace('accel_check("time"', 'accel_check("tempo"'))
    renamed = project.run()
    assert renamed.ret == 11
    assert set(project.verdicts().values()) == {"MISSING"}
    project.write("test_it.py", "def test_ordinary():\n    pass\n")
    gone = project.run()
    assert gone.ret == 11
    assert set(project.verdicts().values()) == {"MISSING"}


@pytest.mark.parametrize(
    "line",
    [
        "accel_check('x', 1.0, tolerance=3)",
        "accel_check('x', 1.0, better='faster')",
        "accel_check('x', 1.0, better='lower'); accel_check('x', 1.0, better='lower')",
        "accel_check('x', object())",
    ],
)
def test_a_wrong_check_is_a_configuration_error(project, line):
    project.write("test_it.py", f"def test_it(accel_check):\n    {line}\n")
    result = project.run("--accel-record=new")
    assert result.ret == 4
    result.assert_outcomes(failed=1)
    assert "Traceback" not in result.stdout.str()


def test_a_wrong_marker_stops_the_run(project):
    project.write("test_it.py", "import pytest\n@pytest.mark.accel('gpu', cards=2)\ndef test_it(accel): pass\n")
    result = project.run()
    assert result.ret == 4
    text = result.stdout.str() + result.stderr.str()
    assert "test_it.py" in text
    assert "gpu" in text
    assert "cards" in text


def test_an_ordinary_failure_beside_passing_checks_is_exit_code_1(project):
    project.write("test_it.py", TEST)
    project.record()
    project.write("test_more.py", "def test_broken():\n    assert 0\n")
    result = project.run()
    assert result.ret == 1
    assert set(project.verdicts().values()) == {"PASS"}


def test_of_several_tries_the_worst_counts(project):
    project.write(
        "test_it.py",
        """
        import pytest
        tries = []

        def test_it(accel_check):
            tries.append(1)
            slow = bool(__import__("pathlib").Path("slow").exists()) and len(tries) == 1
            accel_check("time", 20.0 if slow else 1.0, unit="us", better="lower", worse_by="10%")
        """,
    )
    project.record()
    (project.path / "slow").touch()
    result = project.run("--reruns", "2")
    assert result.ret == 1
    assert set(project.verdicts().values()) == {"REGRESSION"}


def test_a_test_that_kills_its_worker_is_a_regression_and_the_others_are_reported(project):
    project.write(
        "test_it.py",
        """
        import os, pytest

        @pytest.mark.parametrize("n", range(6))
        def test_it(accel_check, n):
            if n == 3 and os.path.exists("kill"):
                os._exit(1)
            accel_check("x", n, better="equal")
        """,
    )
    project.record()
    (project.path / "kill").touch()
    result = project.run("-n", "2")
    assert result.ret == 1
    verdicts = project.verdicts()
    assert len(verdicts) == 6
    assert [key for key, verdict in verdicts.items() if verdict != "PASS"] == ["py:test_it.py::test_it[n=3]"]
    assert project.codes()["py:test_it.py::test_it[n=3]"] == "crash"
