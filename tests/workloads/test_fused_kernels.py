"""Fused kernels declared in a suite: right ones pass, wrong ones fail, absent ones are told apart from broken ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads import fused_formulas, registry

torch = pytest.importorskip("torch")
SUITE = Path(__file__).parents[2] / "suites" / "vendor_kernels.accel.yaml"

KERNELS = """
import torch

def rotary(x, cos, sin, style="half"):
    if style == "half":
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * cos + turned * sin

def rotary_in_place(x, cos, sin):
    x.copy_(rotary(x, cos, sin))

def rotary_first_batch_only(x, cos, sin):
    out = rotary(x, cos, sin)
    out[1:] = x[1:]
    return out

def swiglu(both):
    gate, up = both.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up, None

def attention(q, k, v, causal):
    swap = [t.transpose(1, 2) for t in (q, k, v)]
    return torch.nn.functional.scaled_dot_product_attention(*swap, is_causal=causal, enable_gqa=True).transpose(1, 2)
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    tmp_path.joinpath("accel_test_kernels.py").write_text(KERNELS)
    tmp_path.joinpath("accel_test_broken.py").write_text("import accel_test_no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "accel_test_kernels"
    for name in ("accel_test_kernels", "accel_test_broken"):
        sys.modules.pop(name, None)


SHAPE = {"seq": 24, "head_dim": 16, "heads": 2}


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "sbhd"])
@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_a_rotation_is_right_in_every_layout_and_style(kernels, measured, layout, style):
    found = measured(
        "fused_kernel", implementation=f"{kernels}:rotary", formula="rotary", dtype="bfloat16",
        arguments=["$x", "$cos_full", "$sin_full", style], shape={**SHAPE, "layout": layout, "style": style},
    )  # fmt: skip
    assert found["status"] == "supported"


def test_a_kernel_that_works_in_place_is_judged_by_what_it_leaves(kernels, measured):
    found = measured(
        "fused_kernel", implementation=f"{kernels}:rotary_in_place", formula="rotary", dtype="float32",
        arguments=["$x", "$cos_full", "$sin_full"], shape=SHAPE, in_place="$x",
    )  # fmt: skip
    assert found["status"] == "supported"


def test_a_kernel_that_rotates_one_batch_only_is_wrong(kernels, measured, accelerator):
    found = measured(
        "fused_kernel", implementation=f"{kernels}:rotary_first_batch_only", formula="rotary", dtype="float32",
        arguments=["$x", "$cos_full", "$sin_full"], shape=SHAPE,
    )  # fmt: skip
    assert (found["status"], found["faults"]) == ("wrong", 1)
    assert accelerator.notes["found"]["implementation"] == f"{kernels}:rotary_first_batch_only"


@pytest.mark.parametrize("backward", [None, ["q", "k", "v"]])
def test_grouped_causal_attention_forward_and_backward(kernels, measured, backward):
    found = measured(
        "fused_kernel", implementation=f"{kernels}:attention", formula="attention", dtype="bfloat16",
        arguments=["$q", "$k", "$v", "$causal"], backward=backward,
        shape={**SHAPE, "heads": 4, "kv_heads": 2, "layout": "bshd", "causal": True},
    )  # fmt: skip
    assert found["status"] == "supported"


def test_a_module_is_constructed_and_filled_and_a_tuple_picked_from(kernels, measured):
    norm = measured(
        "fused_kernel", implementation="torch.nn:LayerNorm", formula="layer_norm", dtype="float16",
        construct=["$hidden"], state={"weight": "$weight", "bias": "$bias"}, arguments=["$x"], shape={"hidden": 64},
    )  # fmt: skip
    pair = {"implementation": f"{kernels}:swiglu", "formula": "swiglu", "dtype": "float16", "arguments": ["$gate_up"]}
    assert (norm["status"], measured("fused_kernel", **pair, result=0)["status"]) == ("supported", "supported")
    with pytest.raises(BadArguments, match="result: 0"):
        measured("fused_kernel", **pair)


@pytest.mark.parametrize(
    ("formula", "implementation", "arguments", "keywords"),
    [
        ("rms_norm", "torch:rms_norm", ["$x", ["$hidden"], "$weight", "$eps"], {}),
        ("cross_entropy", "torch.nn.functional:cross_entropy", ["$logits", "$target"], {"reduction": "none"}),
        ("matmul", "torch:matmul", ["$a", "$b"], {}),
    ],
)
def test_torchs_own_functions_pass_their_formulas(measured, formula, implementation, arguments, keywords):
    found = measured(
        "fused_kernel", implementation=implementation, formula=formula, dtype="float16", arguments=arguments,
        keywords=keywords, shape={"hidden": 64, "classes": 64, "rows": 8},
    )  # fmt: skip
    assert found["status"] == "supported"


def test_absent_lacking_and_broken_packages_are_three_things(kernels, measured):
    def ask(implementation):
        return measured("fused_kernel", implementation=implementation, formula="rotary", dtype="float32")

    with pytest.raises(Unmeasured, match="not installed"):
        ask("accel_test_absent:kernel")
    assert ask(f"{kernels}:no_such_kernel")["status"] == "unsupported"
    assert ask("torch.no_such_module:kernel")["status"] == "unsupported"
    with pytest.raises(ImportError, match="no_such_library"):
        ask("accel_test_broken:kernel")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"formula": "fft"}, "must be one of"),
        ({"shape": {"head": 3}}, "no 'head'"),
        ({"shape": {"layout": "dhsb"}}, "layout"),
        ({"arguments": ["$q"]}, "no such input"),
        ({"backward": ["style"]}, "no tensor"),
        ({"implementation": "rotary"}, "package.module:function"),
    ],
)
def test_wrong_declarations_are_refused_in_words(kernels, measured, params, words):
    usual = {"implementation": f"{kernels}:rotary", "formula": "rotary", "dtype": "float32"}
    with pytest.raises(BadArguments, match=words):
        measured("fused_kernel", **{**usual, **params})


def test_every_kernel_of_the_shipped_list_names_inputs_that_its_formula_has_and_needs_its_package():
    cases = yaml.safe_load(SUITE.read_text())["cases"]
    workload = registry.WORKLOADS["fused_kernel"]
    for case in cases:
        params = {**case["params"], **{name: values[0] for name, values in case.get("matrix", {}).items()}}
        assert registry.signature_problem(workload, params) is None, case["name"]
        plan = fused_formulas.formula(params["formula"], params["dtype"], params.get("shape", {}), 0)
        texts = [*params["arguments"], *params.get("keywords", {}).values(), *params.get("construct", [])]
        wanted = {text[1:] for text in texts if isinstance(text, str) and text.startswith("$")}
        assert wanted <= set(plan.inputs), case["name"]
        assert case["requires"]["package"] == params["implementation"].partition(":")[0].partition(".")[0]
    assert len(cases) > 12
