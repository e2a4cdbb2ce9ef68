"""Workloads are found, checked and digested without torch; a user's own are declared by a decorator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.workloads import registry
from pytest_accel.workloads.declare import declaration, workload
from pytest_accel.workloads.types import MetricSpec


def test_looking_up_and_checking_every_built_in_workload_imports_no_torch():
    code = (
        "import sys; from pytest_accel.workloads import registry as r\n"
        "for w in r.WORKLOADS.values(): r.signature_problem(w, {'nonsense': 1}); r.resolve(w.name)\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="did you mean 'gemm'"):
        registry.lookup("gem")
    assert registry.lookup("my_pkg.kernels:run") is None
    with pytest.raises(ConfigError, match="no workload is named"):
        registry.lookup("my_pkg.kernels:")


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("gemm", {"m": 1, "n": 1, "k": 1, "dtype": "float16"}, None),
        ("gemm", {"m": 1, "n": 1, "dtype": "float16"}, "needs the parameter k"),
        ("gemm", {"m": "1", "n": 1, "k": 1, "dtype": "float16"}, "m must be int, not '1'"),
        ("gemm", {"m": True, "n": 1, "k": 1, "dtype": "float16"}, "m must be int, not True"),
        ("gemm", {"m": 1, "n": 1, "k": 1, "dtype": "float16", "transa": True}, "did you mean 'trans_a'"),
        ("rope_table", {"base": 10000}, None),
        ("operator", {}, "needs the parameter op"),
    ],
)
def test_parameters_are_checked_against_the_signature(name, params, words):
    problem = registry.signature_problem(registry.WORKLOADS[name], params)
    assert (problem is None) if words is None else (problem is not None and words in problem)


def example(accel, size: int, dtype: str = "float32", **others):
    return {}


def test_a_digest_holds_the_defaults_and_ignores_the_order_of_arguments():
    plain = registry.digest(example, {"size": 1})
    assert plain == registry.digest(example, {"dtype": "float32", "size": 1})
    assert len(plain) == 16
    assert plain != registry.digest(example, {"size": 2})
    assert plain != registry.digest(example, {"size": 1, "more": 0})
    with pytest.raises(TypeError):
        registry.digest(example, {})


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers() | st.text(max_size=4), max_size=4))
def test_a_digest_is_the_same_for_the_same_arguments_in_any_order(others):
    backwards = dict(reversed(list(others.items())))
    assert registry.digest(example, {"size": 3, **others}) == registry.digest(example, {**backwards, "size": 3})


def test_a_decorated_workload_carries_its_declaration_and_stays_callable():
    @workload(version=3, metrics={"time": {"unit": "us", "kind": "timing", "worse_by": "3%"}, "n": MetricSpec("count")})
    def mine(accel):
        return {"time": 1.0}

    found = declaration(mine)
    assert found is not None
    assert (found.version, found.metrics["time"].kind, found.as_json()["n"]["unit"]) == (3, "timing", "count")
    assert mine(None) == {"time": 1.0}
    assert declaration(example) is None


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"version": 0}, "whole number"),
        ({"version": True}, "whole number"),
        ({"metrics": {"t": {"units": "us"}}}, "unknown field 'units'"),
        ({"metrics": {"t": {"better": "less"}}}, "better is 'less'"),
    ],
)
def test_a_wrong_declaration_is_a_config_error(keywords, words):
    with pytest.raises(ConfigError, match=words):
        workload(**keywords)


def test_a_workload_that_cannot_be_found_says_so():
    with pytest.raises(ImportError):
        registry.resolve("no_such_package_anywhere:run")
    with pytest.raises(AttributeError):
        registry.resolve("json:no_such_function")
    with pytest.raises(TypeError):
        registry.resolve("json:__name__")


def test_every_limit_or_tolerance_of_a_built_in_metric_has_a_source():
    for known in registry.WORKLOADS.values():
        for name, spec in known.metrics.items():
            judged = spec.kind != "info" and (spec.max is not None or spec.equals is not None or spec.worse_by)
            assert spec.source or not judged, f"{known.name}.{name}"
