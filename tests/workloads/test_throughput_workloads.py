"""Timed workloads return raw samples, show that their result is right, and refuse what they cannot do."""

from __future__ import annotations

import statistics

import pytest

from pytest_accel.measure.types import BadArguments, Unfit, Unmeasured
from pytest_accel.stack.types import Roof
from pytest_accel.workloads import throughput_moves
from pytest_accel.workloads.registry import WORKLOADS

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _alone():
    """One thread: beside other tests on few cores the threads of small operators spend their time waiting for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CONV = {"batch": 1, "channels": 2, "out_channels": 2, "size": [8, 8], "kernel": 3}
DECODER = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 61}
CASES = [
    ("gemm", {"m": 64, "n": 48, "k": 32, "trans_b": True}),
    ("attention", {"batch": 1, "heads": 4, "kv_heads": 2, "seq_q": 48, "seq_kv": 48, "head_dim": 16, "causal": True}),
    ("attention", {"batch": 1, "heads": 2, "seq_q": 1, "seq_kv": 64, "head_dim": 16}),
    ("rms_norm", {"rows": 32, "hidden": 64}),
    ("layer_norm", {"rows": 32, "hidden": 64}),
    ("softmax", {"rows": 32, "hidden": 64}),
    ("rotary", {"batch": 1, "heads": 2, "seq": 24, "head_dim": 16}),
    ("cross_entropy", {"rows": 16, "vocab": 50}),
    ("embedding", {"tokens": 16, "vocab": 50, "hidden": 8}),
    ("sort", {"rows": 3, "length": 100}),
    ("topk", {"rows": 3, "length": 100, "k": 5}),
    ("random_fill", {"count": 5000, "kind": "uniform"}),
    ("conv", {"batch": 2, "channels": 4, "out_channels": 8, "size": [12, 20], "kernel": 3, "dilation": 2, "groups": 2}),
    (
        "conv",
        {"batch": 1, "channels": 4, "out_channels": 4, "size": [9, 9], "kernel": 3, "stride": 2, "channels_last": True},
    ),
    ("conv", {"batch": 1, "channels": 2, "out_channels": 4, "size": [9, 10, 11], "kernel": 3, "channels_last": True}),
    ("decoder_prefill", {"batch": 2, "prompt": 12, **DECODER}),
    ("decoder_decode", {"batch": 2, "context": 12, **DECODER}),
    ("lora_step", {"batch": 1, "length": 8, "rank": 2, **DECODER}),
]
RATIOS = [
    ("gemm_float8", {"m": 32, "n": 32, "k": 32}),
    ("gemm_int8", {"m": 32, "n": 32, "k": 32}),
    *(
        ("attention_ratio", {"heads": 4, "kv_heads": 2, "head_dim": 16, "versus": versus, "dtype": "float32"})
        for versus in ("math", "mha", "half_dim")
    ),
    *(
        ("fused", {"op": op, "rows": 16, "hidden": 32, "dtype": "float32"})
        for op in ("rms_norm", "layer_norm", "softmax")
    ),
    ("copy_pageable", {"megabytes": 1, "kind": "h2d"}),
    *(("optimizer_step", {"tensors": 2, "elements": 64, "form": form}) for form in ("foreach", "fused")),
    *(("training_step", {"batch": 1, "length": 8, "amp": amp, **DECODER}) for amp in ("bfloat16", "float16")),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_timed_workload_is_right_and_gives_its_samples(measured, name, params, dtype):
    found = measured(name, dtype=dtype, min_time=0.0, **params)
    assert found["correct"] == "yes"
    assert len(found["time"]) >= 15
    assert all(sample > 0 for sample in found["time"])
    assert found["cold"] > 0
    assert found["kernels"].startswith("aten::")
    assert "host_us" not in found  # the host is the device here
    assert set(found) <= set(WORKLOADS[name].metrics)
    assert "roof_share" not in found
    assert ("times_float32" in found) == (name == "gemm" and dtype != "float32")


@pytest.mark.parametrize(("name", "params"), RATIOS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_ratio_of_two_times_of_one_session_stands_beside_the_time(measured, name, params):
    shape = {"batch": 1, "seq_q": 32, "seq_kv": 32} if name == "attention_ratio" else {}
    found = measured(name, min_time=0.0, **shape, **params)
    assert found["correct"] == "yes"
    assert found["ratio"] > 0
    assert set(found) <= set(WORKLOADS[name].metrics)


def test_a_time_to_the_first_token_and_rates_of_tokens_are_given(measured):
    prefill = measured("decoder_prefill", batch=1, prompt=16, dtype="float32", min_time=0.0, **DECODER)
    assert prefill["tokens_per_s"] == pytest.approx(16 / prefill["ttft"] * 1e3)
    decode = measured("decoder_decode", batch=4, context=16, dtype="float32", min_time=0.0, **DECODER)
    assert decode["tokens_per_s"] > 0
    plain = measured("training_step", batch=1, length=8, min_time=0.0, **DECODER)
    assert plain["tokens_per_s"] == pytest.approx(8 / statistics.median(plain["time"]) * 1e6)
    assert "ratio" not in plain


def test_a_decode_step_as_a_graph_is_refused_without_graphs_and_over_the_eager_step_with_them(measured, fake_platform):
    params = {"batch": 1, "context": 8, "dtype": "float32", "graph": True, "min_time": 0.0, **DECODER}
    with pytest.raises(BadArguments, match="has no graphs"):
        measured("decoder_decode", **params)
    fake_platform.graphs = True
    found = measured("decoder_decode", **params)
    assert found["correct"] == "yes"
    assert found["ratio"] > 0


def test_a_launch_is_counted_and_timed_alone_and_inside_a_graph(measured, fake_platform):
    assert not {"graph", "round_trip", "host_us"} & set(measured("launch", min_time=0.0))
    fake_platform.graphs = True
    found = measured("launch", min_time=0.0)
    assert found["correct"] == "yes"
    assert found["graph"] > 0


def test_compiled_code_is_right_and_its_compilation_is_in_the_cold_call(measured):
    found = measured("compiled", rows=8, hidden=16, dtype="float32", backend="eager", min_time=0.0)
    assert found["correct"] == "yes"
    assert found["cold"] > statistics.median(found["time"])


@pytest.mark.parametrize("kind", ["d2d", "h2d", "d2h"])
def test_a_copy_counts_the_bytes_that_it_moves(measured, kind):
    found = measured("copy", megabytes=1, kind=kind, min_time=0.01)
    factor = 2 if kind == "d2d" else 1
    assert found["correct"] == "yes"
    assert found["gbps"] == pytest.approx(factor * 2**20 / statistics.median(found["time"]) * 1e-3)


def test_a_fast_wrong_kernel_is_no_record(measured, monkeypatch):
    plain = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: plain(a, b) * (0.5 if a.dtype == torch.float16 else 1))
    assert measured("gemm", m=16, n=16, k=16, dtype="float16", min_time=0.01)["correct"] == "no"


def _off(function, when=lambda result: result.dtype != torch.float64, by=1.1):
    """``function`` with results that are 10 % off, but for the golden ones."""

    def wrong(*args, **keywords):
        result = function(*args, **keywords)
        return result * by if when(result) else result

    return wrong


@pytest.mark.parametrize(
    ("owner", "attribute", "name", "params"),
    [
        ("torch.nn.functional", "layer_norm", "layer_norm", {"rows": 16, "hidden": 16, "dtype": "float32"}),
        (
            "torch.nn.functional",
            "scaled_dot_product_attention",
            "decoder_prefill",
            {"batch": 1, "prompt": 8, **DECODER},
        ),
        ("torch.nn.functional", "silu", "decoder_decode", {"batch": 1, "context": 8, **DECODER}),
        ("torch.nn.functional", "conv2d", "conv", CONV),
        ("torch.nn.functional", "embedding", "embedding", {"tokens": 8, "vocab": 8, "hidden": 4, "dtype": "float32"}),
        ("torch.Tensor", "normal_", "random_fill", {"count": 5000}),
    ],
)
def test_work_that_is_ten_per_cent_off_is_no_record(measured, monkeypatch, owner, attribute, name, params):
    module = torch.nn.functional if owner.endswith("functional") else torch.Tensor
    monkeypatch.setattr(module, attribute, _off(getattr(module, attribute)))
    dtype = {} if "dtype" in params or name == "random_fill" else {"dtype": "float32"}
    assert measured(name, min_time=0.0, **params, **dtype)["correct"] == "no"


def test_an_optimiser_that_steps_too_short_or_a_training_that_learns_nothing_is_no_record(measured, monkeypatch):
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, closure=None: None)
    assert measured("optimizer_step", tensors=1, elements=8, form="loop", min_time=0.0)["correct"] == "no"
    assert measured("training_step", batch=1, length=8, min_time=0.0, **DECODER)["correct"] == "no"
    assert measured("lora_step", batch=1, length=8, dtype="float32", min_time=0.0, **DECODER)["correct"] == "no"


def test_gradients_that_halve_under_autocast_are_no_record(measured, monkeypatch):
    plain = torch.Tensor.backward
    calls = iter([True])  # the first backward pass is the one under autocast
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: plain(loss * 0.5 if next(calls, False) else loss))
    assert measured("training_step", batch=1, length=8, amp="bfloat16", min_time=0.0, **DECODER)["correct"] == "no"


@pytest.fixture
def two_devices(accelerator, monkeypatch):
    """A stand-in for two devices of one host: both are the CPU, and the test sets what each link takes."""
    monkeypatch.setattr(accelerator, "devices", lambda: [torch.device("cpu")] * 2)

    def links(**seconds):
        times = iter([seconds["there"], seconds["back"]])
        monkeypatch.setattr(
            throughput_moves, "_link", lambda accel, source, target: copied(source, target, next(times))
        )

    def copied(source, target, seconds):
        target.copy_(source)
        return [seconds] * 3

    return links


def test_every_link_is_timed_both_ways_and_a_slow_one_is_named(measured, two_devices, accelerator):
    two_devices(there=1e-3, back=1.1e-3)
    found = measured("peer_copy", megabytes=1)
    assert found["time"] == [pytest.approx(1100.0)] * 3
    assert found["gbps_0_1"] == [pytest.approx(2**20 / 1e-3 * 1e-9)] * 3
    assert (found["slow_links"], found["slowest"], found["correct"]) == ("none", "1->0", "yes")
    assert set(found) <= set(WORKLOADS["peer_copy"].metrics)
    two_devices(there=1e-3, back=1e-2)
    assert measured("peer_copy", megabytes=1)["slow_links"] == "1->0 at 0.105 of 1.05 GB/s"
    assert accelerator.notes["links_gbps"] == {"0->1": 1.049, "1->0": 0.105}


def test_a_link_that_corrupts_is_named(measured, two_devices, monkeypatch):
    two_devices(there=1e-3, back=1e-3)
    count = iter([0, 1])
    sound = throughput_moves._link

    def corrupting(accel, source, target):
        seconds = sound(accel, source, target)
        target[5] += next(count)
        return seconds

    monkeypatch.setattr(throughput_moves, "_link", corrupting)
    assert measured("peer_copy", megabytes=1)["correct"] == "no: 1->0"


def test_copies_between_devices_are_really_timed_and_one_device_has_none(measured, accelerator, monkeypatch):
    with pytest.raises(Unmeasured, match="needs two devices"):
        measured("peer_copy", megabytes=1)
    monkeypatch.setattr(accelerator, "devices", lambda: [torch.device("cpu")] * 2)
    found = measured("peer_copy", megabytes=1, slow_below=0.0)
    assert all(sample > 0 for sample in found["gbps_1_0"])


def test_links_of_eight_devices_are_held_against_the_usual_one():
    gbps = {(i, j): 380.0 for i in range(8) for j in range(8) if i != j}
    assert throughput_moves.slow_links(gbps, 0.5) == "none"
    gbps[3, 5] = gbps[5, 3] = 45.0
    assert throughput_moves.slow_links(gbps, 0.5) == "3->5 at 45 of 380 GB/s, 5->3 at 45 of 380 GB/s"


def test_a_share_of_the_roof_is_given_where_a_roof_is_known_and_ten_times_it_is_refused(measured, fake_platform):
    fake_platform.known_roof = Roof({"float32": 1000.0}, 1e6, "made up")
    assert 0 < measured("gemm", m=64, n=64, k=64, dtype="float32", min_time=0.01)["roof_share"] < 1
    fake_platform.known_roof = Roof({"float32": 1e-7}, 1e6, "made up")


def test_a_clock_ten_times_too_fast_is_not_credible(measured, fake_platform):
    fake_platform.known_roof = Roof({"float32": 1e-6}, 1e6, "made up")
    with pytest.raises(Unfit) as caught:
        measured("gemm", m=64, n=64, k=64, dtype="float32", min_time=0.01)
    assert caught.value.code == "timing-not-credible"


def test_an_attention_backend_that_is_not_there_is_unmeasured(measured):
    params = {"batch": 1, "heads": 1, "seq_q": 8, "seq_kv": 8, "head_dim": 8, "dtype": "float32"}
    with pytest.raises(Unmeasured, match="'cudnn' does not take these inputs"):
        measured("attention", backend="cudnn", **params)
    assert measured("attention", backend="math", min_time=0.01, **params)["correct"] == "yes"


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("gemm", {"m": 0, "n": 1, "k": 1, "dtype": "float32"}, "m: must be at least 1"),
        ("copy", {"megabytes": 1, "kind": "h2h"}, "kind: must be"),
        ("copy_pageable", {"megabytes": 1, "kind": "d2d"}, "kind: must be h2d or d2h"),
        ("fused", {"op": "gelu", "rows": 1, "hidden": 1, "dtype": "float32"}, "op: must be"),
        ("gemm_float8", {"m": 1, "n": 1, "k": 1, "dtype": "float16"}, "8-bit float"),
        ("topk", {"rows": 1, "length": 2, "k": 3, "dtype": "float32"}, "k: 3 is more"),
        ("random_fill", {"count": 1, "kind": "poisson"}, "kind: must be"),
        ("rotary", {"batch": 1, "heads": 1, "seq": 1, "head_dim": 3, "dtype": "float32"}, "must be even"),
        ("optimizer_step", {"tensors": 1, "elements": 1, "form": "magic"}, "form: must be"),
        ("training_step", {"batch": 1, "length": 1, "amp": "int8", **DECODER}, "amp: must be"),
        ("training_step", {"batch": 1, "length": 1, **DECODER, "kv_heads": 3}, "must divide heads"),
        (
            "conv",
            {
                "batch": 1,
                "channels": 3,
                "out_channels": 2,
                "size": [4, 4],
                "kernel": 1,
                "groups": 2,
                "dtype": "float32",
            },
            "groups: 2 must divide",
        ),
        (
            "conv",
            {"batch": 1, "channels": 1, "out_channels": 1, "size": [4], "kernel": 1, "dtype": "float32"},
            "size: must",
        ),
        (
            "attention_ratio",
            {
                **dict.fromkeys(("batch", "heads", "seq_q", "seq_kv"), 1),
                "head_dim": 8,
                "dtype": "float32",
                "versus": "flash",
            },
            "versus: must be",
        ),
        (
            "attention",
            {"batch": 1, "heads": 3, "kv_heads": 2, "seq_q": 1, "seq_kv": 1, "head_dim": 8, "dtype": "float32"},
            "does not divide",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_words(measured, name, params, words):
    with pytest.raises(BadArguments, match=words):
        measured(name, **params)
