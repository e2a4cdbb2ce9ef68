"""Public reports about timing gates, end to end: settings that differ, kernels that change, reruns, a baseline that rots."""

from __future__ import annotations

WORK = '''
import os
from pytest_accel import MetricSpec, workload

TIME = MetricSpec("us", "lower", kind="timing", worse_by="10%", source="a test")
RATIO = MetricSpec("", "lower", kind="timing", worse_by="100%", max=0.5, source="a test")

@workload(metrics={"time": TIME, "ratio": RATIO, "kernels": MetricSpec("", "equal", kind="info")})
def attention(accel):
    """Attention by real torch, whose time the test sets."""
    import torch

    q = torch.randn(1, 2, 16, 8)
    names = accel.kernels(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    slow = "flash" not in names
    return {"time": 40.0 if slow else 1.0, "ratio": 1.0 if slow else 0.1, "kernels": names}

def error(accel):
    return {"error": 1e-3}

def flash_off():
    import torch

    if os.environ.get("FLASH_OFF"):
        torch.backends.cuda.enable_flash_sdp(False)
    if os.environ.get("HIDDEN"):
        plain = torch.nn.functional.scaled_dot_product_attention

        def math(*args):
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                return plain(*args)

        torch.nn.functional.scaled_dot_product_attention = math
'''
SUITE = """
schema: pytest-accel/suite/1
setup: kernels:flash_off
cases:
  - {name: attention, workload: "kernels:attention"}
  - {name: error, workload: "kernels:error", metrics: {error: {better: lower, worse_by: 10%}}}
"""

ONE = {"OMP_NUM_THREADS": "1"}  # beside other tests on few cores, threads wait for each other


def test_a_lost_fast_path_says_which_kernels_ran_instead_and_is_told_by_its_ratio_without_any_baseline(project):
    project.with_torch()
    project.env.update(ONE)
    project.write("kernels.py", WORK)
    project.write("s.accel.yaml", SUITE)
    bare = project.run("-k", "attention", "--accel-sessions=1", env={"HIDDEN": "1"})
    assert bare.ret == 1, "the ratio's limit needs no baseline"
    assert project.codes() == {"s/attention": "limit"}
    project.record()
    before = project.baseline_bytes()
    assert b"_scaled_dot_product_flash_attention_for_cpu" in project.baseline_file().read_bytes()

    result = project.run("--accel-record=add", "--accel-sessions=1", env={"HIDDEN": "1"})
    assert result.ret == 1
    assert project.verdicts() == {"s/attention": "REGRESSION", "s/error": "PASS"}
    case = next(case for case in project.results["cases"] if case["key"] == "s/attention")
    assert "kernel changed: aten::_scaled_dot_product_flash_attention_for_cpu → " in case["reason"]
    assert "softmax" in case["reason"].partition("→")[2]
    assert project.baseline_bytes().keys() == before.keys()
    assert b"softmax" not in project.baseline_file().read_bytes()


def test_a_setting_that_differs_from_the_baselines_is_env_for_times_while_accuracy_is_judged(project):
    project.with_torch()
    project.env.update(ONE)
    project.write("kernels.py", WORK)
    project.write("s.accel.yaml", SUITE)
    project.record()
    result = project.run(env={"FLASH_OFF": "1"})
    assert project.verdicts()["s/error"] == "PASS"
    case = next(case for case in project.results["cases"] if case["key"] == "s/attention")
    assert case["metrics"]["time"]["verdict"] == "ENV"
    assert case["metrics"]["time"]["code"] == "settings-differ"
    assert "sdp_flash was `True`, now `False`" in case["metrics"]["time"]["reason"]
    assert result.ret != 0


def test_reruns_do_not_make_a_slow_first_try_green(project):
    project.suite(
        """
        - name: a
          workload: work:value
          params: {name: a}
          metrics: {time: {unit: us, better: lower, worse_by: 10%, max: 5}}
        """
    )
    project.record()
    project.state(a=9.0)
    result = project.run("--reruns", "1")
    assert result.ret == 1
    assert project.verdicts() == {"s/a[name=a]": "REGRESSION"}


def test_a_run_that_measures_nothing_leaves_the_baseline_and_is_no_pass(project):
    project.suite("- {name: a, workload: 'work:value', metrics: {time: {unit: us, better: lower, worse_by: 10%}}}")
    project.record()
    before = project.baseline_bytes()
    result = project.run("--accel-record=add", "--accel-in-process")
    assert result.ret == 11
    assert set(project.verdicts().values()) == {"UNMEASURED"}
    assert project.baseline_bytes() == before
