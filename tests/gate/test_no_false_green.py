"""Ways in which a run that measured nothing, or another thing than asked, once ended green."""

from __future__ import annotations

import json

import pytest

ONE = "- {name: a, workload: 'work:constant'}"


BAD = "bad.accel.yaml"
CRASHING = "def pytest_configure(config):\n    raise RuntimeError('x')\n"


def test_an_old_green_results_file_does_not_outlive_a_run_that_went_wrong(project):
    project.suite(ONE)
    project.accept()
    assert project.run().ret == 0
    assert project.results["run"]["exit_code"] == 0
    green = (project.path / "results.json").read_bytes()
    for name, text, arguments, code in (
        (BAD, "cases: [", [], 4),
        (None, "", ["-k", "zz"], 5),
        (None, "", ["no/such/path"], 4),
        (None, "", ["--accel-tier=zz"], 4),
        (None, "", ["--no-such-option"], 4),
        ("conftest.py", CRASHING, [], None),
        ("conftest.py", "import nowhere\n", [], None),
    ):
        (project.path / "results.json").write_bytes(green)
        (project.path / BAD).unlink(missing_ok=True)
        if name is not None:
            project.write(name, text)
        result = project.run(*arguments)
        assert result.ret != 0
        assert project.results["run"]["exit_code"] != 0
        if code is not None:
            assert result.ret == code
            # 11, "not finished", where pytest ended before the plugin had a say
            assert project.results["run"]["exit_code"] in ((code,) if "--no-such-option" not in arguments else (11,))


def test_listing_something_measures_nothing_and_leaves_the_results_alone(project):
    project.suite(ONE)
    project.record()
    before = (project.path / "results.json").read_bytes()
    for option in ("--collect-only", "--fixtures", "--fixtures-per-test"):
        result = project.run(option)
        assert result.ret == 0
        assert "exit code" not in result.stdout.str()
        assert (project.path / "results.json").read_bytes() == before


def test_a_results_file_that_cannot_be_written_is_told_before_anything_is_measured(project):
    project.suite(ONE)
    result = project.run("--accel-report=/proc/r.json")
    assert result.ret == 4
    text = result.stdout.str() + result.stderr.str()
    assert "/proc/r.json" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_marked_test_on_a_machine_without_the_named_platform_is_env_also_without_fixtures(project, workers):
    project.write("test_it.py", "import pytest\n@pytest.mark.accel('cuda')\ndef test_norm():\n    pass\n")
    assert project.run(*workers, accel="cuda").ret == 10


def test_too_few_devices_is_env_also_where_nothing_is_for_this_machine(project):
    project.suite("- {name: a, workload: 'work:constant', requires: {platform: cuda}}")
    project.write("test_plain.py", "def test_a():\n    pass\n")
    assert project.run("--accel-devices=4").ret == 10


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_python_tests_that_are_all_for_other_machines_are_nothing_asked(project, workers):
    project.write("test_it.py", "import pytest\n@pytest.mark.accel('cuda')\ndef test_norm(accel):\n    pass\n")
    result = project.run(*workers)
    assert result.ret == 5
    assert project.results["summary"]["elsewhere"] == 1


def test_a_marked_test_that_checks_nothing_is_an_ordinary_test(project):
    project.write("test_it.py", "import pytest\n@pytest.mark.accel\ndef test_a():\n    pass\n")
    result = project.run()
    assert result.ret == 0
    assert "NOTHING ASKED" not in result.stdout.str()


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
@pytest.mark.parametrize("body", ["assert 0", "accel_check('y', 1, better='equal'); assert 0"])
def test_a_marked_test_that_fails_by_itself_is_exit_code_1_beside_passing_checks(project, body, workers):
    project.with_torch()
    good = "def test_good(accel_check):\n    accel_check('x', 1, better='equal')\n"
    project.write("test_it.py", good)
    project.accept()
    project.write("test_it.py", f"{good}import pytest\n@pytest.mark.accel\ndef test_bad(accel_check):\n    {body}\n")
    assert project.run("--accel-allow-new", *workers).ret == 1


def test_a_check_whose_set_up_fails_is_exit_code_1_and_says_so(project):
    project.with_torch()
    project.write(
        "test_it.py",
        """
        import pytest, os
        @pytest.fixture
        def data():
            assert not os.path.exists("broken")
        def test_it(data, accel_check):
            accel_check("x", 1, better="equal")
        """,
    )
    project.accept()
    (project.path / "broken").touch()
    assert project.run().ret == 1
    assert set(project.codes().values()) == {"setup-failed"}


def test_two_tests_of_one_key_are_refused(project):
    project.write(
        "test_it.py",
        """
        import pytest
        @pytest.mark.parametrize("v", [1, 1], ids=["a", "b"])
        def test_it(accel_check, v):
            accel_check("x", 1.0, better="equal")
        """,
    )
    result = project.run("--accel-record=new")
    assert result.ret == 4
    assert "test_it[a]" in result.stderr.str() + result.stdout.str()
    assert project.baseline_bytes() == {}


def test_stepwise_keeps_the_code_of_its_verdicts(project):
    project.suite(
        "- {name: a, workload: 'work:value', params: {name: a}, metrics: {time: {better: lower, worse_by: 10%}}}"
    )
    project.accept()
    project.state(a=2.0)
    arguments = ["-p", "stepwise", "-p", "cacheprovider", "--sw"]
    assert project.run(*arguments).ret == 1


def test_what_the_probe_does_not_know_is_not_called_changed(project):
    project.suite(ONE)
    project.accept()
    project.suite("- {name: b, workload: 'work:constant'}")
    project.run("-k", "s/a")
    assert project.verdicts() == {"s/a": "MISSING"}
    assert json.dumps(project.results["baseline"]["changed"]) == "{}"


def test_a_baselines_folder_that_cannot_be_written_is_told_before_anything_is_measured(project):
    project.suite(ONE)
    project.write("baselines", "a file in its place")
    result = project.run("--accel-record=new")
    assert result.ret == 4
    assert "baselines" in result.stderr.str() + result.stdout.str()


def test_an_entry_without_sessions_is_a_damaged_file_and_not_a_new_variant(project):
    project.suite(ONE)
    project.accept()
    path = project.baseline_file()
    data = json.loads(path.read_text())
    data["entries"]["s/a"]["sessions"] = []
    path.write_text(json.dumps(data))
    assert project.run("--accel-record=new").ret == 4
    assert json.loads(path.read_text()) == data


def test_variants_of_other_tiers_are_counted_in_the_header(project):
    project.suite(f"{ONE}\n- {{name: b, workload: 'work:constant', tier: full}}")
    result = project.run("--accel-allow-new")
    result.stdout.fnmatch_lines(["*asked for 1 variant(s) of tier gate*1 of other tiers*"])
