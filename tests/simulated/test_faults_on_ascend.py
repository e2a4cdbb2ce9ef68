"""Each fault that the simulated device can have turns exactly the variants red that it should, with the right words."""

from __future__ import annotations

SMOKE = ("operators.accel.yaml", "precision.accel.yaml", "--accel-tier=smoke")
DTYPES = ("float32", "float16", "bfloat16")


def core(op: str, dtype: str) -> str:
    return f"core[dtype={dtype},op={op}]"


def rope(dtype: str) -> str:
    return f"rope[base=10000.0,dtype={dtype},head_dim=128,max_position=131072]"


SCALER = "grad_scaler[inject_inf=[2],inject_nan=[7],steps=12]"


def check(run, words: dict[str, str]) -> None:
    """Exactly these variants are REGRESSION, each with its words in the reason; all others of the run are PASS."""
    assert run.code == 1, run.out
    assert {key: case["verdict"] for key, case in run.bad.items()} == dict.fromkeys(words, "REGRESSION")
    for key, wanted in words.items():
        assert wanted in run.bad[key]["reason"], (key, run.bad[key]["reason"])


def test_an_operator_or_dtype_that_the_device_lost_and_one_that_runs_out_of_memory(judged):
    run = judged.run(*SMOKE, unsupported="topk:bfloat16", dtype="cumsum:float16", oom="embedding:float32")
    check(
        run,
        {
            core("topk", "bfloat16"): "status: `unsupported` against `supported`",
            core("cumsum", "float16"): "status: `dtype-unsupported` against `supported`",
            core("nn.functional.embedding", "float32"): "status: `oom` against `supported`",
        },
    )


def test_an_operator_that_falls_to_the_host_is_a_coverage_fault_in_every_dtype_though_it_warns_once(judged):
    run = judged.run(*SMOKE, fallback="topk")
    check(run, {core("topk", dtype): "status: `fallback` against `supported`" for dtype in DTYPES})


def test_a_fall_back_whose_warning_another_workload_spent_is_still_seen(judged):
    judged.path.joinpath("work.py").write_text(
        "import torch\n"
        "def first(accel):\n"
        "    return {'largest': float(torch.arange(5.0, device=accel.device).topk(1)[0].item())}\n"
    )
    judged.path.joinpath("first.accel.yaml").write_text(
        "schema: pytest-accel/suite/1\ncases:\n- {name: first, workload: 'work:first', tier: smoke}\n"
    )
    suites = ("first.accel.yaml", "operators.accel.yaml", "--accel-tier=smoke", "--accel-allow-new")
    run = judged.run(*suites, "-o", "pythonpath=.", "-k", "first or topk", fallback="topk")
    check(run, {core("topk", dtype): "status: `fallback` against `supported`" for dtype in DTYPES})


def test_timed_work_on_the_host_is_never_recorded_as_the_devices_speed(bare):
    args = ("throughput.accel.yaml", "--accel-tier=smoke", "-k", "gemm_float32 or copy", "--accel-record=new")
    run = bare.run(*args, fallback="mm")
    assert run.code == 1, run.out
    (key,) = run.bad
    assert key.startswith("gemm_float32")
    assert run.faults[key] == ("REGRESSION", "fallback")
    assert "aten::mm" in run.bad[key]["reason"]
    assert "gemm_float32" not in (bare.path / "baselines" / "ascend-910b3" / "throughput.json").read_text()


def test_saturating_overflow_changes_the_mode_and_is_missed_by_the_scaler(judged):
    run = judged.run(*SMOKE, saturate="1")
    check(
        run,
        {
            "overflow[dtype=float16]": "overflow_mode: `saturate` against `ieee`",
            SCALER: "natural_overflow: `missed`",
        },
    )


def test_drift_in_rotary_tables_is_seen_from_the_first_band_on_in_every_dtype(judged):
    run = judged.run(*SMOKE, drift="1")
    check(run, {core("cos", "float32"): "faults", **{rope(dtype): "error_256" for dtype in DTYPES}})


def test_flushed_subnormals_are_seen_where_a_dtype_has_some(judged):
    run = judged.run(*SMOKE, flush="1")
    check(
        run,
        {
            "overflow[dtype=float16]": "subnormals: `flushed` against `kept`",
            "overflow[dtype=bfloat16]": "subnormals: `flushed` against `kept`",
            rope("float16"): "ratio_131072",
            core("softmax", "float16"): "max_ulp",
        },
    )


def test_an_operator_that_differs_from_call_to_call_is_nondeterministic(judged):
    run = judged.run(*SMOKE, random="_softmax:float16")
    check(run, {core("softmax", "float16"): "status: `nondeterministic` against `supported`"})


def test_a_delay_in_one_operator_slows_the_work_that_uses_it_and_no_other(bare):
    args = ("throughput.accel.yaml", "-k", "gemm_decode or attention_decode")
    recorded = bare.run(*args, "--accel-record=new")
    assert recorded.code == 0, recorded.out
    run = bare.run(*args, delay="mm=0.003")
    assert run.code == 1, run.out
    assert sorted(key.partition("[")[0] for key in run.bad) == ["gemm_decode"] * 2
    assert all("time: median" in case["reason"] for case in run.bad.values())


def test_crash_hang_and_poison_cost_one_variant_each(judged):
    path = judged.path / "operators.accel.yaml"
    path.write_text(path.read_text().replace("timeout: 120s", "timeout: 8s"))
    run = judged.run(
        "operators.accel.yaml",
        "--accel-tier=smoke",
        "-k",
        "topk or cumsum or embedding or cos",
        crash="topk:bfloat16",
        hang="embedding:float32",
        poison="cumsum:float16",
    )
    check(
        run,
        {
            core("topk", "bfloat16"): "SIGSEGV",
            core("nn.functional.embedding", "float32"): "no result after 8 s",
            core("cumsum", "float16"): "507015",
        },
    )
    assert sorted(code for _, code in run.faults.values()) == ["crash", "poisoned", "timeout"]


def test_a_device_that_stops_answering_is_lost_for_the_variant_and_all_behind_it(judged):
    run = judged.run(*SMOKE, lose="topk:bfloat16")
    assert run.code == 10, run.out
    keys = list(run.cases)
    lost = keys.index(core("topk", "bfloat16"))
    assert all(run.cases[key]["verdict"] == "PASS" for key in keys[:lost])
    assert {key: run.faults.get(key) for key in keys[lost:]} == dict.fromkeys(keys[lost:], ("ENV", "device-lost"))
    assert "507033" in run.out


def test_memory_that_is_never_given_back_is_seen_by_the_allocators_count(bare):
    bare.path.joinpath("work.py").write_text(
        "import torch\n"
        "def kept(accel):\n"
        "    for _ in range(4):\n"
        "        torch.ones(256, 256, device=accel.device) @ torch.ones(256, 256, device=accel.device)\n"
        "    return {'kept': accel.memory()['allocated']}\n"
    )
    bare.path.joinpath("leak.accel.yaml").write_text(
        "schema: pytest-accel/suite/1\n"
        "cases:\n- {name: leak, workload: 'work:kept', metrics: {kept: {unit: B, better: lower, worse_by: 1024}}}\n"
    )
    args = ("leak.accel.yaml", "-o", "pythonpath=.")
    assert bare.run(*args, "--accel-record=new").code == 0
    run = bare.run(*args, leak="mm")
    check(run, {"leak": "1.04858e+06 B against 0 B"})
