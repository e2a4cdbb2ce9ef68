"""Replacement files: their form, what the linter finds, and each replacement judged under its override."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.replacement_file import plain_name, read_operator_file
from pytest_accel.workloads.replacement_lint import NEEDS_FLOAT32, known_operators, lint

torch = pytest.importorskip("torch")
KNOWN = frozenset({"silu", "rms_norm", "softmax", "cos", "mm"})


@pytest.fixture
def write(tmp_path):
    def make(text, name="ops.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def findings(write, text, known=KNOWN):
    return [(f.severity, f.problem.line, f.problem.what) for f in lint(read_operator_file(write(text)), known)]


@pytest.mark.parametrize(
    ("text", "severity", "line", "words"),
    [
        (
            "exclude_ops: [silu]\nfallback_policy: error\nreplace_ops:\n  aten::silu: torch:neg\n",
            "error",
            4,
            "lines 1 and 4",
        ),
        ("fallback_policy: error\nexclude_ops:\n  - cos\n  - sofmax\n", "error", 4, "no operator `sofmax`"),
        ("fallback_policy: silent\n", "error", 1, "moves work to the CPU without a word"),
        ("fallback_policy: {silu: error, cos: cpu}\n", "error", 1, "of `cos` moves work"),
        ("precision_override:\n  mm: fp16\n  rms_norm: fp16\n", "error", 3, "`rms_norm: float16` is unsafe"),
        ("exclude_ops: [cos]\n", "warning", 1, "nothing says what happens"),
        ("fallback_policy: warn\nexclude_ops: [cos]\nprecision_override: {cos: fp32}\n", "warning", 3, "has no effect"),
        ("replace_ops: {silu: no_such_package_x:f}\n", "warning", 1, "cannot be imported here"),
    ],
)
def test_the_linter_names_the_line_of_each_mistake(write, text, severity, line, words):
    found = findings(write, text)
    assert [(kind, at) for kind, at, what in found if words in what] == [(severity, line)], found


def test_a_sound_file_has_no_findings_and_json_is_read_as_well(write):
    sound = {
        "exclude_ops": ["cos"],
        "replace_ops": {"silu": {"implementation": "torch.nn.functional:silu", "dtypes": ["fp16", "bfloat16"]}},
        "fallback_policy": "raise",
        "precision_override": {"rms_norm": "fp32", "mm": "bf16"},
    }
    file = read_operator_file(write(json.dumps(sound, indent=2), "ops.json"))
    assert lint(file, KNOWN) == []
    assert file.replace["silu"].dtypes == ("float16", "bfloat16")
    assert (file.policy.text, file.override["mm"].text) == ("error", "bfloat16")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("exclude_ops: [silu]\nexclude: [cos]\n", 2, "unknown key `exclude`"),
        ("schema: x\n", 1, "says nothing"),
        ("exclude_ops: silu\n", 1, "a list of operators"),
        ("exclude_ops:\n  - silu\n  - F.silu\n", 3, "are one operator"),
        ("replace_ops:\n  silu: my.kernel\n", 2, "package.module:function"),
        ("replace_ops:\n  silu:\n    implementation: a:b\n    dtype: fp16\n", 4, "no `dtype`"),
        ("fallback_policy: maybe\n", 1, "`maybe` is none"),
        ("precision_override:\n  mm: fp12\n", 2, "`fp12` is no dtype"),
        ("precision_override: [mm]\n", 1, "a map is wanted"),
        ("replace_ops:\n  silu: a:b\n  silu: a:c\n", 3, "stands twice"),
    ],
)
def test_a_mistake_of_form_is_a_config_error_with_its_line(write, text, line, words):
    with pytest.raises(ConfigError) as caught:
        read_operator_file(write(text))
    assert [p.line for p in caught.value.problems if words in p.what] == [line], str(caught.value)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@settings(max_examples=80, deadline=None)
def test_any_text_is_read_or_refused_with_a_place(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "ops.yaml"
    path.write_text(text, encoding="utf-8")
    refused = None
    try:
        read_operator_file(path)
    except ConfigError as error:
        refused = error
    assert refused is None or {problem.path for problem in refused.problems} == {str(path)}


def test_every_spelling_of_an_operator_is_one_name_and_torch_knows_it():
    spellings = [
        "silu",
        "aten::silu",
        "aten.silu.default",
        "torch.ops.aten.silu_",
        "F.silu",
        "torch.nn.functional.silu",
    ]
    assert {plain_name(text) for text in spellings} == {"silu"}
    known = known_operators()
    assert known is not None
    assert {"silu", "rms_norm", "_scaled_mm", "scaled_dot_product_attention", "linalg.vector_norm"} <= known
    assert len(NEEDS_FLOAT32 & known) > 50


REPLACEMENTS = """
import torch

def silu(x, inplace=False):
    return (x.float() * torch.sigmoid(x.float())).to(x.dtype) if x.is_floating_point() else x

def silu_wrong(x, inplace=False):
    return torch.relu(x)

def silu_raises(x, inplace=False):
    raise RuntimeError("an odd shape")

def softmax_careless(x, dim, dtype=None):
    wide = (x if dtype is None else x.to(dtype)).exp()
    return wide / wide.sum(dim, keepdim=True)

def rms_norm_in_dtype(x, shape, weight=None, eps=None):
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    normed = x * (x.square().mean(dims, keepdim=True) + eps).rsqrt()
    return normed if weight is None else normed * weight

def topk(x, *args, **kwargs):
    return torch.topk(x, *args, **kwargs)
"""


@pytest.fixture
def judged(write, measured, tmp_path, monkeypatch):
    write(REPLACEMENTS, "accel_test_replacements.py")
    monkeypatch.syspath_prepend(tmp_path)

    def run(op, function, dtype, override=None):
        given = {"replace_ops": {op: f"accel_test_replacements:{function}"}}
        given |= {"precision_override": {op: override}} if override else {}
        return measured("replacement", file=str(write(json.dumps(given), "ops.json")), op=op, dtype=dtype, count=3)

    return run


@pytest.mark.parametrize(
    ("op", "function", "dtype"),
    [("silu", "silu", "bfloat16"), ("topk", "topk", "float16"), ("nn.functional.silu", "silu", "float32")],
)
def test_a_right_replacement_is_supported_on_samples_and_on_hard_values(judged, op, function, dtype):
    found = judged(op, function, dtype)
    assert (found["status"], found["faults"], found["stress"]) == ("supported", 0, 0)
    assert found["samples"] >= 1


@pytest.mark.parametrize("function", ["silu_wrong", "silu_raises"])
def test_a_wrong_or_raising_replacement_is_wrong_and_named(judged, accelerator, function):
    found = judged("silu", function, "float32")
    assert found["status"] == "wrong"
    assert found["faults"] > 0
    assert accelerator.notes["found"]["implementation"] == f"accel_test_replacements:{function}"


def test_a_replacement_that_is_right_on_samples_only_is_caught_by_the_hard_values(judged):
    found = judged("softmax", "softmax_careless", "float32")
    assert found["samples"] == 3
    assert (found["status"], found["stress"] > 0) == ("nonfinite", True)


def test_an_unsafe_override_fails_and_the_safe_one_passes(judged):
    unsafe = judged("rms_norm", "rms_norm_in_dtype", "float16", "fp16")
    safe = judged("rms_norm", "rms_norm_in_dtype", "float16", "fp32")
    assert unsafe["stress"] > 0
    assert unsafe["faults"] > 0
    assert (safe["status"], safe["stress"]) == ("supported", 0)


def test_what_the_file_does_not_replace_is_refused(judged, measured, write):
    with pytest.raises(BadArguments, match="does not replace 'cos'"):
        measured("replacement", file=str(write("replace_ops: {silu: 'torch:neg'}\n")), op="cos")
    with pytest.raises(BadArguments, match="only, not in float32"):
        path = write("replace_ops: {silu: {implementation: 'torch:neg', dtypes: [fp16]}}\n")
        measured("replacement", file=str(path), op="silu")
    with pytest.raises(BadArguments, match="no samples of 'scaled_grouped_mm'"):
        measured(
            "replacement", file=str(write("replace_ops: {scaled_grouped_mm: 'torch:mm'}\n")), op="scaled_grouped_mm"
        )
