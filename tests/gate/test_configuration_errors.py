"""A user's mistake stops the run with exit code 4 and one clear message, before anything is measured."""

from __future__ import annotations

import json

import pytest

ONE = "- {name: a, workload: 'work:constant'}"


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        ("- {name: a, workload: gemn}", ["s.accel.yaml:3", "gemn", "gemm"]),
        ("- {name: a, workload: gemm, params: {mm: 3}}", ["s.accel.yaml:3", "mm"]),
        ("- {name: a, workload: 'work:constant', tolerance: 3}", ["s.accel.yaml:3", "tolerance"]),
        ("- {name: a, workload: 'work:constant'}\n- {name: a, workload: 'work:constant'}", ["s.accel.yaml", "a"]),
        ("- {name: a, workload: 'work:constant', tier: nightly}", ["s.accel.yaml:3", "nightly"]),
    ],
)
def test_a_wrong_suite_is_told_with_file_and_line(project, suite, words):
    project.suite(suite)
    result = project.run("--accel-record=new")
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    for word in words:
        assert word in text
    assert "Traceback" not in text
    assert project.baseline_bytes() == {}


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ("--accel-tier=nightly", "nightly"),
        ("--accel-devices=many", "many"),
        ("--accel-record=all", "all"),
        ("--accel-sessions=0", "0"),
        ("--accel-baselines=s.accel.yaml", "is a file"),
    ],
)
def test_a_wrong_option_is_told_by_its_name(project, argument, word):
    project.suite(ONE)
    result = project.run(argument)
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    assert argument.partition("=")[0] in text
    assert word in text


def test_under_xdist_a_wrong_suite_has_the_same_message_and_code(project):
    project.suite("- {name: a, workload: gemn}")
    result = project.run("-n", "2")
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    assert "s.accel.yaml:3" in text
    assert "gemn" in text


def test_two_suites_of_one_name_are_refused_with_both_paths(project):
    project.suite(ONE, "x/s.accel.yaml")
    project.suite(ONE, "y/s.accel.yaml")
    result = project.run()
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    assert "x/s.accel.yaml" in text
    assert "y/s.accel.yaml" in text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text + text,
        lambda text: text + "\0",
        lambda text: "null",
        lambda text: "[]",
        lambda text: text.replace("baseline/1", "baseline/9"),
        lambda text: text.replace('"answer": 0', '"answer": NaN'),
        lambda text: text.replace('"answer": 0', '"answer": 1e999'),
        lambda text: text.replace('"answer": 0', '"answer": null'),
        lambda text: "<<<<<<< HEAD\n" + text,
    ],
)
def test_a_broken_baseline_is_never_taken_for_an_absent_one(project, damage):
    project.suite(ONE)
    project.record()
    path = project.baseline_file()
    text = path.read_text(encoding="utf-8")
    path.write_text(damage(text), encoding="utf-8")
    before = project.baseline_bytes()
    result = project.run("--accel-record=new")
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert str(path.relative_to(project.path)) in said
    assert "Traceback" not in said
    assert project.baseline_bytes() == before


def test_a_broken_baseline_of_other_hardware_is_told_too(project):
    project.suite(ONE)
    project.record()
    cut = project.baseline_file().read_text()[:-20]
    project.write("baselines/nvidia-h200/s.json", cut)
    result = project.run(accel="auto")
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert "nvidia-h200/s.json" in said
    assert "Traceback" not in said


def test_a_machine_whose_accelerator_went_is_env_under_auto_and_not_when_cpu_is_named(project):
    project.suite(ONE)
    project.record()
    stored = project.baseline_file()
    other = project.path / "baselines" / "nvidia-h200"
    other.mkdir()
    (other / "s.json").write_text(stored.read_text().replace('"cpu-x86_64"', '"nvidia-h200"'))
    assert project.run(accel="auto").ret == 10
    assert project.codes() == {"s/a": "accelerator-gone"}
    assert project.run(accel="cpu").ret == 0


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(project):
    project.suite(ONE)
    project.record()
    for path in (project.path / "s.accel.yaml", project.baseline_file()):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert project.run().ret == 0
    assert project.verdicts() == {"s/a": "PASS"}


def test_what_only_a_measurement_can_show_fails_that_item_and_ends_with_code_4(project):
    project.write("odd.py", "def f(accel):\n    return {}\ndef g(accel):\n    return {'x': 1}\n")
    project.suite("- {name: a, workload: 'odd:f'}\n- {name: b, workload: 'odd:g'}\n- {name: c, workload: 'nowhere:f'}")
    result = project.run("--accel-record=new")
    assert result.ret == 4
    result.assert_outcomes(passed=1, failed=2)
    assert project.baseline_bytes() == {}, "nothing is recorded in a run with configuration errors"
    assert project.results["run"]["exit_code"] == 4


def test_a_workload_that_no_longer_imports_is_a_regression(project):
    project.suite(ONE)
    project.record()
    project.write("work.py", "import package_that_went_away\n")
    assert project.run().ret == 1
    assert project.codes() == {"s/a": "import-failed"}


def test_keys_do_not_move_when_a_case_is_inserted_and_long_parameters_stay_whole(project):
    long = "x" * 300
    case = f"- {{name: a, workload: 'work:constant', params: {{n: {json.dumps(long)}}}}}"
    project.suite(case)
    project.record()
    project.suite(f"- {{name: first, workload: 'work:constant'}}\n{case}")
    assert project.run("--accel-allow-new").ret == 0
    assert sorted(project.verdicts().values()) == ["NEW", "PASS"]
    assert any(long in key for key in project.verdicts())
