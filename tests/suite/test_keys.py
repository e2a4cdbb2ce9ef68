"""A key says its values without ambiguity, whatever they are, and gives them back."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_accel.suite.keys import make_key, name_problem, short_name, split_key

TEXT = st.text(max_size=12) | st.text(alphabet=string.digits + "eE+-._:,=[]{}\"'\\/ truefalsn", max_size=8)
SCALAR = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
VALUES = st.dictionaries(TEXT.filter(bool), VALUE, max_size=4)
NAME = st.text(min_size=1, max_size=12).filter(lambda name: name_problem(name) is None)


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@given(NAME, NAME, VALUES)
@example("s", "c", {"": "x"})
@example("s", "c", {"a": "\ud800", "b": -0.0, "c": "::", "d": "\\:\\,"})
def test_a_key_gives_back_what_it_was_made_of(suite, case, values):
    key = make_key(suite, case, values)
    back = split_key(key)
    assert back[:2] == (suite, case)
    assert canonical(back[2]) == canonical(values), "types and signs of zero included"


@given(st.tuples(NAME, NAME, VALUES), st.tuples(NAME, NAME, VALUES))
def test_two_keys_are_equal_only_where_all_values_are(one, two):
    same = one[:2] == two[:2] and canonical(one[2]) == canonical(two[2])
    assert (make_key(*one) == make_key(*two)) == same


@given(VALUES)
def test_what_stands_in_brackets_is_printable_ascii_without_node_id_separators(values):
    inside = make_key("s", "c", values)[3:]
    assert inside.isascii()
    assert inside.isprintable() or not inside
    assert "::" not in inside


def test_a_key_is_the_documented_text():
    values = {"n": 4096, "dtype": "float16", "allow_tf32": False, "eps": 1e-3, "k": 1e3}
    assert (
        make_key("throughput", "gemm", values)
        == "throughput/gemm[allow_tf32=false,dtype=float16,eps=0.001,k=1000.0,n=4096]"
    )
    assert make_key("throughput", "gemm", {}) == "throughput/gemm"


def test_values_that_look_alike_are_told_apart():
    values = [True, "true", "True", 1, 1.0, "1", "1.0", None, "null", "", "1e3", 1000.0, 1000]
    values += [[], "[]", [1], ["1"], {}, "{}", {"a": 1}]
    assert len({make_key("s", "c", {"v": value}) for value in values}) == len(values)


def test_text_stands_bare_where_it_is_safe_and_quoted_with_escapes_elsewhere():
    def text(value):
        return make_key("s", "c", {"v": value}).removeprefix("s/c[v=").removesuffix("]")

    assert [text(v) for v in ("float16", "2:4", "meta/llama-3.1", "8.0.1")] == [
        "float16",
        "2:4",
        "meta/llama-3.1",
        "8.0.1",
    ]
    assert [text(v) for v in ("8.0", "695e0514", "nan", "a b")] == ['"8.0"', '"695e0514"', '"nan"', '"a b"']
    assert text("a,b=[c]") == r'"a\u002cb\u003d\u005bc\u005d"'
    assert text("\u663e\0") == r'"\u663e\u0000"'


def test_very_long_values_stay_whole_and_get_a_short_name():
    key = make_key("s", "c", {"v": "x" * 40_000, "w": '\0/\u00e9,["'})
    assert split_key(key)[2]["v"] == "x" * 40_000
    assert len(short_name(key)) == 16
    assert short_name(key) != short_name(key + " ")
    assert set(short_name(key)) <= set("0123456789abcdef")


def test_the_key_of_a_python_test_is_split_at_its_colon():
    assert split_key("py:tests/test_a.py::TestX::test_y[n=1]") == ("py", "tests/test_a.py::TestX::test_y", {"n": 1})


@pytest.mark.parametrize(
    "name", ["", " a", "a/b", "a[b", "a:b", "a,b", "a=b", ".hidden", "-x", "a\nb", "x" * 200, "a\u200b", "\ud800"]
)
def test_a_name_that_would_blur_a_key_or_a_path_is_refused(name):
    assert name_problem(name)
    with pytest.raises(ValueError, match="the name"):
        make_key(name, "c", {})
    with pytest.raises(ValueError, match="the name"):
        make_key("s", name, {})


@pytest.mark.parametrize("name", ["gemm", "gemm_fp16-v2.1", "two words", "\u663e\u5361", "no", "8.0"])
def test_an_ordinary_name_is_taken(name):
    assert name_problem(name) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("nan")], {"a": float("-inf")}])
def test_a_value_that_is_not_finite_has_no_key(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_key("s", "c", {"v": value})


@pytest.mark.parametrize(
    "key",
    ["", "s", "s/", "/c", "s/c[", "s/c[]", "s/c[a]", "s/c[a=1", "s/c[a=1,]", "s/c[a=1,a=2]", "s/c[a=1]x", "s/c[a=1]x]"],
)
def test_text_that_is_no_key_is_refused(key):
    with pytest.raises(ValueError):  # noqa: PT011 - the words differ, and json's own are among them
        split_key(key)


@given(st.text(max_size=30))
def test_splitting_any_text_gives_a_key_or_a_value_error(text):
    try:
        suite, case, _ = split_key("s/c[" + text + "]")
    except ValueError:
        return
    assert (suite, case) == ("s", "c")
