"""Timed workloads return raw samples, show that their result is right, and refuse what they cannot do."""

from __future__ import annotations

import statistics

import pytest

from pytest_accel.measure.types import BadArguments, Unfit, Unmeasured
from pytest_accel.stack.types import Roof

torch = pytest.importorskip("torch")
CASES = [
    ("gemm", {"m": 64, "n": 48, "k": 32, "trans_b": True}),
    ("attention", {"batch": 1, "heads": 4, "kv_heads": 2, "seq_q": 48, "seq_kv": 48, "head_dim": 16, "causal": True}),
    ("attention", {"batch": 1, "heads": 2, "seq_q": 1, "seq_kv": 64, "head_dim": 16}),
    ("rms_norm", {"rows": 32, "hidden": 64}),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_timed_workload_is_right_and_gives_its_samples(measured, name, params, dtype):
    found = measured(name, dtype=dtype, min_time=0.01, **params)
    assert found["correct"] == "yes"
    assert len(found["time"]) >= 15
    assert all(sample > 0 for sample in found["time"])
    assert "roof_share" not in found
    assert ("times_float32" in found) == (name == "gemm" and dtype != "float32")


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
