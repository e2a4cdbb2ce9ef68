"""Cases whose variants a function names."""

from __future__ import annotations

import sys
import textwrap

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.suite.expand import expand
from pytest_accel.suite.load import load_suite

PLATFORMS = ("cuda", "cpu")


@pytest.fixture
def suite(tmp_path, monkeypatch, request):
    """Write a module with a function ``variants`` and a suite that names it; returns its variants and what is gone."""
    name = f"given_{abs(hash(request.node.nodeid))}"
    monkeypatch.syspath_prepend(tmp_path)

    def make(body, case="", function="variants"):
        (tmp_path / f"{name}.py").write_text("from pytest_accel.suite.types import Generated\n" + textwrap.dedent(body))
        sys.modules.pop(name, None)
        path = tmp_path / "s.accel.yaml"
        path.write_text(
            "schema: pytest-accel/suite/1\ncases:\n"
            f"- name: all\n  workload: w:w\n  params_from: {name}:{function}\n{textwrap.indent(case, '  ')}"
        )
        gone: dict[str, str] = {}
        return expand(load_suite(path, platforms=PLATFORMS), "cpu", gone), gone

    return make


def test_each_map_is_a_variant_with_an_ordinary_key_and_a_matrix_multiplies_them(suite):
    variants, gone = suite(
        "def variants(): return [{'op': 'add', 'dtype': 'float16'}, {'op': 'mm', 'dtype': 'float32'}]",
        case="matrix: {seed: [0, 1]}\n",
    )
    assert [variant.key for variant in variants] == [
        "s/all[dtype=float16,op=add,seed=0]",
        "s/all[dtype=float16,op=add,seed=1]",
        "s/all[dtype=float32,op=mm,seed=0]",
        "s/all[dtype=float32,op=mm,seed=1]",
    ]
    assert variants[0].params == {"op": "add", "dtype": "float16", "seed": 0}
    assert gone == {}


def test_variants_that_there_once_were_are_told_with_their_reason(suite):
    variants, gone = suite(
        "def variants(): return Generated([{'op': 'add'}], [({'op': 'ger'}, 'removed in torch 2.20')])"
    )
    assert [variant.key for variant in variants] == ["s/all[op=add]"]
    assert gone == {"s/all[op=ger]": "removed in torch 2.20"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def variants(): return []", "names no variant"),
        ("def variants(): return 'add'", "returned str, not a list of maps"),
        ("def variants(): return [1]", "something else than maps"),
        ("def variants(): return [{'op': object()}]", "no JSON"),
        ("def variants(): raise ValueError('no list here')", "failed: ValueError: no list here"),
        ("def other(): return [{'op': 'add'}]", "cannot be imported"),
        ("import absent_module_of_nobody", "cannot be imported"),
        ("def variants(): return [{'seed': 1}]", "gives `seed`, which the case sets too"),
    ],
)
def test_a_function_that_gives_no_variants_is_a_configuration_error_at_its_case(suite, body, words):
    with pytest.raises(ConfigError) as caught:
        suite(body, case="params: {seed: 0}\n")
    text = str(caught.value)
    assert words in text
    assert "s.accel.yaml:3" in text
    assert "case `all`" in text


def test_a_name_that_is_no_function_is_refused_when_the_file_is_read(suite):
    with pytest.raises(ConfigError, match="names no function"):
        suite("", function="not a name")
