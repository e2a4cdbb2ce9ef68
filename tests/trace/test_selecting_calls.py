"""What a program called becomes calls of a suite: equal ones once, at most so many, and nothing left out in silence."""

from __future__ import annotations

import json

import yaml

from pytest_accel.trace import select, write


def recorded(folder, records, counts=None, more=None, name="1"):
    lines = [json.dumps({"why": "", "view": False, **record}) for record in records]
    if counts is not None:
        lines.append(json.dumps({"counts": counts, "more": more or {}}))
    folder.joinpath(f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def test_equal_calls_of_several_processes_are_one_and_real_numbers_do_not_tell_calls_apart(tmp_path):
    mul = {"op": "aten.mul.Tensor", "call": ["float32:3@cpu", 0.5]}
    recorded(tmp_path, [mul], [4], name="1")
    recorded(
        tmp_path, [{**mul, "call": ["float32:3@cpu", 0.25]}, {**mul, "call": ["float32:4@cpu", 1]}], [2, 1], name="2"
    )
    seen = select.read(tmp_path)
    assert [(call.arguments, call.count) for call in seen.calls] == [(["float32:3", 0.5], 6), (["float32:4", 1], 1)]
    assert (seen.total, seen.processes) == (7, 2)


def test_a_process_that_was_killed_has_said_what_it_called_until_then(tmp_path):
    recorded(tmp_path, [{"op": "aten.neg.default", "call": ["float32:3@cpu"]}])
    with tmp_path.joinpath("1.jsonl").open("a") as file:
        file.write('{"op": "aten.ab')
    seen = select.read(tmp_path)
    assert [(call.op, call.count) for call in seen.calls] == [("aten.neg.default", 1)]


def test_a_program_on_a_device_keeps_its_host_tensors_there_and_leaves_the_hosts_own_work_out(tmp_path):
    recorded(
        tmp_path,
        [
            {"op": "aten.mul.Tensor", "call": ["float16:3@xyz", "float32:@cpu"]},
            {"op": "aten.mul.Tensor", "call": ["float32:3@cpu", "float32:3@cpu"]},
            {"op": "aten._to_copy.default", "call": ["float16:3@xyz", {"device": "device:cpu", "pin_memory": False}]},
            {"op": "aten.ones.default", "call": [[3], {"device": "device:xyz", "pin_memory": False}]},
            {"op": "aten.neg.default", "call": ["float32:3@meta"]},
        ],
        [1, 2, 3, 4, 5],
    )
    seen = select.read(tmp_path)
    assert [call.arguments for call in seen.calls] == [
        ["float16:3", "float32:@host"],
        ["float16:3", {"device": "device:host"}],
        [[3], {"device": "device:accel"}],
    ]
    assert dict(seen.left_out) == {
        ("aten.mul.Tensor", "it ran on the host, beside the device"): 2,
        ("aten.neg.default", "a tensor is on no device (meta)"): 5,
    }


def test_every_operator_keeps_its_most_frequent_call_before_any_keeps_a_second(tmp_path):
    records = [{"op": "aten.mm.default", "call": [f"float32:{n}x{n}@cpu", f"float32:{n}x{n}@cpu"]} for n in range(1, 6)]
    recorded(tmp_path, [*records, {"op": "aten.neg.default", "call": ["float32:1@cpu"]}], [9, 8, 7, 6, 5, 1])
    seen = select.read(tmp_path)
    chosen = select.choose(seen, 3)
    assert [(call.op, call.count) for call in chosen] == [
        ("aten.mm.default", 9),
        ("aten.mm.default", 8),
        ("aten.neg.default", 1),
    ]
    assert dict(seen.left_out) == {("aten.mm.default", "beyond the limit of 3 calls"): 18}


def test_what_cannot_stand_in_a_suite_is_named_in_it_with_the_reason(tmp_path):
    recorded(
        tmp_path,
        [
            {"op": "aten.mm.default", "call": None, "why": "a tensor is sparse_coo"},
            {"op": "aten.view.default", "call": ["float32:4@cpu", [2, 2]], "view": True},
            {"op": "mine.kernel.default", "call": ["float32:4@cpu"]},
            {"op": "aten.neg.default", "call": ["float32:4@cpu"]},
        ],
        [1, 2, 3, 4],
        more={"aten.add.Tensor": 7},
    )
    seen = select.read(tmp_path)
    text = write.suite_text(select.choose(seen, 10), seen, "python x.py", "failed with exit code 3")
    for words in (
        "a tensor is sparse_coo: aten.mm.default (1)",
        "a view: no work on the device: aten.view.default (2)",
        "mine.kernel.default (3)",
        "too many different calls of it to keep: aten.add.Tensor (7)",
        "It failed with exit code 3",
        "17 calls in 1 process(es)",
    ):
        assert words in text
    suite = yaml.safe_load(text)
    assert suite["cases"] == [
        {"name": "aten.neg.default", "params": {"op": "aten.neg.default"}, "matrix": {"call": [["float32:4"]]}}
    ]
