"""Which devices a visibility variable names, and what each xdist worker gets of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.stack.choose import visible_for_worker
from pytest_accel.stack.visible import hides_on_purpose, parse_visible, pick

AS_TORCH = {
    "GPU-8932f937-d72c": ["GPU-8932f937-d72c"],
    "MIG-1,MIG-2": ["MIG-1", "MIG-2"],
    "GPU-1,GPU-1": [],
    "GPU-1,0": ["GPU-1"],
    "0,1,-1,2": [0, 1],
    "1,1": [],
    "0, 1": [0, 1],
    "0x1": [0],
    "1gpu2,2ampere": [1, 2],
    "NoDevFiles": [],
    "": [],
    "-1": [],
    "+1,2": [1, 2],
    "0,,2": [0],
}


@pytest.mark.parametrize("text", AS_TORCH)
def test_a_variable_is_read_as_torch_reads_it(text):
    assert parse_visible(text) == AS_TORCH[text]


def test_torch_itself_agrees_with_the_table():
    code = (
        "import os, json, sys\nfrom torch.cuda import _parse_visible_devices\n"
        f"table = {list(AS_TORCH)!r}\nfound = []\n"
        "for text in table:\n    os.environ['CUDA_VISIBLE_DEVICES'] = text\n    found.append(_parse_visible_devices())\n"
        "print(json.dumps(found))"
    )
    import json

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == list(AS_TORCH.values())


@given(st.text(alphabet="0123456789,-+ GPUMIxa", max_size=20))
def test_no_value_is_refused_and_no_device_comes_twice(text):
    found = parse_visible(text)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("text", "hides"), [("", True), ("-1", True), ("NoDevFiles", True), ("none", True), ("7", False), ("GPU-x", False)]
)
def test_hiding_on_purpose_is_told_from_a_wrong_name(text, hides):
    assert hides_on_purpose(text) is hides


def test_devices_are_picked_by_index_and_by_the_start_of_a_uuid():
    uuids = ["GPU-aa1", "GPU-aa2", "GPU-bb3"]
    assert pick(None, uuids) == [0, 1, 2]
    assert pick("2,0", uuids) == [2, 0]
    assert pick("0,9,1", uuids) == [0]
    assert pick("GPU-bb,GPU-aa1", uuids) == [2, 0]
    assert pick("GPU-aa", uuids) == []
    assert pick("GPU-aa1,GPU-aa1x", uuids) == [0]
    assert pick("GPU-bb,GPU-bb3", uuids) == []


def test_workers_stay_inside_the_callers_list():
    assert [visible_for_worker("2,3", 8, worker) for worker in range(4)] == ["2", "3", "2", "3"]
    assert [visible_for_worker("1", 8, worker) for worker in range(8)] == ["1"] * 8
    assert visible_for_worker("GPU-a,GPU-b", 8, 1) == "GPU-b"
    assert [visible_for_worker("", 8, worker) for worker in range(3)] == ["", "", ""]
    assert visible_for_worker("1,1", 8, 0) == ""
    assert visible_for_worker("0,1,-1,2", 8, 2) == "0"


def test_workers_share_all_devices_where_the_caller_narrowed_none():
    assert [visible_for_worker(None, 4, worker) for worker in range(6)] == ["0", "1", "2", "3", "0", "1"]
    assert visible_for_worker(None, 0, 3) is None
