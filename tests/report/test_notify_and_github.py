"""Messages about a red run, and the text that a workflow's runner reads."""

from __future__ import annotations

import json
import sys

import pytest

from pytest_accel.report.github import annotate, append_summary, in_workflow
from pytest_accel.report.markdown import MOST_BYTES, escape, summary
from pytest_accel.report.notify import message, notify
from pytest_accel.report.results import parse

HOSTILE = "a|b `c` <script>x</script> @team https://evil.example ::error::no\n::set-output name=x::y"


@pytest.fixture
def red(made):
    bad = made.case(key=f"s/c[x={HOSTILE}]", verdict="REGRESSION", code="worse", reason=HOSTILE)
    return parse(made.document([bad, made.case()]), "results.json")


def test_the_message_has_the_shape_that_each_service_takes(red):
    assert message("slack", red)["text"].startswith("REGRESSION")
    assert message("wecom", red)["text"]["content"] == message("dingtalk", red)["text"]["content"]
    facts = message("json", red)
    assert facts["exit_code"] == 1
    assert facts["verdicts"] == {"REGRESSION": 1, "PASS": 1}
    assert facts["worst"][0]["code"] == "worse"


def test_the_command_gets_the_message_on_its_standard_input(red, tmp_path):
    target = tmp_path / "got.json"
    code = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    assert notify(f'{sys.executable} -c "{code}"', "json", red) is None
    assert json.loads(target.read_text())["verdict"] == "REGRESSION"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/no/such/command", "No such file"),
        (f"{sys.executable} -c 'import sys; sys.exit(7)'", "ended with 7"),
        ("'unclosed", "cannot be read"),
    ],
)
def test_a_command_that_fails_is_said_and_raises_nothing(red, command, says):
    assert says in (notify(command, "json", red) or "")


def test_an_annotation_is_one_line_whatever_its_text_holds(red):
    (line,) = annotate(red)
    assert "\n" not in line
    assert line.startswith("::error file=s.accel.yaml,title=")
    title = line.split("title=")[1].split("::")[0]
    assert ":" not in title
    assert "," not in title


def test_more_annotations_than_a_runner_shows_end_in_one_that_says_so(made):
    cases = [made.case(key=f"s/c[n={n}]", verdict="REGRESSION") for n in range(30)]
    lines = annotate(parse(made.document(cases), "r"))
    assert len(lines) == 10
    assert "and 21 more" in lines[-1]


def test_markdown_is_inert_and_bounded(red, made):
    page = summary(red)
    row = next(line for line in page.splitlines() if line.startswith("| REGRESSION"))
    assert row.replace("\\|", "").count("|") == 4
    assert "<script" not in page
    assert "@team" not in page
    assert "https://evil" not in page
    cases = [made.case(key=f"s/c[n={n}]", verdict="REGRESSION", reason="r" * 5000) for n in range(3000)]
    assert len(summary(parse(made.document(cases), "r")).encode()) <= MOST_BYTES


def test_escaping_leaves_plain_words_as_they_are():
    assert escape("time: 12.3 us (+23.0 %), limit 10.3 us") == "time: 12.3 us (+23.0 %), limit 10.3 us"
    assert escape("- item") == "\\- item"


def test_outside_a_workflow_nothing_is_written(red, tmp_path):
    assert not in_workflow({})
    assert append_summary(red, {}) is None
    problem = append_summary(red, {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "folder")})
    assert problem is not None
    assert "cannot be written" in problem
