"""Strict JSON in, strict JSON out, whole files only."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.files import decode, dump_json, encode, parse_json, read_text, write_whole

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_json(text, "b.json")
    return str(caught.value)


def same(left: Any, right: Any) -> bool:
    """Equal, with NaN equal to NaN, whatever the order of keys."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000])
def test_a_number_that_is_not_finite_is_refused_with_its_place(number: str) -> None:
    told = complaint('{\n "entries": {\n  "s/gemm": {"sessions": [{"metrics": {"time": ' + number + "}}]}\n }\n}")
    assert "b.json:3" in told
    assert "entries.s/gemm.sessions[0].metrics.time" in told
    assert "finite" in told


def test_a_duplicate_key_is_refused_with_both_lines() -> None:
    told = complaint('{\n "a": 1,\n "b": {"a": 2},\n "a": 3\n}')
    assert "b.json:4" in told
    assert "`a`" in told
    assert "lines 2 and 4" in told


def test_a_duplicate_key_is_found_behind_text_with_brackets_and_quotes() -> None:
    told = complaint('{"x": "}{\\"a\\": [", "a": [1,\n2], "a": 0}')
    assert "lines 1 and 2" in told


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ('{"a": 1}\0', "NUL"),
        ('{"a": 1}{"a": 2}', "two documents"),
        ('{"a": "un', "cut"),
        ('{"a": [1, 2', "cut"),
        ('{\n<<<<<<< HEAD\n "a": 1\n=======\n "a": 2\n>>>>>>> x\n}', "merge conflict"),
        ('{\r\n<<<<<<< HEAD\r\n "a": 1\r\n}', "merge conflict"),
        ("{'a': 1}", "not JSON"),
        ("[" * 100_000, "deep"),
    ],
)
def test_a_broken_file_is_refused_with_path_line_and_next_step(text: str, word: str) -> None:
    told = complaint(text)
    assert told.startswith("b.json:")
    assert word in told
    assert "(" in told


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        value = parse_json(text, "x.json")
    except ConfigError as error:
        value = error
    assert str(value).startswith("x.json") if isinstance(value, ConfigError) else same(value, json.loads(text))


@given(PLAIN, st.integers(1, 200))
def test_text_cut_anywhere_never_raises_anything_but_a_config_error(value: Any, cut: int) -> None:
    text = dump_json([value])
    whole = parse_json(text, "x.json")
    assert same(decode(whole), json.loads(json.dumps([value])))
    told = complaint(text[: max(0, len(text) - 1 - cut)])
    assert told.startswith("b.json")


def test_non_finite_numbers_are_encoded_at_any_depth_and_come_back() -> None:
    data = {"a": [math.inf, {"b": -math.inf}], "c": (1.5,)}
    assert encode(data) == {"a": [{"nonfinite": "inf"}, {"b": {"nonfinite": "-inf"}}], "c": [1.5]}
    assert decode(encode(data)) == {"a": [math.inf, {"b": -math.inf}], "c": [1.5]}
    assert math.isnan(decode(encode(math.nan)))


def test_written_json_is_sorted_strict_and_ends_in_one_newline() -> None:
    text = dump_json({"b": math.nan, "a": "\ud800 lone", "ä": 1})
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    assert text.index('"a"') < text.index('"b"')
    assert json.loads(text)["b"] == {"nonfinite": "nan"}
    text.encode("utf-8")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-32"), "UTF-32"),
        (b'{\n"a": "\xb5"}', "0xB5 at offset 8"),
    ],
)
def test_another_encoding_is_named_with_its_offset(tmp_path: Path, data: bytes, word: str) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=word):
        read_text(path)


def test_a_byte_order_mark_and_crlf_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n"a": 1}\r\n')
    assert parse_json(read_text(path), path) == {"a": 1}


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_text(tmp_path / "absent.json")


def test_a_write_leaves_no_second_file_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ("n" * 250)
    write_whole(path, "one\n")
    path.chmod(0o640)
    write_whole(path, "two\n")
    assert path.read_bytes() == b"two\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_a_killed_writer_left_is_used_up_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    seen: list[str] = []

    def die(source: str, target: str) -> None:
        seen.append(str(source))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write_whole(path, "lost")
    assert not path.exists()
    assert [str(entry) for entry in tmp_path.iterdir()] == seen
    assert Path(seen[0]).name.startswith(".")
    write_whole(path, "kept")
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.json"]


def test_a_link_is_followed_and_a_pipe_written_straight(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    link = tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    write_whole("/dev/null", "gone")
    assert not Path("/dev/null").is_file()


def test_a_place_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_whole(tmp_path / "file" / "b.json", "x")
