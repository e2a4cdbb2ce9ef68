"""Messages point to the line on which a value of a JSON text stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.places import line_at, line_of

MARK = "the value that is looked for"
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
DOCUMENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)


def places(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(place for step, item in steps for place in places(item, (*before, step)))]


def put(value: Any, place: tuple[str | int, ...]) -> Any:
    if not place:
        return MARK
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:])
    return copy


@given(DOCUMENTS, st.data(), st.sampled_from([None, 0, 1]), st.booleans())
def test_the_line_of_any_value_is_found(document: Any, data: st.DataObject, indent: int | None, ascii: bool) -> None:
    place = data.draw(st.sampled_from(places(document)))
    text = json.dumps(put(document, place), indent=indent, ensure_ascii=ascii)
    assert MARK in text.split("\n")[line_at(text, place) - 1]


@pytest.mark.parametrize(
    ("place", "line"),
    [((), 1), (("a",), 2), (("a", "none"), 2), (("b", 1), 6), (("b", 9), 3), (("b", 1, "x", "y"), 7), (("c",), 1)],
)
def test_what_is_not_there_is_looked_for_around_it(place: tuple[str | int, ...], line: int) -> None:
    text = '{\n"a": {},\n"b": [\n1,\n\n{\n"x": "]}"}]\n}'
    assert line_at(text, place) == line


def test_a_key_that_is_written_with_escapes_is_found_too() -> None:
    assert line_at('{"x": 1,\n"\\u663e": 2}', ("显",)) == 2
    assert line_of('{"x": 1,\n"\\u663e": 2}', "显") == 2
