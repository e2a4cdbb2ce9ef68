"""Vendors' version strings have an order, whatever they look like."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.stack.versions import at_least, compare, key, split

ASCENDING = [
    ["418.87.01", "535.161.08", "550.54.14", "580.95.05", "580.159.04", "595.80", "610.57.04"],
    ["2.9.1", "2.10.0", "2.10.0+cu128", "2.10.0+cu130", "2.11.0"],
    ["2.7.0.dev20250310+rocm6.3", "2.7.0a0+gitabc", "2.7.0rc1", "2.7.0", "2.7.0.post1", "2.7.1"],
    ["8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1.alpha001", "8.2.RC1", "8.2.RC2", "8.2.0", "8.3.RC1"],
    ["8.5.0", "9.0.0-beta.1", "9.0.0.beta2", "9.0.0"],
    ["8.0.T5", "8.0.T63", "8.0.RC1", "8.0.0"],
    ["24.1.rc2.2", "24.1.rc3", "24.1.rc3.7", "24.1.0", "25.0.rc1.1", "25.5.2", "26.1.0"],
    ["6.4.0", "6.4.0-47", "6.4.43482-0f2d60242", "7.1.1", "7.2.4", "7.13.0", "10.1"],
    ["2.0.0", "2.0.0.nv23.05", "2.0.1"],
    ["515.65.01", "515.65.01-1ubuntu", "515.65.02"],
]  # fmt: skip


@pytest.mark.parametrize("versions", ASCENDING, ids=lambda versions: versions[0])
def test_each_is_newer_than_the_one_before(versions):
    for older, newer in pairwise(versions):
        assert compare(older, newer) == -1, (older, newer)
        assert compare(newer, older) == 1
    assert sorted(set(versions), key=cmp_to_key(compare)) == versions


def test_trailing_zeros_and_padding_do_not_make_a_version_newer():
    assert compare("2.1", "2.1.0") == 0
    assert compare("418.87.01", "418.87.1") == 0


def test_a_release_of_another_build_is_no_pre_release():
    assert compare("2.5.0+rocm5.7.git123", "2.5.0") == 1
    assert at_least("2.5.0+rocm5.7.git123", "2.5.0")
    assert not at_least("2.6.0a0+ecf3bae40a.nv25.01", "2.6.0")


def test_numbers_and_rest_are_kept_apart():
    assert split("418.87.01") == ((418, 87, 1), "")
    assert split("515.65.01-1ubuntu") == ((515, 65, 1), "-1ubuntu")
    assert split("in-tree") == ((), "in-tree")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_string_is_refused_and_the_order_is_whole(a, b, c):
    assert compare(a, b) == -compare(b, a)
    assert compare(a, a) == 0
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4), st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_plain_versions_follow_their_numbers(one, other):
    def strip(numbers):
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers = numbers[:-1]
        return numbers

    want = (strip(one) > strip(other)) - (strip(one) < strip(other))
    assert compare(".".join(map(str, one)), ".".join(map(str, other))) == want
    assert key(".".join(map(str, one)))
