"""One run with every verdict gives the same counts wherever it is shown."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

from sqlalchemy import create_engine, text

from pytest_accel.report.markdown import summary
from pytest_accel.report.page.build import render
from pytest_accel.report.results import read
from pytest_accel.verdict.types import Verdict


def expected(shown):
    return dict(Counter(case["verdict"] for case in shown.results["cases"]))


def test_the_run_holds_every_verdict_and_fails_for_its_regressions(shown):
    assert set(expected(shown)) == {verdict.value for verdict in Verdict}
    assert shown.exit_code == 1
    assert shown.results["summary"]["verdicts"] == expected(shown)


def test_the_terminal_says_the_same_counts(shown):
    line = next(line for line in shown.terminal.splitlines() if re.match(r"\d+ REGRESSION, ", line))
    assert {name: int(count) for count, name in (part.split() for part in line.split(", "))} == expected(shown)


def test_junit_carries_the_same_verdicts_keys_and_metrics(shown):
    root = ElementTree.parse(shown.path / "junit.xml").getroot()
    found = [
        {p.get("name"): p.get("value") for p in case.iterfind("properties/property")} for case in root.iter("testcase")
    ]
    assert dict(Counter(each["accel_verdict"] for each in found)) == expected(shown)
    assert {each["accel_key"] for each in found} == {case["key"] for case in shown.results["cases"]}
    worse = next(each for each in found if each["accel_key"] == "s/worse[name=e]")
    assert worse["accel_metric_v"] == "20"


def test_allure_has_one_result_a_variant_with_the_verdict_as_a_tag_and_a_stable_history_id(shown):
    found = [json.loads(path.read_text()) for path in (shown.path / "allure").glob("*-result.json")]
    tags = [{label["value"] for label in each["labels"] if label["name"] == "tag"} for each in found]
    names = {verdict.value for verdict in Verdict}
    assert dict(Counter(next(iter(tag & names)) for tag in tags)) == expected(shown)
    assert len({each["historyId"] for each in found}) == len(found)
    by_name = {each["name"]: each for each in found}
    assert by_name["s/worse[name=e]"]["status"] == "failed"
    assert by_name["s/unfit[name=g]"]["status"] == "broken"
    assert by_name["s/waived[name=j]"]["status"] == "skipped"
    assert by_name["s/better[name=d]"]["status"] == "passed"
    attached = by_name["s/worse[name=e]"]["attachments"][0]
    assert json.loads((shown.path / "allure" / attached["source"]).read_text())["v"]["value"] == 20
    assert "versions.torch" in (shown.path / "allure" / "environment.properties").read_text()
    categories = json.loads((shown.path / "allure" / "categories.json").read_text())
    failed = [each for each in found if each["status"] != "passed"]
    for each in failed:
        fitting = [c for c in categories if re.match(c["messageRegex"], each["statusDetails"]["message"])]
        assert len(fitting) == 1, each
        assert each["status"] in fitting[0]["matchedStatuses"]


def test_markdown_and_the_job_summary_say_the_same_counts(shown):
    for page in (summary(read(shown.path / "results.json")), (shown.path / "summary.md").read_text()):
        line = next(line for line in page.splitlines() if line.startswith("**"))
        found = re.findall(r"\*\*(\d+)\*\* (\w+)", line)
        assert {name: int(count) for count, name in found} == expected(shown)


def test_html_says_the_same_counts_in_its_chips_and_in_its_table(shown):
    page = render(read(shown.path / "results.json"))
    chips = re.findall(r'data-only="(\w+)">(\d+) ', page)
    assert {name: int(count) for name, count in chips} == expected(shown)
    assert dict(Counter(re.findall(r'<tr data-number="\d+" data-verdict="(\w+)"', page))) == expected(shown)


def test_the_history_holds_the_same_verdicts(shown):
    engine = create_engine(f"sqlite:///{shown.path / 'history.sqlite'}")
    with engine.connect() as connection:
        rows = connection.execute(text("select distinct key, verdict from accel_values")).all()
    engine.dispose()
    assert dict(Counter(verdict for _, verdict in rows)) == expected(shown)


def test_annotations_name_the_suite_file_and_stand_alone_on_their_lines(shown):
    commands = [line for line in shown.terminal.splitlines() if line.startswith("::")]
    bad = sum(count for name, count in expected(shown).items() if name not in ("PASS", "IMPROVED", "WAIVED"))
    assert len(commands) == min(bad, 10)
    assert all(re.fullmatch(r"::(error|warning) file=s\.accel\.yaml,title=[^:]+::.+", line) for line in commands)


def test_the_results_file_is_valid_and_the_page_names_what_got_worse(shown):
    page = render(read(shown.path / "results.json"))
    assert "It may not go live" in page
    assert "s/worse[name=e]" in page
    assert "2 variants got worse" in page
