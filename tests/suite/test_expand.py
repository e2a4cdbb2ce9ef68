"""Defaults under the case, the platform's part over it, one variant for each combination of the matrix."""

from __future__ import annotations

import time

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.suite.declared import Case, Layer, Suite
from pytest_accel.suite.expand import expand
from pytest_accel.suite.types import MetricRule, Tolerance

HEAD = "schema: pytest-accel/suite/1\n"


def test_the_matrix_is_a_product_in_declared_order(suites):
    keys = [variant.key for variant in suites.variants("- {name: a, workload: w, matrix: {z: [1, 2], b: [y, x]}}")]
    assert keys == ["s/a[b=y,z=1]", "s/a[b=x,z=1]", "s/a[b=y,z=2]", "s/a[b=x,z=2]"]


def test_defaults_lie_under_each_case_and_the_platform_over_both(suites):
    suite = suites.load(
        HEAD
        + """
defaults:
  workload: w
  tier: full
  timeout: 5m
  params: {a: 1, b: 1, c: 1, d: 1}
  settings: {threads: 1}
  requires: {memory: 2GiB, devices: 2}
  metrics: {time: {worse_by: 3%, floor: 1, unit: us}, memory: {max: 5}}
  platforms: {cpu: {params: {c: 3, d: 3}, timeout: 10m}}
cases:
  - name: one
    params: {b: 2, c: 2, d: 2}
    requires: {devices: 1}
    metrics: {time: {worse_by: 5%}}
    platforms: {cpu: {params: {d: 4}, metrics: {time: {floor: 2}}}}
  - name: two
    workload: other
    tier: smoke
"""
    )
    one, two = expand(suite, "cpu")
    assert one.params == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert one.metrics["time"] == MetricRule(unit="us", worse_by=Tolerance(0.05, True), floor=2.0)
    assert one.metrics["memory"] == MetricRule(max=5.0)
    assert (one.requires.memory, one.requires.devices) == (2 * 2**30, 1)
    assert (one.tier, one.timeout, one.settings) == ("full", 600.0, {"threads": 1})
    assert (two.workload, two.tier, two.params) == ("other", "smoke", {"a": 1, "b": 1, "c": 3, "d": 3})
    elsewhere = expand(suite, "cuda")[0]
    assert (elsewhere.params, elsewhere.timeout) == ({"a": 1, "b": 2, "c": 2, "d": 2}, 300.0)


def test_a_later_layer_turns_a_parameter_into_an_axis_and_back(suites):
    suite = suites.load(
        HEAD
        + "defaults: {params: {dtype: float32}}\n"
        + "cases:\n- name: a\n  workload: w\n  matrix: {dtype: [float16, bfloat16]}\n"
        + "  platforms: {cpu: {params: {dtype: float32}}}\n"
    )
    assert [variant.params["dtype"] for variant in expand(suite, "cuda")] == ["float16", "bfloat16"]
    assert [variant.params["dtype"] for variant in expand(suite, "cpu")] == ["float32"]


def test_a_parameter_and_a_setting_of_one_name_are_refused_across_layers(suites):
    said = suites.wrong(
        HEAD + "defaults: {settings: {threads: 1}}\ncases:\n- {name: a, workload: w, params: {threads: 1}}\n"
    )
    assert [one.partition(" (")[0] for one in said] == [
        "s.accel.yaml:4: case `a`: `threads` is both a parameter and a setting"
    ]


def test_what_is_wrong_on_another_platform_is_told_here_too(suites):
    said = suites.wrong_cases(
        "- {name: a, workload: w, metrics: {t: {max: 1}}, platforms: {rocm: {metrics: {t: {min: 2}}}}}"
    )
    assert said == ["s.accel.yaml:3: case `a`: metric `t`: min 2 is above max 1 (swap or correct them)"]


def test_inserting_a_case_or_a_value_changes_no_other_key(suites):
    old = "- {name: b, workload: w, matrix: {t: [x, y]}, params: {n: 1}}"
    new = "- {name: a, workload: w}\n- {name: b, workload: w, matrix: {t: [z, x, y]}, params: {n: 1}}"
    before = {variant.key for variant in suites.variants(old)}
    after = {variant.key for variant in suites.variants(new)}
    assert before < after
    assert after - before == {"s/a", "s/b[n=1,t=z]"}


def test_parameters_of_any_length_and_content_keep_their_variants_apart(suites):
    long = "x" * 40_000
    values = [long, long + "y", "a/b", "a\\0b", "\u663e\u5361", "a,b=c", "[1]", 'say \\"hi\\"', ""]
    listed = ", ".join(f'"{value}"' for value in values)
    variants = suites.variants(f"- {{name: a, workload: w, matrix: {{t: [{listed}]}}}}")
    assert len({variant.key for variant in variants}) == len(values)
    assert variants[3].params["t"] == "a\0b"


def test_values_that_differ_in_type_alone_are_different_variants(suites):
    case = "- {name: a, workload: w, matrix: {t: [1, 1.0, '1', true, 'true', null, 'null']}}"
    assert [variant.key for variant in suites.variants(case)] == [
        f"s/a[t={text}]" for text in ("1", "1.0", '"1"', "true", '"true"', "null", '"null"')
    ]


def test_a_value_that_stands_twice_in_an_axis_is_refused_with_both_lines(one_problem):
    said = one_problem("- name: a\n  workload: w\n  matrix:\n    t:\n      - 16\n      - 0x10\n")
    assert said.startswith("s.accel.yaml:8: case `a`: matrix.t: the value `16` stands twice: lines 7 and 8")


def test_two_variants_of_one_key_are_refused_with_both_lines():
    layers = (Layer(workload="w"),)
    suite = Suite("s", "f.yaml", None, (Case("a", 3, layers), Case("a", 9, layers)))
    with pytest.raises(ConfigError, match=r"f\.yaml:9: the key `s/a` stands twice: lines 3 and 9"):
        expand(suite, "cpu")


def test_a_matrix_without_measure_is_refused_before_it_is_built(suites):
    axes = ", ".join(f"p{axis}: [{', '.join(map(str, range(100)))}]" for axis in range(12))
    (said,) = suites.wrong_cases(f"- {{name: a, workload: w, matrix: {{{axes}}}}}")
    assert "more than 100000" in said


def test_five_thousand_variants_of_one_case_take_less_than_a_quarter_second(suites):
    listed = ", ".join(map(str, range(1000)))
    cases = (
        f"- {{name: a, workload: w, params: {{n: 4096, k: 4096}}, matrix: {{m: [{listed}], dtype: [a, b, c, d, e]}}}}"
    )
    suites.variants(cases)  # pydantic's import is once a process

    def seconds() -> float:
        began = time.perf_counter()
        assert len(suites.variants(cases)) == 5000
        return time.perf_counter() - began

    assert min(seconds() for _ in range(3)) < 0.25
