"""What recording and promotion say of what they did not do, and why."""

from __future__ import annotations

import json

from pytest_accel.cli import main

TIMES = """
- {name: a, workload: 'work:value', params: {name: a}, metrics: {time: {unit: us, better: lower, worse_by: 10%}}}
- {name: b, workload: 'work:value', params: {name: b}, metrics: {time: {unit: us, better: lower, worse_by: 10%}}}
"""


def promote(project, capsys, *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["promote", str(project.path / "results.json"), "--reason", "why", *arguments])
    return code, capsys.readouterr().out


def test_promoting_a_run_that_measured_the_same_leaves_every_byte_and_says_unchanged(project, capsys):
    project.suite(TIMES)
    project.accept()
    project.state(a=0.5)
    assert project.run().ret == 0
    before = project.baseline_bytes()
    assert promote(project, capsys, "--case", "s/b") == (
        0,
        "s/b[name=b]: unchanged\n0 value(s) replaced, 1 entry(ies) unchanged, 0 retired, 0 refused\n",
    )
    assert project.baseline_bytes() == before
    code, said = promote(project, capsys)
    assert code == 0
    assert "s/a[name=a]: time 1.0 -> 0.5" in said
    assert "s/b[name=b]: unchanged" in said
    entries = json.loads(project.baseline_file().read_text())["entries"]
    assert len(entries["s/a[name=a]"]["promotions"]) == 1
    assert "promotions" not in entries["s/b[name=b]"]


def test_add_says_in_one_line_which_version_keeps_sessions_out_and_that_what_improved_is_to_be_promoted(project):
    project.suite(TIMES)
    project.accept()
    path = project.baseline_file()
    kernel = json.loads(path.read_text())["stacks"].popitem()[1]["versions"]["kernel"]
    path.write_text(path.read_text().replace(json.dumps(kernel), '"5.4.0-old"'))
    before = project.baseline_bytes()
    result = project.run("--accel-record=add")
    assert result.ret == 0
    assert f"not added: other versions.kernel 5.4.0-old → {kernel} (s/a[name=a], s/b[name=b])" in result.outlines
    assert "recorded: nothing" in result.outlines
    assert project.baseline_bytes() == before

    path.write_text(path.read_text().replace('"5.4.0-old"', json.dumps(kernel)))
    project.state(a=0.5)
    result = project.run("--accel-record=add")
    assert result.ret == 0
    assert "not added: IMPROVED, promote it (s/a[name=a])" in result.outlines
    sessions = {key: entry["sessions"] for key, entry in json.loads(path.read_text())["entries"].items()}
    assert {key: len(found) for key, found in sessions.items()} == {"s/a[name=a]": 1, "s/b[name=b]": 2}


def test_a_suspect_is_counted_once_however_often_it_is_measured(project):
    project.write("conftest.py", "import pytest_accel.gate.flow\npytest_accel.gate.flow.PROGRESS_EVERY = -1\n")
    project.suite(TIMES)
    project.accept()
    project.state(a=2.0)
    result = project.run()
    assert result.ret == 1
    counted = [line.partition("(")[2] for line in result.outlines if line.startswith("accel: measuring")]
    assert counted == ["1 of 2)", "2 of 2)", "1 of 2, again)", "1 of 2, again)"]


def test_a_status_waives_the_fault_and_the_word_that_it_names_and_no_number(project):
    project.write(
        "odd.py",
        """
        import os, pathlib
        def dies(accel):
            if pathlib.Path("broken").exists():
                os._exit(1)
            return {"answer": 1}
        def word(accel):
            return {"path": "slow" if pathlib.Path("broken").exists() else "fast"}
        def number(accel):
            return {"answer": 2 if pathlib.Path("broken").exists() else 1}
        """,
    )
    why = "reason: known, issue: 'https://example.org/1', expires: 2999-01-01"
    words = {"dies": "crash", "word": "slow", "number": "slow"}
    project.suite(
        "\n".join(f"- {{name: {n}, workload: 'odd:{n}', waive: {{status: [{w}], {why}}}}}" for n, w in words.items())
    )
    project.accept()
    (project.path / "broken").touch()
    assert project.run().ret == 1
    assert project.verdicts() == {"s/dies": "WAIVED", "s/word": "WAIVED", "s/number": "REGRESSION"}
