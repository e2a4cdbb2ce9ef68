"""Every verdict and exit code, through a real pytest run."""

from __future__ import annotations

SLOWER = """
- name: a
  workload: work:value
  params: {name: a}
  metrics: {time: {unit: us, better: lower, worse_by: 10%}}
- name: b
  workload: work:value
  params: {name: b}
  metrics: {time: {unit: us, better: lower, worse_by: 10%}}
"""


def test_the_first_run_is_incomplete_until_it_is_recorded_and_then_it_passes(project):
    project.suite(SLOWER)
    first = project.run()
    assert first.ret == 11
    assert project.verdicts() == {"s/a[name=a]": "NEW", "s/b[name=b]": "NEW"}
    assert project.results["summary"]["judged"] == 0

    recording = project.record()
    recording.stdout.fnmatch_lines(["*RECORDED ONLY*measured 2 of 2, judged 0*"])
    assert project.results["summary"]["verdict"] == "RECORDED ONLY"

    judged = project.run()
    assert judged.ret == 0
    judged.stdout.fnmatch_lines(["*PASS*measured 2 of 2, judged 2*exit code 0*"])
    assert set(project.verdicts().values()) == {"PASS"}


def test_a_slower_variant_fails_the_run_and_leaves_the_baseline_untouched_even_when_recording(project):
    project.suite(SLOWER)
    project.accept()
    before = project.baseline_bytes()
    project.state(a=1.5, b=1.0)
    result = project.run("--accel-record=add", "-k", "s/a")
    assert result.ret == 1
    assert project.verdicts() == {"s/a[name=a]": "REGRESSION"}
    case = project.results["cases"][0]
    assert case["metrics"]["time"]["baseline"] == 1.0
    assert case["metrics"]["time"]["value"] == 1.5
    assert abs(case["metrics"]["time"]["limit"] - 1.1) < 1e-9
    result.stdout.fnmatch_lines(["*REGRESSION*s/a[[]name=a[]]*", "*1.5 us*baseline 1 us*+50.0 %*limit 1.1 us*"])
    assert project.baseline_bytes() == before
    again = project.run("-k", "s/a")
    assert again.ret == 1, "a red run must not heal the gate"


def test_a_stale_baseline_is_called_improved_and_passes_without_being_replaced(project):
    project.suite(SLOWER)
    project.accept()
    before = project.baseline_bytes()
    project.state(a=0.3, b=1.0)
    result = project.run("--accel-record=add")
    assert result.ret == 0
    assert project.verdicts()["s/a[name=a]"] == "IMPROVED"
    result.stdout.fnmatch_lines(["*IMPROVED*s/a*stale*"])
    after = project.baseline_bytes()
    assert after.keys() == before.keys()
    assert all(b"0.3" not in text for text in after.values())


def test_renamed_variants_are_new_and_missing_and_never_a_pass(project):
    project.suite(SLOWER)
    project.accept()
    project.suite(SLOWER.replace("name: a\n", "name: a2\n").replace("name: b\n", "name: b2\n"))
    result = project.run()
    assert result.ret == 11
    verdicts = project.verdicts()
    assert sorted(verdicts.values()) == ["MISSING", "MISSING", "NEW", "NEW"]


def test_a_deselected_variant_is_not_missing(project):
    project.suite(SLOWER)
    project.accept()
    result = project.run("-k", "s/a")
    assert result.ret == 0
    assert project.verdicts() == {"s/a[name=a]": "PASS"}


def test_a_deleted_suite_file_leaves_its_entries_missing(project):
    project.suite(SLOWER, "suites/one.accel.yaml")
    project.suite(SLOWER, "suites/two.accel.yaml")
    project.accept("suites")
    (project.path / "suites/two.accel.yaml").unlink()
    result = project.run("suites")
    assert result.ret == 11
    assert sorted(project.verdicts().items()) == [
        ("one/a[name=a]", "PASS"),
        ("one/b[name=b]", "PASS"),
        ("two/a[name=a]", "MISSING"),
        ("two/b[name=b]", "MISSING"),
    ]
    alone = project.run("suites/one.accel.yaml")
    assert alone.ret == 0, "entries of a path that was not asked for are nobody's business"


def test_nothing_for_this_machine_is_exit_code_5_and_a_named_platform_that_is_absent_is_env(project):
    project.suite(
        """
        - name: a
          workload: work:constant
          requires: {platform: cuda}
        """
    )
    result = project.run()
    assert result.ret == 5
    assert project.results["summary"] == {
        "asked": 0,
        "measured": 0,
        "judged": 0,
        "elsewhere": 1,
        "known_bad": 0,
        "verdict": "NOTHING ASKED",
        "verdicts": {},
    }
    absent = project.run(accel="cuda")
    assert absent.ret == 10
    assert project.verdicts() == {"s/a": "ENV"}
    assert project.results["summary"]["measured"] == 0


def test_a_nan_is_a_regression_that_names_it_and_is_never_recorded(project):
    project.write(
        "nan.py",
        """
        import json, pathlib
        def f(accel):
            return {"err": json.loads(pathlib.Path("nan.json").read_text())}
        """,
    )
    project.suite(
        """
        - name: a
          workload: nan:f
          metrics: {err: {better: lower, worse_by: 100%, floor: 0.1}}
        """
    )
    project.write("nan.json", "NaN")
    first = project.run("--accel-record=new")
    assert first.ret == 1
    assert project.baseline_bytes() == {}
    assert project.results["cases"][0]["metrics"]["err"]["value"] == {"nonfinite": "nan"}
    project.write("nan.json", "0.5")
    project.accept()
    project.write("nan.json", "NaN")
    result = project.run()
    assert result.ret == 1
    assert project.codes() == {"s/a": "nonfinite"}


def test_a_waiver_covers_what_it_names_as_far_as_it_says_until_it_expires(project):
    waive = """
- name: a
  workload: work:value
  params: {name: a}
  metrics: {time: {unit: us, better: lower, worse_by: 10%}}
  waive: {when: {platform: cpu}, metrics: {time: {up_to: 60%}}, reason: known, issue: "https://example.org/1", expires: EXPIRES}
"""
    project.suite(waive.replace("EXPIRES", "2999-01-01"))
    project.accept()
    project.state(a=1.5)
    result = project.run("-rx")
    assert result.ret == 0
    assert project.verdicts() == {"s/a[name=a]": "WAIVED"}
    result.assert_outcomes(xfailed=1)
    project.state(a=1.9)
    assert project.run().ret == 1
    project.state(a=1.5)
    project.suite(waive.replace("EXPIRES", "2020-01-01"))
    assert project.run().ret == 1


def test_work_that_changed_is_env_until_it_is_promoted(project):
    project.suite(
        """
        - name: a
          workload: work:constant
        """
    )
    project.accept()
    project.write("work.py", (project.path / "work.py").read_text().replace("n=0", "n=7"))
    result = project.run()
    assert result.ret == 10
    assert project.codes() == {"s/a": "work-changed"}


def test_a_skip_of_its_own_is_unmeasured_and_makes_the_run_incomplete(project):
    project.write("skips.py", "import pytest\ndef f(accel):\n    pytest.skip('no such chip')\n")
    project.suite("- {name: a, workload: 'skips:f'}\n- {name: b, workload: 'work:constant'}")
    result = project.run("--accel-allow-new")
    assert result.ret == 11
    result.assert_outcomes(skipped=1, passed=1)
    assert project.verdicts() == {"s/a": "UNMEASURED", "s/b": "NEW"}


def test_stopping_at_the_first_failure_keeps_the_code_of_its_verdicts(project):
    project.suite(SLOWER)
    project.accept()
    project.write("work.py", (project.path / "work.py").read_text().replace('{"time": known', '{"tame": known'))
    result = project.run("-x")
    assert result.ret == 4
    project.write("work.py", "def value(accel, name='x', start=1.0):\n    raise RuntimeError('boom')\n")
    result = project.run("-x")
    assert result.ret == 1
    assert project.verdicts() == {"s/a[name=a]": "REGRESSION", "s/b[name=b]": "UNMEASURED"}
    assert project.codes()["s/b[name=b]"] == "stopped-early"


def test_in_process_runs_are_unmeasured_and_never_recorded(project):
    project.suite(SLOWER)
    result = project.run("--accel-in-process", "--accel-record=new")
    assert result.ret == 11
    assert set(project.verdicts().values()) == {"UNMEASURED"}
    assert project.baseline_bytes() == {}
