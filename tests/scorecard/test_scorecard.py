"""Choosing a platform: every figure has a source, nothing unknown is filled in, constraints come before weights."""

from __future__ import annotations

import json

import pytest

from pytest_accel.cli import main
from pytest_accel.scorecard.compute import score
from pytest_accel.scorecard.types import read

COSTS = """
      device_price: 1000
      devices: 4
      device_power_watts: 500
      load: 1.0
      pue: 1.0
      electricity_per_kwh: 0.1
"""


@pytest.fixture
def card(tmp_path):
    """Writes two results files and a card over them; returns its path."""

    def write(body="", first=(10.0, 20.0), second=(20.0, 40.0), statuses=("supported", "unsupported"), extra=""):
        for name, times in (("a", first), ("b", second)):
            cases = [
                {
                    "key": f"throughput/t[n={n}]",
                    "suite": "throughput",
                    "case": "t",
                    "verdict": "PASS",
                    "metrics": {"time": {"value": t}},
                }
                for n, t in enumerate(times)
            ]
            cases += [
                {
                    "key": f"operators/o[op=x{n}]",
                    "suite": "operators",
                    "case": "o",
                    "verdict": "PASS",
                    "params": {"op": f"x{n}", "dtype": "float16"},
                    "metrics": {"status": {"value": status if name == "b" else "supported"}},
                }
                for n, status in enumerate(statuses)
            ]
            data = {
                "schema": "pytest-accel/results/1",
                "run": {"exit_code": 0},
                "stack": {"hardware": {"name": f"chip {name}"}},
                "cases": cases,
            }
            (tmp_path / f"{name}.json").write_text(json.dumps(data))
        path = tmp_path / "card.yaml"
        path.write_text(
            "schema: pytest-accel/scorecard/1\n"
            f"{body}"
            "platforms:\n"
            f"  a:\n    results: [a.json]\n    compliance: 0.5\n    costs:{COSTS}"
            f"  b:\n    results: [b.json]\n    compliance: 1.0\n    costs:{COSTS}{extra}"
        )
        return path

    return write


def computed(path):
    found, source = read(path)
    return score(found, source, path)


def test_performance_is_the_geometric_mean_over_common_timings(card):
    scored = computed(card(second=(20.0, 10.0)))
    by_name = {column.name: column for column in scored.columns}
    assert by_name["b"].figures["performance"].value == pytest.approx((10 / 20 * 20 / 10) ** 0.5)
    assert scored.shared == 2


def test_the_default_weights_give_the_total_that_one_computes_by_hand(card):
    by_name = {column.name: column for column in computed(card()).columns}
    assert by_name["a"].total == pytest.approx(0.30 * 100 + 0.30 * 100 + 0.25 * 100 + 0.15 * 50)
    assert by_name["b"].total == pytest.approx(0.30 * 50 + 0.30 * 50 + 0.25 * 100 + 0.15 * 100)


def test_a_preset_and_weights_of_ones_own_change_the_total(card):
    assert computed(card("preset: compliance-first\n")).weights["compliance"] == 40
    own = "weights: {performance: 100, compatibility: 0, cost: 0, compliance: 0}\n"
    by_name = {column.name: column for column in computed(card(own)).columns}
    assert by_name["b"].total == pytest.approx(50)


def test_a_constraint_takes_a_platform_out_before_any_weight(card):
    scored = computed(card("constraints: [{figure: operators, min: 0.9}]\n"))
    by_name = {column.name: column for column in scored.columns}
    assert by_name["b"].total is None
    assert "operators is 0.5 and must be at least 0.9" in by_name["b"].broken[0]
    assert by_name["a"].total is not None


def test_what_is_not_known_is_not_filled_in_and_meets_no_constraint(card):
    scored = computed(card("constraints: [{figure: models, min: 0.1}]\n"))
    assert all(column.total is None for column in scored.columns)
    assert "is not known" in scored.columns[0].broken[0]


def test_the_cost_table_prints_its_formula_and_adds_up(card):
    column = computed(card()).columns[0]
    electricity = next(line for line in column.costs if line.what == "electricity")
    assert electricity.value == pytest.approx(4 * 0.5 * 8766 * 3 * 0.1)
    assert "500 W" in electricity.formula
    assert column.figures["total_cost"].value == pytest.approx(sum(line.value for line in column.costs))


def test_a_total_that_does_not_follow_from_its_inputs_is_refused_with_its_line(card, capsys):
    path = card(extra="      claimed_total: 99\n")
    assert main(["scorecard", str(path)]) == 4
    said = capsys.readouterr().err
    lines = path.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "claimed_total" in text)
    assert f"card.yaml:{line}:" in said
    assert "does not follow from its own inputs" in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("weights: {performance: 50}\n", "sum to 120, not 100"),
        ("reference: zzz\n", "`zzz` is no platform"),
        ("wieghts: {}\n", "wieghts"),
        ("years: -1\n", "greater than 0"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(card, capsys, body, says):
    assert main(["scorecard", str(card(body))]) == 4
    said = capsys.readouterr().err
    assert "card.yaml:2:" in said
    assert says in said


def test_published_figures_stand_apart_by_protocol_and_enter_no_score(card, capsys):
    plain = computed(card())
    path = card("published: true\n")
    assert [column.total for column in computed(path).columns] == [column.total for column in plain.columns]
    assert main(["scorecard", str(path)]) == 0
    said = capsys.readouterr().out
    assert "Published, not measured" in said
    assert said.index("Field report 1") < said.index("Field report 2")
    tables = [block for block in said.split("\n\n") if block.startswith("|") and "H100" in block]
    assert all("| a |" not in block for block in tables)
