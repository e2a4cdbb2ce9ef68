"""Autocast, training parity, drift in use, conversions: what is right passes, known faults are seen."""

from __future__ import annotations

import pytest

from pytest_accel.measure.types import BadArguments
from pytest_accel.selftest.injections import injected
from pytest_accel.selftest.judging import entry_of, rules_of, verdict_of
from pytest_accel.workloads.catalog.precision_amp import OPERATORS

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")
TOY = {"width": 16, "layers": 1, "batch": 4, "length": 8}


def test_the_snapshot_names_every_listed_operator_with_its_output_dtype(measured, accelerator):
    found = measured("autocast_policy", dtype="bfloat16")
    assert set(found) == {*OPERATORS, "nested"}
    assert (found["mm"], found["linear"], found["mse_loss"]) == ("bfloat16", "bfloat16", "float32")
    assert found["nested"] == "respected"
    unsupported = {name for name, word in found.items() if word == "unsupported"}
    assert unsupported == set(accelerator.notes["reasons"])


def test_an_operator_whose_output_dtype_changes_is_a_regression_that_names_it(measured, monkeypatch):
    before = measured("autocast_policy", dtype="bfloat16")
    plain = torch.nn.functional.rms_norm
    monkeypatch.setattr(torch.nn.functional, "rms_norm", lambda x, *args: plain(x.float(), *args))
    after = measured("autocast_policy", dtype="bfloat16")
    rules = rules_of("autocast_policy", after)
    judged = verdict_of([after], rules, entry_of([before], rules))
    assert judged.verdict.value == "REGRESSION"
    assert "rms_norm: `float32` against `bfloat16`" in judged.reason
    assert sum(metric.verdict.value != "PASS" for metric in judged.metrics.values()) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_training_follows_float32_and_repeats_itself_bit_for_bit(measured, accelerator, dtype):
    first = measured("training_parity", dtype=dtype, steps=60, **TOY)
    assert first["loss_gap"] < 5e-3
    assert (first["nonfinite"], first["skipped"]) == (0, 0)
    assert "5,000" in accelerator.notes["blind"]
    second = measured("training_parity", dtype=dtype, steps=60, **TOY)
    timed = {"seconds_to_target", "seconds_to_target_float32"}
    assert {k: v for k, v in first.items() if k not in timed} == {k: v for k, v in second.items() if k not in timed}


def test_training_in_three_bits_and_training_that_never_sees_an_overflow_are_regressions(measured):
    clean = measured("training_parity", dtype="bfloat16", steps=60, **TOY)
    from pytest_accel.selftest import injections

    injections.INJECTIONS["coarse"] = injections.Injection(
        injections.INJECTIONS["late_coarse_products"].change, injections.PRODUCTS
    )
    try:
        with injected("coarse", CPU):
            spoilt = measured("training_parity", dtype="bfloat16", steps=60, **TOY)
    finally:
        del injections.INJECTIONS["coarse"]
    rules = rules_of("training_parity", spoilt)
    assert verdict_of([spoilt], rules, entry_of([clean], rules)).verdict.value == "REGRESSION"
    assert spoilt["loss_gap"] > 10 * clean["loss_gap"]


def test_a_scale_that_falls_without_end_breaks_its_limits(measured):
    found = measured("training_parity", dtype="float16", steps=30, init_scale=2.0**40, **TOY)
    assert found["skipped"] > 15
    rules = rules_of("training_parity", found)
    assert verdict_of([found], rules, None).verdict.value == "REGRESSION"


def test_long_runs_have_windows_and_short_ones_do_not():
    from pytest_accel.workloads import training_parity as module

    class Accelerator:
        def note(self, name, value):
            self.__dict__[name] = value

    steps = 6000
    plain = module._Run([1.0] * steps, [1.0], [1.0] * steps, 0, [0.0] * steps)
    late = module._Run([1.0] * 5000 + [1.5] * 1000, [1.0], [1.0] * steps, 0, [0.0] * steps)
    found = module._metrics(Accelerator(), late, plain, steps)
    assert found["gap_0_1000"] == found["gap_1000_5000"] == 0.0
    assert found["gap_later"] == pytest.approx(0.495, abs=0.01)
    assert found["gap_growth"] == found["gap_later"]
    short = module._metrics(Accelerator(), late, plain, 300)
    assert "gap_later" not in short


def test_a_right_decoder_does_not_drift_and_one_with_early_cast_frequencies_grows_with_the_position(
    measured, accelerator
):
    right = measured("decode_drift", dtype="float16", tokens=300)
    assert right["growth"] < 1.3
    assert right["drift_128"] < 5
    assert right["differing"] == 0
    series = accelerator.notes["series"]
    assert 60 <= len(series["values"]) <= 130
    wrong = measured("decode_drift", dtype="float16", tokens=300, cast_early="inv_freq")
    assert wrong["growth"] > 2.0
    assert wrong["slope"] > right["slope"] + 1


def test_fused_and_unfused_parts_drift_alike(measured):
    fused, parts = (measured("decode_drift", dtype="bfloat16", tokens=64, fused=f) for f in (True, False))
    assert parts["drift_128"] == pytest.approx(fused["drift_128"], rel=0.5)
    with pytest.raises(BadArguments, match="float16 or bfloat16"):
        measured("decode_drift", dtype="float32")


CONVERSIONS = """
import torch
def inputs(): return (torch.linspace(-2, 2, 64).reshape(8, 8),)
def before(x): return torch.tanh(x @ x.t()) + 1
def same(x): return 1 + (x @ x.t()).tanh()
def low(x): return (torch.tanh((x.bfloat16() @ x.t().bfloat16())) + 1).to(x.dtype)
def nan(x): return before(x).index_fill(0, torch.tensor([3]), torch.nan)
"""


@pytest.fixture
def conversions(tmp_path, monkeypatch):
    tmp_path.joinpath("conversions_of_mine.py").write_text(CONVERSIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "conversions_of_mine:"


def test_a_conversion_is_held_to_the_derived_rule_and_to_a_largest_difference(measured, conversions):
    given = {"before": conversions + "before", "inputs": conversions + "inputs"}
    same = measured("convert_check", after=conversions + "same", **given)
    assert (same["status"], same["golden"]) == ("supported", "float64")
    assert same["max_abs"] < 1e-5
    low = measured("convert_check", after=conversions + "low", **given)
    assert low["status"] == "wrong"
    assert low["max_abs"] > 1e-3
    rules = rules_of("convert_check", low)
    assert "max_abs" in verdict_of([low], rules, None).reason
    lost = measured("convert_check", after=conversions + "nan", **given)
    assert (lost["status"], lost["nonfinite"]) == ("nonfinite", 8)


def test_an_exported_model_is_compared_with_its_source_on_its_own_inputs(measured, conversions, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).eval()
    example = (torch.randn(3, 8),)
    torch.export.save(torch.export.export(model, example), tmp_path / "model.pt2")
    torch.jit.trace(model, example).save(str(tmp_path / "model.pt"))
    found = measured("convert_check", before="model.pt2", after="model.pt")
    assert found["status"] == "supported"
    assert found["max_abs"] < 1e-6


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"before": "a.pt2", "after": "b.pt2"}, "no such file"),
        ({"before": "math:sqrt", "after": "math:sqrt"}, "inputs: give"),
        ({"before": "math:no_such", "after": "math:sqrt"}, "cannot be imported"),
        ({"before": "math", "after": "math:sqrt"}, "write it as"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(measured, params, says):
    with pytest.raises(BadArguments, match=says):
        measured("convert_check", **params)
