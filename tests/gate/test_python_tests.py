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


@pytest.fixture(autouse=True)
def _torch_is_there(project):
    project.with_torch()


def test_checks_are_recorded_judged_and_red_when_worse(project):
    project.write("test_it.py", TEST)
    first = project.run()
    assert first.ret == 11
    first.assert_outcomes(passed=2, failed=2, skipped=1)
    project.accept()
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
    project.accept()
    assert project.run("-n", "2").ret == 0
    assert set(project.verdicts().values()) == {"PASS"}


def test_a_check_that_is_no_longer_made_is_missing_and_so_is_a_test_that_went(project):
    project.write("test_it.py", TEST)
    project.accept()
    project.write("test_it.py", TEST.replace('accel_check("time"', 'accel_check("tempo"'))
    renamed = project.run()
    assert renamed.ret == 11
    assert set(project.verdicts().values()) == {"MISSING"}
    project.write("test_it.py", "def test_ordinary():\n    pass\n")
    gone = project.run()
    assert gone.ret == 11
    assert set(project.verdicts().values()) == {"MISSING"}


WRONG_CHECKS = [
    ("accel_check('x', 1.0, tolerance=3)", "unknown keyword `tolerance`"),
    ("accel_check('x', 1.0, better='faster')", "better='faster'"),
    ("accel_check('x', 1.0, better='lower'); accel_check('x', 1.0, better='lower')", "has checked `x` already"),
    ("accel_check('x', object())", "is neither a number, a word nor samples"),
    ("accel_check('time', 1.0, unit='us', better='lower')", "it waives `tme`, which the test does not check"),
]


def test_each_wrong_check_is_a_configuration_error(project):
    waive = "@pytest.mark.accel_waive('known', 'https://example.org/1', '2999-01-01', tme='8%')\n"
    tests = [
        f"{waive if 'waives' in words else ''}def test_{number}(accel_check):\n    {line}\n"
        for number, (line, words) in enumerate(WRONG_CHECKS)
    ]
    project.write("test_it.py", "import pytest\n" + "".join(tests))
    result = project.run("--accel-record=new")
    assert result.ret == 4
    result.assert_outcomes(failed=len(WRONG_CHECKS))
    text = result.stdout.str()
    for number, (_, words) in enumerate(WRONG_CHECKS):
        assert words in text
        assert project.codes()[f"py:test_it.py::test_{number}"] == "config"
    assert "Traceback" not in text


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
    project.accept()
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
    project.accept()
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
    project.accept()
    (project.path / "kill").touch()
    result = project.run("-n", "2")
    assert result.ret == 1
    verdicts = project.verdicts()
    assert len(verdicts) == 6
    assert [key for key, verdict in verdicts.items() if verdict != "PASS"] == ["py:test_it.py::test_it[n=3]"]
    assert project.codes()["py:test_it.py::test_it[n=3]"] == "crash"


PARAMETERS = """
import enum, math, pytest

class Dtype:
    def __init__(self, name):
        self.name = name
    def __str__(self):
        return self.name

class Mode(enum.Enum):
    FAST = 1

VALUES = [VALUES]

@pytest.mark.parametrize("v", VALUES)
def test_it(accel_check, v):
    accel_check("x", 1, better="equal")

@pytest.mark.parametrize("n", [1])
@pytest.mark.parametrize("v", [pytest.param(object(), id="named")])
def test_named(accel_check, v, n):
    accel_check("x", 1, better="equal")
"""


def test_parameters_become_keys_by_their_values_and_never_by_their_positions(project):
    odd = 'Dtype("half"), [1, 2], None, True, math.nan, "a,b", Mode.FAST, len, "x" * 101'
    project.write("test_it.py", PARAMETERS.replace("[VALUES]", f"[{odd}]"))
    project.record()
    keys = [key.removeprefix("py:test_it.py::test_") for key in project.verdicts()]
    assert keys == [
        "it[v=half]",
        'it[v="\\u005b1\\u002c 2\\u005d"]',
        "it[v=null]",
        "it[v=true]",
        'it[v="nan"]',
        'it[v="a\\u002cb"]',
        "it[v=Mode.FAST]",
        "it[v=len]",
        f"it[v={'x' * 101}]",
        "named[n=1,v=named-1]",
    ]
    project.write("test_it.py", PARAMETERS.replace("[VALUES]", f'[Dtype("first"), {odd}]'))
    assert project.run("--accel-allow-new").ret == 0
    assert sorted(project.verdicts().values()) == ["NEW"] + ["PASS"] * 10
    project.write("test_it.py", PARAMETERS.replace("[VALUES]", "[object()]"))
    result = project.run("--accel-record=new")
    assert result.ret == 4
    assert "test_it[v0]: parameter `v` has no id and no short text" in result.stderr.str()


def test_a_test_that_no_longer_asks_for_checks_leaves_its_entry_missing(project):
    check = "def test_a(accel_check):\n    accel_check('x', 1, better='equal')\n"
    project.write("test_it.py", check)
    project.accept()
    project.write("test_it.py", "def test_a():\n    pass\n")
    assert project.run().ret == 11
    assert project.codes() == {"py:test_it.py::test_a": "no-variant"}
