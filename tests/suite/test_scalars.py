"""A scalar means what the field wants; where two readers of YAML would differ, it is refused."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.suite import scalars, units
from pytest_accel.suite.source import Plain
from pytest_accel.suite.types import Tolerance


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1e3),
        ("1.0e3", 1e3),
        ("1e-05", 1e-05),
        ("-1e-3", -0.001),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("017", 17.0),
    ],
)
@pytest.mark.parametrize("kind", [Plain, str])
def test_a_number_is_read_in_every_usual_form(raw, value, kind):
    assert scalars.number(kind(raw)) == value


@pytest.mark.parametrize(
    "raw", ["695e0514", "1e999", "nan", ".inf", "1_000", "2:4", "0x10", "", "1e", "true", "1,5", "\u0661"]
)
def test_what_is_no_finite_number_is_refused_as_one(raw):
    with pytest.raises(ConfigError):
        scalars.number(Plain(raw))


@pytest.mark.parametrize("raw", ["695e0514", "8.0", "2.10", "2:4", "1e-3", "017", "2027-01-31", "y", "n", ".inf"])
def test_text_stays_as_it_stands_in_the_file(raw):
    assert scalars.text(Plain(raw)) == raw
    assert type(scalars.text(Plain(raw))) is str


@pytest.mark.parametrize("raw", ["true", "False", "on", "OFF", "Yes", "no", "NO", "null", "~", ""])
def test_plain_truth_values_and_null_are_no_text_until_quoted(raw):
    with pytest.raises(ConfigError, match="quote it"):
        scalars.text(Plain(raw))
    assert scalars.text(raw) == raw


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("1.0e3", 1000.0),
        ("8.0", 8.0),
        ("10000.0", 10000.0),
        (".5", 0.5),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("float16", "float16"),
        ("695e0514", "695e0514"),
        ("1e-999", "1e-999"),
        ("2:4", "2:4"),
        ("190:20:30", "190:20:30"),
        ("2.9.1", "2.9.1"),
        ("2027-01-31", "2027-01-31"),
        ("y", "y"),
        ("N", "N"),
        ("-", "-"),
        ("=", "="),
    ],
)
def test_a_free_value_is_read_rightly(raw, value):
    read = scalars.free(Plain(raw))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("raw", ["on", "Off", "yes", "NO", "tRue", "nULL"])
def test_a_free_value_that_is_a_boolean_to_some_is_refused(raw):
    with pytest.raises(ConfigError, match="quote it"):
        scalars.free(Plain(raw))
    assert scalars.free(raw) == raw


@pytest.mark.parametrize("raw", [".nan", ".NaN", "nan", ".inf", "-.inf", "+.INF", "inf", "-inf", "Infinity"])
def test_a_free_value_is_finite(raw):
    with pytest.raises(ConfigError, match="not a finite number"):
        scalars.free(Plain(raw))
    assert scalars.free(raw) == raw


@pytest.mark.parametrize(
    "raw", ["017", "00", "0123.5", "0695e051", "1_000", "0b101", "1_0.5", "2.10", "1.00", "-0.50", "0x_1"]
)
def test_a_free_value_that_readers_differ_on_is_refused(raw):
    with pytest.raises(ConfigError, match="quote it"):
        scalars.free(Plain(raw))
    assert scalars.free(raw) == raw


def test_a_version_with_a_last_zero_is_no_float():
    with pytest.raises(ConfigError, match=r"write 2\.1, or quote it"):
        scalars.free(Plain("2.10"))


def test_digits_without_measure_are_refused():
    with pytest.raises(ConfigError, match="5000 digits"):
        scalars.free(Plain("9" * 5000))


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
def test_every_finite_float_that_python_prints_is_read_back(value):
    assert scalars.free(Plain(repr(value))) == value
    assert scalars.number(Plain(repr(value))) == value


@given(st.text(max_size=20))
def test_any_plain_text_is_read_or_refused_with_a_way_to_mend_it(raw):
    for read in READERS:
        value = outcome(read, raw)
        if isinstance(value, ConfigError):
            assert value.problems[0].mend
        else:
            assert not isinstance(value, float) or math.isfinite(value)


READERS = (
    scalars.free,
    scalars.number,
    scalars.text,
    scalars.whole,
    scalars.boolean,
    units.size_in_bytes,
    units.seconds,
    units.tolerance,
    units.date,
    units.capability_clauses,
)


def outcome(read, raw):
    try:
        return read(Plain(raw))
    except ConfigError as error:
        return error


@pytest.mark.parametrize(
    ("raw", "size"),
    [("2GiB", 2**31), ("512MiB", 2**29), ("8GB", 8 * 10**9), ("1.5 GiB", 3 * 2**29), ("64kB", 64000), (2**31, 2**31)],
)
def test_sizes_are_bytes(raw, size):
    assert units.size_in_bytes(raw) == size


@pytest.mark.parametrize("raw", ["2", "2gb", "2G", "-1GiB", "GiB", "0GiB", "1e30GB", 0, -1, True, None, "nan", "1 2"])
def test_what_is_no_size_is_refused(raw):
    with pytest.raises(ConfigError, match="2GiB"):
        units.size_in_bytes(raw)


@pytest.mark.parametrize(
    ("raw", "value"), [("60s", 60.0), ("5m", 300.0), ("500ms", 0.5), ("1h", 3600.0), ("30", 30.0), ("1.5s", 1.5)]
)
def test_durations_are_seconds(raw, value):
    assert units.seconds(Plain(raw)) == value


@pytest.mark.parametrize("raw", ["0", "0s", "-5s", "1:30", "5min", "1e9h", "inf", "", "s"])
def test_what_is_no_duration_is_refused(raw):
    with pytest.raises(ConfigError, match="60s"):
        units.seconds(Plain(raw))


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("3%", Tolerance(0.03, True)),
        ("50 %", Tolerance(0.5, True)),
        ("1e-3", Tolerance(0.001, False)),
        ("0", Tolerance(0, False)),
    ],
)
def test_a_tolerance_is_a_share_or_an_amount(raw, value):
    assert units.tolerance(Plain(raw)) == value


@pytest.mark.parametrize("raw", ["-3%", "3%%", "%", "abc", "3 percent", "inf%", "1e999"])
def test_what_is_no_tolerance_is_refused(raw):
    with pytest.raises(ConfigError):
        units.tolerance(Plain(raw))


def test_a_date_is_a_day_of_the_calendar():
    assert units.date(Plain("2027-01-31")) == datetime.date(2027, 1, 31)
    for raw in ("2027-02-30", "2027-1-31", "31.01.2027", "20270131", "2027-01-31T00:00"):
        with pytest.raises(ConfigError, match="2027-01-31"):
            units.date(Plain(raw))
