"""Bytes become data with lines, or one message with file, line and a way to mend it; never a traceback."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite import source
from pytest_accel.suite.source import Map, Plain, Seq, line_at, parse_source

CASE = "schema: pytest-accel/suite/1\ncases:\n- {name: a, workload: w, params: {n: 1}}\n"


def parse(text: str | bytes) -> Map:
    return parse_source(text if isinstance(text, bytes) else text.encode(), "f.yaml")


def outcome(text: str | bytes) -> Map | tuple[Problem, ...]:
    try:
        return parse(text)
    except ConfigError as error:
        return error.problems


def problem(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    (only,) = caught.value.problems
    assert only.mend
    return str(only)


def test_plain_scalars_keep_their_raw_text_and_quoted_ones_are_told_apart():
    data = parse("a: 1e-3\nb: '1e-3'\nc: 2.10\nd: on\ne: !!str 8.0\nf: |\n  x\n")
    assert data == {"a": "1e-3", "b": "1e-3", "c": "2.10", "d": "on", "e": "8.0", "f": "x\n"}
    assert [isinstance(value, Plain) for value in data.values()] == [True, False, True, True, False, False]


def test_every_key_and_item_knows_its_line():
    data = parse("a: 1\nb:\n  - x\n  - {c: 1,\n     d: 2}\n")
    assert line_at(data, ("a",)) == 1
    assert line_at(data, ("b",)) == 2
    assert line_at(data, ("b", 0)) == 3
    assert line_at(data, ("b", 1, "d")) == 5
    assert line_at(data, ("b", 1, "absent")) == 4


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", "{a: 1,\nb: 2,\n'a': 3}", '{"a": 1,\n\n"a": 2}'])
def test_a_key_given_twice_is_refused_with_both_lines(text):
    said = problem(text)
    assert said.startswith("f.yaml:3: the key `a` stands twice: lines 1 and 3")


def test_merge_keys_and_anchors_work_and_are_no_duplicates():
    data = parse(
        "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\none:\n  <<: *base\n  b: 5\ntwo:\n  <<: [*more, *base]\n"
    )
    assert data["one"] == {"a": "1", "b": "5"}
    assert data["two"] == {"a": "1", "b": "3", "c": "4"}
    assert line_at(data, ("one", "b")) == 5
    assert line_at(data, ("one", "a")) == 1


def test_a_merge_key_in_quotes_is_an_ordinary_key():
    assert parse("'<<': 1\n") == {"<<": "1"}


def test_two_merge_keys_in_one_map_are_refused():
    assert "the key `<<` stands twice" in problem("a: &a {x: 1}\nb: {<<: *a, <<: *a}\n")


def test_merging_what_is_no_map_is_refused():
    assert problem("a: &a [1]\nb:\n  <<: *a\n").startswith("f.yaml:3: `<<` merges maps")


def test_an_alias_inside_its_own_anchor_or_without_anchor_is_refused():
    assert "stands inside its own anchor" in problem("a: &a\n  - *a\n")
    assert problem("x: 1\na: *b\n").startswith("f.yaml:2: the alias `*b` has no anchor")


def test_a_bomb_of_aliases_ends_at_once():
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    assert "aliases written out make more than" in problem("\n".join(lines))


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000 + "a", "a: " + "[" * 60 + "]" * 60])
def test_nesting_without_measure_is_refused(text):
    assert "nest" in problem(text)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n"])
def test_an_empty_file_is_said_to_be_empty(text):
    assert problem(text).startswith("f.yaml:1: the file is empty")


@pytest.mark.parametrize(
    ("text", "kind"), [("null", "a single value"), ("[]", "a list"), ("- a", "a list"), ("---\n", "a single value")]
)
def test_a_file_that_is_no_map_is_refused(text, kind):
    assert f"the file holds {kind}" in problem(text)


def test_a_second_document_is_refused_at_its_line():
    assert problem("a: 1\n---\nb: 2\n").startswith("f.yaml:2: a second document begins here")


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!mine", "!!float", "!!set", "!!binary"])
def test_tags_are_refused_and_run_nothing(tag):
    assert problem(f"x: 1\na: {tag} y\n").startswith("f.yaml:2: the tag `")


def test_a_map_as_a_key_is_refused():
    assert problem("a: 1\n? [b]\n: c\n").startswith("f.yaml:2: a key that is itself a list")


def test_a_tab_for_indentation_is_named():
    said = problem("a:\n\tb: 1\n")
    assert said.startswith("f.yaml:2: not YAML")
    assert "spaces, not tabs" in said


@pytest.mark.parametrize(
    ("text", "line"), [("a: b: c\n", 1), ("a: 1\nb: [\n", 3), ("a: 1\nb: @x\n", 2), ("a: >=8.0\n", 1), ("a: 'x\n", 2)]
)
def test_what_is_not_yaml_is_told_with_its_line(text, line):
    assert problem(text).startswith(f"f.yaml:{line}: not YAML: ")


def test_a_byte_order_mark_and_windows_line_ends_change_nothing():
    assert parse(b"\xef\xbb\xbf" + CASE.replace("\n", "\r\n").encode()) == parse(CASE)
    assert line_at(parse(CASE.replace("\n", "\r\n")), ("cases", 0)) == 3


@pytest.mark.parametrize(
    ("encoding", "name", "offset"),
    [
        ("utf-16", "UTF-16", 0),
        ("utf-16-le", "UTF-16", 1),
        ("utf-16-be", "UTF-16", 0),
        ("utf-32", "UTF-32", 0),
        ("utf-32-le", "UTF-32", 1),
    ],
)
def test_other_unicode_encodings_are_named_with_an_offset(encoding, name, offset):
    said = problem(CASE.encode(encoding))
    assert name in said
    assert f"at byte {offset}" in said


def test_a_latin_1_byte_is_named_with_its_offset_and_line():
    said = problem(b"\xef\xbb\xbfa: 1\nb: 5 \xb5s\n")
    assert said.startswith("f.yaml:2: the file is not UTF-8: byte 0xB5 at byte 13")
    assert "Latin-1" in said


def test_a_control_character_is_named_with_its_offset_and_line():
    assert problem("a: \u00e9\nb: \x00\n").startswith("f.yaml:2: the character U+0000 at byte 9")


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path):
    for path in (tmp_path / "absent.accel.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            source.read_source(path)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_both_parsers_of_pyyaml_give_the_same_data(loader, monkeypatch):
    monkeypatch.setattr(source, "_LOADER", loader)
    inner = {"b": "1e-3", "c": "on"}
    assert parse("a: &x {b: 1e-3, c: 'on'}\nd: [*x, ~, ]\n") == {"a": inner, "d": [inner, "~"]}
    assert problem("a: [\n").startswith("f.yaml:")
    assert "half a character" in (said := problem('a: "\\ud800"')) or "Unicode" in said
    assert "nest" in problem("a: " + "[" * 60 + "]" * 60)


@given(st.binary(max_size=300))
@example(b"\xff\xfe")
@example(b"\x00\x00\xfe\xff")
@example("a: \ufeff1".encode())
@settings(max_examples=300)
def test_no_bytes_end_in_anything_but_data_or_a_config_error(raw):
    read = outcome(raw)
    assert isinstance(read, Map) or all(problem.path == "f.yaml" and problem.mend for problem in read)


@given(st.text(alphabet="ab:-?[]{},&*!|>'\"%@#<~\n\t 01.\u00e9\ufeff\x85", max_size=60))
@settings(max_examples=500)
def test_no_text_of_yamls_own_characters_ends_in_anything_but_data_or_a_config_error(text):
    for loader in (yaml.SafeLoader, source._LOADER):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source, "_LOADER", loader)
            read = outcome(text)
        assert isinstance(read, Map) or all(problem.mend for problem in read)


# JSON escapes the characters beyond these in pairs, and YAML does not.
BMP = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    BMP, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(BMP, inner, max_size=3), max_leaves=12
)


@given(st.dictionaries(BMP, JSON, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_json_is_read_as_it_is(data):
    read = parse(json.dumps(data))
    assert read == data
    assert all(isinstance(value, (Map, Seq, str)) and not isinstance(value, Plain) for value in read.values())
