"""Triton's features: without triton unmeasured; a compiler's "not on this target" is told apart from its failures."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads import triton_features

torch = pytest.importorskip("torch")
HAS_TRITON = importlib.util.find_spec("triton") is not None
SUITE = Path(__file__).parents[2] / "suites" / "triton.accel.yaml"

INTERPRETED = """
import json, sys
import torch
from pytest_accel.workloads import triton_feature_kernels as kernels, triton_features as features
from pytest_accel.measure import accuracy
found = {}
for feature, dtype in json.loads(sys.argv[1]):
    case = features.FEATURES[feature](kernels, torch.device("cpu"), dtype, 0, "")
    result, golden = case.run(), case.compute(torch.float64)
    found[f"{feature} {dtype}"] = all(
        accuracy.compare(y, g, rule=case.rule).word == "supported" for y, g in zip(result, golden, strict=True)
    )
print(json.dumps(found))
"""
#: What triton's interpreter computes rightly on a host: it keeps bfloat16 and float8 otherwise than devices do.
ON_HOST = [
    ("atomic_add", "int32"), ("atomic_add", "float16"), ("atomic_max", "uint32"), ("atomic_max", "float32"),
    ("atomic_cas", "int32"), ("atomic_cas", "int64"), ("masked_load", "int8"), ("masked_load", "float16"), ("dot", "int8"),
    ("dot", "float16"), ("dot", "float8_e4m3fn"), ("dot_tf32", "float32"), ("reduce", "bfloat16"), ("scan", "int32"),
    ("cast", "float16"),
]  # fmt: skip


@pytest.mark.skipif(HAS_TRITON, reason="triton is installed here")
def test_without_triton_a_feature_is_unmeasured(measured):
    with pytest.raises(Unmeasured, match="triton cannot be imported"):
        measured("triton_feature", feature="atomic_add")


@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
def test_kernels_give_the_golden_numbers_in_tritons_interpreter():
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", INTERPRETED, json.dumps(ON_HOST)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(json.loads(done.stdout).values()), done.stdout


class CompilationError(Exception):
    pass


CompilationError.__module__ = "triton.compiler.errors"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (CompilationError("at 3:4: type fp8e4nv not supported in this architecture"), NotImplementedError, "fp8e4nv"),
        (CompilationError("at 3:4: expected a tensor"), RuntimeError, "triton: CompilationError"),
        (RuntimeError("PassManager::run failed"), RuntimeError, "PassManager"),
    ],
)
def test_a_target_that_cannot_is_told_apart_from_a_compiler_that_fails(error, kind, words):
    def run():
        raise error

    with pytest.raises(kind, match=words) as caught:
        triton_features._told_plainly(run)()
    assert caught.type is kind


def test_what_must_hold_of_a_race_is_asked_and_not_who_wins_it():
    class Kernel:
        def __init__(self, value, winners):
            self.value, self.winners = value, winners

        def __getitem__(self, grid):
            def launch(lock, seen, won):
                lock.fill_(self.value)
                seen.fill_(self.value)
                seen[self.value - 1] = 0
                won.fill_(self.winners)

            return launch

    class Kernels:
        pass

    kernels = Kernels()
    case = triton_features.FEATURES["atomic_cas"](kernels, torch.device("cpu"), "int32", 0, "")
    for value, winners, right in ((5, 1, True), (64, 1, True), (5, 2, False)):
        kernels.atomic_cas = Kernel(value, winners)
        same = all(bool((a == b).all()) for a, b in zip(case.run(), case.compute(torch.float64), strict=True))
        assert same is right


def test_every_variant_of_the_shipped_matrix_names_a_known_feature_and_dtype():
    seen = 0
    for case in yaml.safe_load(SUITE.read_text())["cases"]:
        given = {**case.get("params", {}), **case.get("matrix", {})}
        features = given["feature"] if isinstance(given["feature"], list) else [given["feature"]]
        for feature in features:
            library = feature.removeprefix("libdevice_")
            assert feature in triton_features.FEATURES or library in triton_features.LIBRARY_FUNCTIONS
            seen += 1
        for dtype in given["dtype"] if isinstance(given["dtype"], list) else [given["dtype"]]:
            assert isinstance(getattr(torch, dtype), torch.dtype)
    assert seen >= 15


def test_an_unknown_feature_is_refused_with_the_known_ones(measured, monkeypatch):
    stand_in = type(sys)("pytest_accel.workloads.triton_feature_kernels")
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.setattr(sys.modules["pytest_accel.workloads"], "triton_feature_kernels", stand_in, raising=False)
    for feature in ("atomic_or", "libdevice_gamma"):
        with pytest.raises(BadArguments, match="libdevice_exp"):
            measured("triton_feature", feature=feature)
