"""What conftest files and other plugins do around the suites changes no verdict, and what they say is heard."""

from __future__ import annotations

import pytest

SLOWER = "- {name: a, workload: 'work:value', params: {name: a}, metrics: {time: {unit: us, better: lower, worse_by: 10%}}}\n"
EXACT = "- {name: b, workload: 'work:constant', matrix: {n: [1, 2]}}"
CACHE = ("-p", "cacheprovider")


def test_last_failed_failed_first_and_stepwise_know_the_variants(project):
    project.suite(EXACT + "\n" + SLOWER)
    project.accept()
    project.state(a=2.0)
    assert project.run(*CACHE).ret == 1
    assert project.run(*CACHE, "--lf").ret == 1
    assert project.verdicts() == {"s/a[name=a]": "REGRESSION"}
    assert project.run(*CACHE, "--ff").ret == 1
    assert next(iter(project.verdicts())) == "s/a[name=a]"
    project.state(a=1.0)
    assert project.run(*CACHE, "--lf").ret == 0
    assert project.verdicts() == {"s/a[name=a]": "PASS"}


ODD_HOOKS = """
import os
import pytest

def pytest_runtest_setup(item):
    os.chdir("/tmp")
    os.environ["ODD"] = "1"

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    item.prepared = True
    yield
    del item.prepared

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    assert item.prepared
    report = (yield).get_result()
    report.outcome = "passed"
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_hooks_that_move_prepare_and_whitewash_change_no_session_and_no_verdict(project, workers):
    project.write(
        "work.py",
        (project.path / "work.py").read_text().replace('{"time":', '{"odd": os.environ.get("ODD", ""), "time":'),
    )
    project.suite(SLOWER + EXACT)
    project.accept()
    project.state(a=2.0)
    project.write("conftest.py", ODD_HOOKS)
    result = project.run(*workers)
    assert result.ret == 1, result.stdout.str()
    assert project.verdicts() == {"s/a[name=a]": "REGRESSION", "s/b[n=1]": "PASS", "s/b[n=2]": "PASS"}
    assert "in 3 sessions" in project.results["cases"][0]["reason"]


def test_a_hook_that_skips_leaves_its_variant_unmeasured_with_what_it_said(project):
    project.suite(EXACT)
    project.accept()
    project.write("conftest.py", "import pytest\ndef pytest_runtest_setup(item):\n    pytest.skip('not on Fridays')\n")
    assert project.run().ret == 11
    assert {(case["verdict"], case["code"]) for case in project.results["cases"]} == {("UNMEASURED", "skipped")}
    assert "not on Fridays" in project.results["cases"][0]["reason"]


ALARM = """
import signal
import pytest

def ring(*_):
    pytest.fail("Timeout of another plugin's")

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 2.0 if "slow" in item.name else 60.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_time_limit_of_another_plugins_ends_one_variant_and_is_no_internal_error(project):
    project.write("slow.py", "import time\ndef f(accel):\n    time.sleep(60)\n    return {'x': 1}\n")
    project.write("conftest.py", ALARM)
    project.suite("- {name: slow, workload: 'slow:f'}\n" + EXACT)
    assert project.run("--accel-allow-new").ret == 11
    assert project.codes() == {"s/slow": "stopped", "s/b[n=1]": "new", "s/b[n=2]": "new"}
    assert "Timeout of another plugin's" in project.results["cases"][0]["reason"]


COVERAGE = """
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtestloop(session):
    yield
    session.testsfailed += 1  # as pytest-cov does where too little is covered
"""


def test_what_else_failed_a_run_is_exit_code_1_beside_passing_variants(project):
    project.suite(EXACT)
    project.accept()
    project.write("test_bad.py", "import nowhere\n")
    assert project.run("--continue-on-collection-errors").ret == 1
    assert project.results["run"]["exit_code"] == 1
    assert set(project.verdicts().values()) == {"PASS"}
    project.write("test_bad.py", "")
    project.write("conftest.py", COVERAGE)
    assert project.run().ret == 1
    assert project.results["run"]["exit_code"] == 1


def test_a_results_file_that_cannot_be_written_at_the_end_is_told_without_a_traceback(project):
    project.write(
        "full.py",
        """
        import os
        def f(accel):
            os.remove("results.json")
            os.mkdir("results.json")
            return {"x": 1}
        """,
    )
    project.suite("- {name: a, workload: 'full:f'}")
    result = project.run("--accel-allow-new")
    assert result.ret == 4
    text = result.stdout.str() + result.stderr.str()
    assert "results.json cannot be written" in text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


def test_a_suite_that_is_reached_by_two_paths_is_refused(project):
    project.suite(EXACT)
    (project.path / "loop").symlink_to(".")
    result = project.run("s.accel.yaml", "loop/s.accel.yaml")
    assert result.ret == 4
    assert "loop/s.accel.yaml" in result.stderr.str()


def test_what_an_unfit_machine_makes_of_all_variants_is_said_once(project):
    project.suite("- {name: b, workload: 'work:constant', matrix: {n: [1, 2, 3, 4, 5]}}")
    result = project.run("--accel-devices=3")
    (said,) = [line for line in result.outlines if line.startswith("ENV (too-few-devices) s/")]
    assert said == "ENV (too-few-devices) s/b[n=1], s/b[n=2], s/b[n=3], … 5 in all"
