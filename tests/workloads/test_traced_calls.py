"""A traced call is made again from its texts, run, and judged: what is right passes, what is not is said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import traced
from pytest_accel.workloads.rebuild import tensor_text

torch = pytest.importorskip("torch")

RIGHT = [
    ("aten.mm.default", ["float32:5x7", "float32:7x3/1x7"]),
    ("aten.addmm.default", ["bfloat16:3", "bfloat16:5x7", "bfloat16:7x3"]),
    ("aten.sub.Tensor", ["float16:6x5", "float16:6x5", {"alpha": 2}]),
    ("aten.embedding.default", ["float32:11x4", "int64:2x3"]),
    ("aten.index.Tensor", ["float32:5x6", ["int64:3", "int64:3"]]),
    ("aten.index.Tensor", ["float32:5x6x2", ["bool:5x6", "int64:1"]]),
    ("aten.index_put_.default", ["float32:5x6", [None, "int64:3"], "float32:5x3"]),
    ("aten.gather.default", ["float32:5x6", 1, "int64:5x2"]),
    ("aten.scatter_add.default", ["float32:5x6", 0, "int64:2x6", "float32:2x6"]),
    ("aten.nll_loss_forward.default", ["float32:9x4", "int64:9", None, 1, -100]),
    ("aten._softmax_backward_data.default", ["float32:4x8", "float32:4x8", 1, "dtype:float32"]),
    ("aten._softmax.default", ["float16:4x8", 1, False]),
    ("aten.log.default", ["float32:20"]),
    ("aten.div.Tensor_mode", ["int64:20", "int64:20", {"rounding_mode": "text:floor"}]),
    ("aten.native_layer_norm_backward.default",
     ["float32:4x8", "float32:4x8", [8], "float32:4x1", "float32:4x1", "float32:8", "float32:8", [True, True, True]]),
    ("aten.add_.Tensor", ["float32:4x5", "float32:4x5/0x1"]),
    ("aten._foreach_mul_.Scalar", [["float32:3", "float32:2x2"], 0.5]),
    ("aten._to_copy.default", ["float32:9", {"dtype": "dtype:float8_e4m3fn"}]),
    ("aten.max_pool2d_with_indices_backward.default",
     ["float32:1x2x2x2", "float32:1x2x4x4", [2, 2], [2, 2], [0, 0], [1, 1], False, "int64:1x2x2x2"]),
    ("aten.masked_fill.Scalar", ["float32:9", "bool:9", "float:-inf"]),
    ("aten.multinomial.default", ["float32:3x9", 2]),
    ("aten._scaled_dot_product_flash_attention_for_cpu.default", [*["bfloat16:1x2x16x8"] * 3, 0.0, True]),
    ("aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     ["float32:1x2x16x8/0x0x0x0", *["float32:1x2x16x8"] * 4, "float32:1x2x16/32x1x2", 0.0, True]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "call"), RIGHT, ids=[f"{i}-{op}" for i, (op, _) in enumerate(RIGHT)])
def test_a_call_is_made_again_and_found_right(measured, op, call):
    found = measured("traced_op", op=op, call=call)
    wanted = "unverified" if "multinomial" in op else "supported"
    assert (found["status"], found["faults"]) == (wanted, 0)


def test_the_same_call_gives_the_same_metrics_twice(measured):
    call = ["float16:16x16", "float16:16x16"]
    assert measured("traced_op", op="aten.mm.default", call=call) == measured(
        "traced_op", op="aten.mm.default", call=call
    )


def test_a_wrong_device_is_found_and_the_call_stands_in_the_notes(measured, accelerator, monkeypatch):
    on = traced.Plan.on

    def off(self, device, wide=None):
        results = on(self, device, wide)
        return results if wide is not None else [results[0] * 1.1, *results[1:]]

    monkeypatch.setattr(traced.Plan, "on", off)
    found = measured("traced_op", op="aten.mm.default", call=["float32:4x4", "float32:4x4"])
    assert (found["status"], found["faults"]) == ("wrong", 1)
    assert accelerator.notes["found"]["call"] == ["float32:4x4", "float32:4x4"]


def test_an_operator_that_this_torch_lacks_is_unsupported(measured, accelerator):
    found = measured("traced_op", op="aten.no_such_operator.default", call=["float32:4"])
    assert (found["status"], found["faults"]) == ("unsupported", 0)
    assert "no_such_operator" in accelerator.notes["found"]["reason"]
    assert measured("traced_op", op="aten.neg.default", call=["float9_odd:4"])["status"] == "unsupported"


def test_a_product_that_is_too_large_for_the_host_is_run_and_said_to_be_unverified(measured, accelerator, monkeypatch):
    monkeypatch.setattr(traced, "MOST_FLOPS", 100)
    found = measured("traced_op", op="aten.mm.default", call=["float32:16x16", "float32:16x16"])
    assert (found["status"], found["faults"]) == ("unverified", 0)
    assert "float64" in accelerator.notes["found"]["reason"]


@pytest.mark.parametrize(
    ("op", "call", "words"),
    [
        ("aten.mm.default", ["float32:4x4", "nonsense"], "says nothing"),
        ("aten.mm.default", ["float32:4x4", "float32:4y4"], "no tensor"),
        ("aten.mm.default", ["float32:4x4/1", "float32:4x4"], "2 sizes and 1 strides"),
        ("aten.mm.default", ["float32:4x4", "float32:4x4", 1, 2], "4 arguments"),
        ("aten.neg.default", ["float32:1000000000"], "more than"),
        ("aten._ctc_loss.default", ["float32:4x1x3", "int64:1x2", [4], [2]], "hang together"),
    ],
)
def test_calls_that_say_nothing_are_refused_in_words(measured, op, call, words):
    with pytest.raises(BadArguments, match=words):
        measured("traced_op", op=op, call=call)


@given(
    st.sampled_from(["float32", "int64", "bool", "float8_e4m3fn"]),
    st.lists(st.integers(0, 5), max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_tensors_text_is_read_back_as_it_was_written(dtype, size, host, strided):
    stride = [step * 2 + 1 for step in range(len(size))] if strided and size else None
    text = f"{dtype}:{'x'.join(map(str, size))}" + (f"/{'x'.join(map(str, stride))}" if stride else "")
    found = tensor_text(text + ("@host" if host else ""))
    assert found is not None
    assert (found.dtype, list(found.size), found.host) == (dtype, size, host)
    assert found.stride == (tuple(stride) if stride else None)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.randoms())
@settings(max_examples=40, deadline=None)
def test_a_tensor_is_made_again_in_its_shape_and_strides(size, random):
    order = list(range(len(size)))
    random.shuffle(order)
    source = torch.zeros(size).permute(order)
    text = f"float32:{'x'.join(map(str, source.shape))}/{'x'.join(map(str, source.stride()))}"
    plan = traced.make("aten.neg.default", [text])
    (tensor,) = traced.placed(plan.args, torch.device("cpu"))
    assert (tensor.shape, tensor.stride()) == (source.shape, source.stride())
