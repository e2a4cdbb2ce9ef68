"""A user's mistake stops the run with exit code 4 and one clear message, before anything is measured."""

from __future__ import annotations

import json

ONE = "- {name: a, workload: 'work:constant'}"


WRONG_SUITES = {
    "workload": ("- {name: a, workload: gemn}", ["gemn", "did you mean `gemm`"]),
    "param": ("- {name: a, workload: gemm, params: {mm: 3}}", ["mm"]),
    "key": ("- {name: a, workload: 'work:constant', tolerance: 3}", ["tolerance"]),
    "twice": ("- {name: a, workload: 'work:constant'}\n- {name: a, workload: 'work:constant'}", ["a"]),
    "tier": ("- {name: a, workload: 'work:constant', tier: nightly}", ["nightly"]),
    "status": (
        "- {name: a, workload: operator, params: {op: add, dtype: float32}, waive: {status: [unsuported], WHY}}",
        ["unsuported", "did you mean `unsupported`"],
    ),
    "any": (
        "- {name: a, workload: gemm, params: {m: 8, n: 8, k: 8, dtype: float32}, waive: {status: [worse], WHY}}",
        ["`worse` is no status", "up_to"],
    ),
    "own": ("- {name: a, workload: 'work:constant', waive: {status: [tmieout], WHY}}", ["did you mean `timeout`"]),
}
WHY = "reason: known, issue: 'https://example.org/1', expires: 2999-01-01"


def test_each_wrong_suite_is_told_with_file_and_line_in_one_run(project):
    for name, (suite, _) in WRONG_SUITES.items():
        project.suite(suite.replace("WHY", WHY), f"{name}.accel.yaml")
    result = project.run("--accel-record=new")
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    for name, (_, words) in WRONG_SUITES.items():
        line = 4 if name == "twice" else 3
        (told,) = [part for part in text.splitlines() if f"{name}.accel.yaml:{line}" in part]
        assert all(word in told for word in words), told
    assert "Traceback" not in text
    assert project.baseline_bytes() == {}


def test_each_wrong_option_is_told_by_its_name_in_one_run(project):
    wrong = {
        "--accel-tier=nightly": "nightly",
        "--accel-devices=many": "many",
        "--accel-record=all": "all",
        "--accel-sessions=0": "`0`",
        "--accel-baselines=s.accel.yaml": "is a file",
    }
    project.suite(ONE)
    result = project.run(*wrong)
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    for argument, word in wrong.items():
        option = argument.partition("=")[0]
        assert any(f"{option}:" in line and word in line for line in text.splitlines()), (argument, text)


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


DAMAGE = [
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
    lambda text: text.replace('"answer": 0', '"answer": true'),
    lambda text: text.replace('"started": "2', '"started": "x'),
    lambda text: "<<<<<<< HEAD\n" + text,
]


def test_no_broken_baseline_is_taken_for_an_absent_one(project):
    names = [f"s{number}" for number in range(len(DAMAGE))]
    for name in names:
        project.suite(ONE, f"{name}.accel.yaml")
    project.accept()
    for name, damage in zip(names, DAMAGE, strict=True):
        path = project.baseline_file(name)
        text = path.read_text(encoding="utf-8")
        assert damage(text) != text
        path.write_text(damage(text), encoding="utf-8")
    before = project.baseline_bytes()
    result = project.run("--accel-record=new")
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    for name in names:
        assert str(project.baseline_file(name).relative_to(project.path)) in said
    assert "Traceback" not in said
    assert project.baseline_bytes() == before
    for name in names[1:]:
        (project.path / f"{name}.accel.yaml").unlink()
        project.baseline_file(name).unlink()
    assert project.run("--accel-record=new").ret == 4, "an empty file alone is enough"


def test_a_broken_baseline_of_other_hardware_is_told_too(project):
    project.suite(ONE)
    project.accept()
    cut = project.baseline_file().read_text()[:-20]
    project.write("baselines/nvidia-h200/s.json", cut)
    result = project.run(accel="auto")
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert "nvidia-h200/s.json" in said
    assert "Traceback" not in said


def test_a_machine_whose_accelerator_went_is_env_under_auto_and_not_when_cpu_is_named(project):
    project.suite(ONE)
    project.accept()
    stored = project.baseline_file()
    other = project.path / "baselines" / "nvidia-h200"
    other.mkdir()
    (other / "s.json").write_text(stored.read_text().replace('"cpu-x86_64"', '"nvidia-h200"'))
    assert project.run(accel="auto").ret == 10
    assert project.codes() == {"s/a": "accelerator-gone"}
    assert project.run(accel="cpu").ret == 0


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(project):
    project.suite(ONE)
    project.accept()
    for path in (project.path / "s.accel.yaml", project.baseline_file()):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert project.run().ret == 0
    assert project.verdicts() == {"s/a": "PASS"}


def test_what_only_a_measurement_can_show_fails_that_item_and_ends_with_code_4(project):
    project.write("odd.py", "def f(accel):\n    return {}\ndef g(accel):\n    return {'x': 1}\n")
    project.suite(
        "- {name: a, workload: 'odd:f'}\n- {name: b, workload: 'odd:g'}\n- {name: c, workload: 'nowhere:f'}\n"
        f"- {{name: d, workload: 'odd:g', waive: {{metrics: {{xx: {{up_to: 8%}}}}, {WHY}}}}}\n"
        f"- {{name: e, workload: 'odd:g', waive: {{when: {{platform: cuda}}, metrics: {{xx: {{up_to: 8%}}}}, {WHY}}}}}"
    )
    result = project.run("--accel-record=new")
    assert result.ret == 4
    result.assert_outcomes(passed=2, failed=3)
    assert project.codes() == {"s/a": "config", "s/b": "new", "s/c": "config", "s/d": "config", "s/e": "new"}
    result.stdout.fnmatch_lines(["*s.accel.yaml:6: case `d` waives `xx`*did you mean `x`*"])
    assert project.baseline_bytes() == {}, "nothing is recorded in a run with configuration errors"
    assert project.results["run"]["exit_code"] == 4


def test_a_workload_that_no_longer_imports_is_a_regression(project):
    project.suite(ONE)
    project.accept()
    project.write("work.py", "import package_that_went_away\n")
    assert project.run().ret == 1
    assert project.codes() == {"s/a": "import-failed"}


def test_keys_do_not_move_when_a_case_is_inserted_and_long_parameters_stay_whole(project):
    long = "x" * 300
    case = f"- {{name: a, workload: 'work:constant', params: {{n: {json.dumps(long)}}}}}"
    project.suite(case)
    project.accept()
    project.suite(f"- {{name: first, workload: 'work:constant'}}\n{case}")
    assert project.run("--accel-allow-new").ret == 0
    assert sorted(project.verdicts().values()) == ["NEW", "PASS"]
    assert any(long in key for key in project.verdicts())
