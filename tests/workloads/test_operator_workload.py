"""Operator coverage: each word of the status is reached by the fault that it names."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from pytest_accel.measure import fallback
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import opinfo
from pytest_accel.workloads.operators import operator

torch = pytest.importorskip("torch")


@pytest.fixture
def sabotage(monkeypatch):
    """Change what every operator of the database does on inputs of one dtype (not on the float64 golden ones)."""

    def put(change, dtype=torch.float16):
        find = opinfo.find

        def changed(name, variant):
            return [
                opinfo.Operator(
                    entry.name, entry.variant, wrapped(entry.call, change, dtype), entry.dtypes, entry._entry
                )
                for entry in find(name, variant)
            ]

        monkeypatch.setattr(opinfo, "find", changed)

    return put


def wrapped(call, change, dtype):
    def run(*args, **kwargs):
        if args[0].dtype == dtype:
            return change(call, *args, **kwargs)
        return call(*args, **kwargs)

    return run


def test_a_sound_operator_is_supported_and_deterministic_between_two_runs(accelerator):
    first = operator(accelerator, "softmax", "float16")
    second = operator(accelerator, "softmax", "float16")
    assert first == second
    assert (first["status"], first["faults"], first["samples"]) == ("supported", 0, 6)
    assert first["max_ulp"] <= 2


@pytest.mark.parametrize(
    "op", ["topk", "argmax", "sort", "unique", "nonzero", "index_put", "bernoulli", "empty_like", "to"]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operators_with_ties_places_random_or_undefined_results_are_supported(accelerator, op, dtype):
    found = operator(accelerator, op, dtype)
    assert (found["status"], found["faults"]) == ("supported", 0), accelerator.notes


def test_a_wrong_element_is_wrong_and_the_notes_hold_plain_torch_code(accelerator, sabotage):
    def off(call, *args, **kwargs):
        out = call(*args, **kwargs)
        return out + out.abs().amax() * 0.1

    sabotage(off)
    found = operator(accelerator, "exp", "float16")
    assert found["status"] == "wrong"
    assert found["faults"] > 0
    assert "ulp" in accelerator.notes["reproduce"]["reason"]
    code = accelerator.notes["reproducer"]
    assert "pytest_accel" not in code
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    device, host = done.stdout.split("float64 on the host:")
    assert device.startswith("device: tensor(")
    assert "dtype=torch.float64" in host


def test_a_nan_counts_as_non_finite(accelerator, sabotage):
    def spoilt(call, *args, **kwargs):
        out = call(*args, **kwargs).clone()
        out.view(-1)[:1] = float("nan")
        return out

    sabotage(spoilt)
    found = operator(accelerator, "mm", "float16")
    assert found["status"] == "nonfinite"
    assert found["nonfinite"] >= 1


def test_two_different_answers_are_nondeterministic(accelerator, sabotage):
    flips = iter(range(10_000))

    def flipping(call, *args, **kwargs):
        return call(*args, **kwargs) * (1 + next(flips) % 2)

    sabotage(flipping)
    assert operator(accelerator, "exp", "float16")["status"] == "nondeterministic"


def test_a_missing_kernel_is_unsupported_and_no_fault(accelerator, sabotage):
    def missing(call, *args, **kwargs):
        raise NotImplementedError("\"mm\" not implemented for 'Half'")

    sabotage(missing)
    found = operator(accelerator, "mm", "float16")
    assert (found["status"], found["faults"], found["samples"]) == ("unsupported", 0, 0)
    assert "max_ulp" not in found


def test_an_error_that_means_nothing_known_is_never_taken_for_a_state(accelerator, sabotage):
    def broken(call, *args, **kwargs):
        raise RuntimeError("something odd")

    sabotage(broken)
    with pytest.raises(RuntimeError, match=r"mm .*something odd"):
        operator(accelerator, "mm", "float16")


def test_a_fall_back_is_a_fault_though_numbers_agree_and_also_once_its_warning_is_spent(
    accelerator, sabotage, monkeypatch
):
    monkeypatch.setattr(fallback, "SEEN", {})
    warned = []

    def once(call, *args, **kwargs):
        if not warned:
            warned.append(1)
            warnings.warn("The operator 'aten::isin.Tensor_Tensor' will fall back to run on the CPU.", stacklevel=1)
        return call(*args, **kwargs)

    sabotage(once)
    for _ in range(2):
        found = operator(accelerator, "isin", "float16")
        assert (found["status"], found["faults"] > 0) == ("fallback", True)


def test_a_dtype_that_the_database_does_not_declare_has_no_sample(accelerator):
    assert operator(accelerator, "bitwise_and", "float16")["status"] == "no-sample"


def test_unknown_names_are_refused_in_words(accelerator):
    with pytest.raises(BadArguments, match=r"no '.*sofmax'"):
        operator(accelerator, "nn.functional.sofmax")
    with pytest.raises(BadArguments, match="no variant 'x'"):
        operator(accelerator, "div", variant="x")
    with pytest.raises(BadArguments, match="float17"):
        operator(accelerator, "mm", "float17")


def test_the_database_leaves_torchs_flags_settable(accelerator):
    opinfo.find("mm", "")
    assert not torch.backends.flags_frozen()
