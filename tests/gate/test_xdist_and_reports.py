"""One verdict, one report, whatever the number of workers; a report also where nothing was finished."""

from __future__ import annotations

import json

import pytest

CASES = """
- name: c
  workload: work:constant
  matrix: {n: [1, 2, 3, 4, 5, 6]}
- name: slow
  workload: work:value
  params: {name: a}
  metrics: {time: {unit: us, better: lower, worse_by: 10%}}
"""


def comparable(results):
    """A results document without run id, times, workers and devices."""
    text = json.loads(json.dumps(results))
    for part in ("id", "started", "seconds", "argv"):
        del text["run"][part]
    for case in text["cases"]:
        for part in ("seconds", "worker", "device"):
            del case[part]
    return text


def test_workers_change_nothing_but_run_id_times_worker_and_device(project):
    project.suite(CASES)
    project.accept()
    project.state(a=2.0)
    alone = project.run()
    without = comparable(project.results)
    together = project.run("-n", "2")
    assert (alone.ret, together.ret) == (1, 1)
    assert comparable(project.results) == without
    assert [case["key"] for case in project.results["cases"]] == [f"s/c[n={n}]" for n in range(1, 7)] + [
        "s/slow[name=a]"
    ]
    assert {case["worker"] for case in project.results["cases"]} <= {"gw0", "gw1"}


def test_the_results_file_is_strict_json_with_every_part_that_scripts_read(project):
    project.with_torch()
    project.suite(CASES)
    project.record()
    text = (project.path / "results.json").read_text(encoding="utf-8")
    assert text.endswith("}\n")

    def refuse(word):
        raise AssertionError(word)

    document = json.loads(text, parse_constant=refuse)
    assert document["schema"] == "pytest-accel/results/1"
    assert document["run"]["exit_code"] == 0
    assert document["stack"]["platform"] == "cpu"
    assert document["stack"]["versions"]["torch"]
    assert document["stack"]["versions"]["driver"] is None
    assert document["stack"]["hardware"]["name"]
    assert document["stack"]["settings"]
    metric = document["cases"][-1]["metrics"]["time"]
    assert {"value", "unit", "better", "baseline", "change", "limit", "verdict"} <= set(metric)


def test_an_upgrade_is_shown_as_what_changed_and_does_not_hide_the_baseline(project):
    project.suite(CASES)
    project.record()
    path = project.baseline_file()
    version = project.results["stack"]["versions"]["torch"]
    path.write_text(path.read_text().replace(f'"torch": "{version}"', '"torch": "1.0.0"'))
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*versions.torch 1.0.0*"])
    assert project.results["baseline"]["changed"]["versions.torch"] == ["1.0.0", version]


def test_credentials_in_arguments_are_masked(project):
    project.suite(CASES)
    project.run("-o", "addopts=--strict-markers", "--override-ini=cache_dir=https://me:secret@example.org/x")
    assert "secret" not in (project.path / "results.json").read_text()


def test_a_suspect_that_a_fresh_process_does_not_confirm_passes(project):
    project.write(
        "flaky.py",
        """
        import os, pathlib
        def f(accel):
            marker = pathlib.Path("slow-once")
            if marker.exists():
                marker.unlink()
                return {"time": 9.0}
            return {"time": 1.0}
        """,
    )
    project.suite("- {name: a, workload: 'flaky:f', metrics: {time: {unit: us, better: lower, worse_by: 10%}}}")
    project.accept()
    (project.path / "slow-once").touch()
    result = project.run()
    assert result.ret == 0
    assert project.verdicts() == {"s/a": "PASS"}
    assert "not reproduced" in project.results["cases"][0]["reason"]


def test_settings_that_differ_are_env_for_timings_and_exact_metrics_are_judged_as_usual(project):
    project.with_torch()
    project.write(
        "both.py",
        """
        import os, torch
        if os.environ.get("ONE_THREAD"):
            torch.set_num_threads(1)
        def f(accel):
            return {"time": 1.0, "answer": 42}
        """,
    )
    project.suite(
        """
        - name: a
          workload: both:f
          metrics: {time: {unit: us, better: lower, worse_by: 10%}, answer: {better: equal}}
        """
    )
    assert project.run("--accel-record=new", env={"OMP_NUM_THREADS": "2"}).ret == 0
    before = project.baseline_bytes()
    result = project.run("--accel-record=add", env={"OMP_NUM_THREADS": "2", "ONE_THREAD": "1"})
    assert result.ret == 10
    metrics = project.results["cases"][0]["metrics"]
    assert metrics["time"]["verdict"] == "ENV"
    assert metrics["answer"]["verdict"] == "PASS"
    assert "num_threads" in project.results["cases"][0]["reason"]
    assert project.baseline_bytes() == before


@pytest.mark.parametrize("count", [1, 2])
def test_adding_a_session_appends_and_never_replaces(project, count):
    project.suite(CASES)
    project.accept()
    for _ in range(count):
        assert project.run("--accel-record=add").ret == 0
    stored = json.loads(project.baseline_file().read_text())
    sessions = stored["entries"]["s/slow[name=a]"]["sessions"]
    assert len(sessions) == 1 + count
    assert {session["metrics"]["time"] for session in sessions} == {1.0}
