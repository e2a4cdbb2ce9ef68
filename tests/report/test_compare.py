"""Two results files, or baselines folders, held against each other."""

from __future__ import annotations

import json

import pytest

from pytest_accel.cli import main

STACK = {"hardware": {"name": "chip"}, "settings": {"allow_tf32": False}, "versions": {"torch": "2.9", "driver": "580"}}
RULE = {"unit": "us", "better": "lower", "kind": "timing", "worse_by": 0.05, "relative": True, "floor": 0.0}


@pytest.fixture
def run_of(made, tmp_path):
    """Writes a results file of timed variants: ``name: value`` by case, with a stack."""

    def write(name, platform="cuda", stack=STACK, rule=RULE, **times):
        cases = [
            made.case(
                key=f"s/{key}",
                case=key,
                workload="w:f",
                rules={"time": rule},
                metrics={"time": made.metric(value)},
                sessions=[{"metrics": {"time": value}, "stack": "h", "machine": "m", "device": "d"}],
            )
            for key, value in times.items()
        ]
        data = made.document(cases)
        data["stacks"] = {"h": stack}
        data["stack"] = {"platform": platform, **stack}
        return str(made.written(tmp_path, data, name))

    return write


def test_what_got_worse_by_more_than_its_stored_rule_is_a_regression(run_of, capsys):
    old = run_of("old.json", a=10.0, b=10.0)
    new = run_of("new.json", a=11.0, b=10.2, stack={**STACK, "versions": {"torch": "2.10", "driver": "580"}})
    assert main(["compare", old, new]) == 1
    said = capsys.readouterr().out
    assert "changed: versions.torch 2.9 → 2.10" in said
    assert "REGRESSION (worse)  s/a" in said
    assert "s/b" not in said
    assert "1 REGRESSION, 1 PASS; exit code 1" in said


def test_what_only_one_side_has_is_missing_or_new_and_never_a_pass(run_of, capsys):
    code = main(["compare", run_of("old.json", a=1.0, b=1.0), run_of("new.json", a=1.0, c=1.0), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == found["exit_code"] == 11
    assert {case["key"]: case["verdict"] for case in found["cases"]} == {"s/a": "PASS", "s/b": "MISSING", "s/c": "NEW"}


def test_settings_that_differ_make_timings_unfit_on_one_platform_and_not_across_two(run_of, capsys):
    other = {**STACK, "settings": {"allow_tf32": True}}
    assert main(["compare", run_of("old.json", a=10.0), run_of("new.json", a=10.0, stack=other)]) == 10
    assert "allow_tf32" in capsys.readouterr().out
    old, new = run_of("old.json", a=10.0), run_of("new.json", platform="rocm", stack=other, a=10.1)
    assert main(["compare", old, new]) == 0
    assert "cuda against rocm" in capsys.readouterr().out


def test_markdown_has_a_row_for_each_variant(run_of, capsys):
    main(["compare", run_of("old.json", a=10.0), run_of("new.json", a=20.0), "--markdown"])
    said = capsys.readouterr().out
    assert "| REGRESSION | s/a | time | 10 us | 20 us | +100.0 % |" in said


def test_a_baselines_folder_can_stand_on_either_side(shown, capsys):
    folder = next((shown.path / "baselines").iterdir())
    code = main(["compare", str(folder), str(shown.path / "results.json"), "--json"])
    found = {case["key"]: case["verdict"] for case in json.loads(capsys.readouterr().out)["cases"]}
    assert code == 1
    assert found["s/worse[name=e]"] == "REGRESSION"
    assert found["s/fine[name=a]"] == "PASS"
    assert found["s/gone[name=l]"] == "MISSING"
    assert found["s/unfit[name=g]"] == "ENV"


@pytest.mark.parametrize(
    ("content", "what"), [("{", "results.json:1"), ('{"schema": "other/1"}', "is of schema"), ("[]", "no results file")]
)
def test_a_broken_file_is_one_message_with_its_place(tmp_path, capsys, content, what):
    path = tmp_path / "results.json"
    path.write_text(content)
    assert main(["compare", str(path), str(path)]) == 4
    said = capsys.readouterr().err
    assert what in said
    assert "Traceback" not in said


def test_a_folder_without_baselines_is_said(tmp_path, capsys):
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 4
    assert "holds no baseline files" in capsys.readouterr().err
