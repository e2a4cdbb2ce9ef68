"""Each fault that the simulated device can have turns exactly the variants red that it should, with the right words."""

from __future__ import annotations

import yaml

OPERATORS = "topk or cumsum or embedding or softmax or cos"
DTYPES = ("float32", "float16", "bfloat16")
SCALER = "grad_scaler[inject_inf=[2],inject_nan=[7],steps=12]"


def core(op: str, dtype: str) -> str:
    return f"core[dtype={dtype},op={op}]"


def rope(dtype: str) -> str:
    return f"rope[base=10000.0,dtype={dtype},head_dim=16,max_position=131072]"


def check(run, words: dict[str, str]) -> None:
    """Exactly these variants are REGRESSION, each with its words in the reason; all others of the run are PASS."""
    assert run.code == 1, run.out
    assert {key: case["verdict"] for key, case in run.bad.items()} == dict.fromkeys(words, "REGRESSION"), run.out
    for key, wanted in words.items():
        assert wanted in run.bad[key]["reason"], (key, run.bad[key]["reason"])
    assert len(run.cases) > len(words)
    assert {case["verdict"] for key, case in run.cases.items() if key not in words} <= {"PASS", "IMPROVED"}


def test_faults_of_one_operator_turn_its_variants_red_and_no_other(judged):
    """In one run, since none of these operators is another's: a warning spent by coverage included, which `largest` needs."""
    run = judged.run(
        *("operators.accel.yaml", "own.accel.yaml", "--accel-tier=smoke", "--accel-sessions=2"),
        *("-k", f"own or {OPERATORS}"),
        unsupported="cumsum:bfloat16",
        dtype="cumsum:float16",
        oom="embedding:float32",
        random="_softmax:float16",
        fallback="topk",
        delay="mm=0.01",
        leak="mm",
        crash="lgamma",
        hang="digamma",
        poison="erfinv",
    )
    check(
        run,
        {
            core("cumsum", "bfloat16"): "status: `unsupported` against `supported`",
            core("cumsum", "float16"): "status: `dtype-unsupported` against `supported`",
            core("nn.functional.embedding", "float32"): "status: `oom` against `supported`",
            core("softmax", "float16"): "status: `nondeterministic` against `supported`",
            **{core("topk", dtype): "status: `fallback` against `supported`" for dtype in DTYPES},
            "largest": "aten::topk",
            "timed[op=mm]": "time: median",
            "kept": "1.04858e+06 B against 0 B",
            "one[op=lgamma]": "SIGSEGV",
            "one[op=digamma]": "no result after 6 s",
            "one[op=erfinv]": "507015",
        },
    )
    codes = {key: code for key, (_, code) in run.faults.items()}
    assert codes["largest"] == "fallback"
    assert [codes[f"one[op={op}]"] for op in ("lgamma", "digamma", "erfinv")] == ["crash", "timeout", "poisoned"]


def test_a_fall_back_whose_warning_untimed_work_spent_is_still_seen_by_coverage(judged):
    args = ("own.accel.yaml", "operators.accel.yaml", "--accel-tier=smoke", "-k", "largest or topk or (own and sin)")
    run = judged.run(*args, fallback="topk", TORCH_NPU_WARNING_DISABLE="1")  # which measuring processes do not obey
    fallback = {core("topk", dtype): "status: `fallback` against `supported`" for dtype in DTYPES}
    check(run, {"largest": "RanOnHost: work meant for the device ran on the host: ", **fallback})


def test_where_falling_back_is_an_error_the_word_is_the_same(judged):
    run = judged.run("own.accel.yaml", "-k", "largest or sin", fallback="topk", TORCH_NPU_FALLBACK_CPU_DISABLE="1")
    check(run, {"largest": "would execute its main computation on CPU"})
    assert run.faults["largest"] == ("REGRESSION", "fallback")


def test_a_fall_back_whose_warning_the_set_up_spent_is_still_seen(judged):
    path = judged.path / "own.accel.yaml"
    suite = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**suite, "setup": "work:spend"}, sort_keys=False))
    run = judged.run("own.accel.yaml", "-k", "largest or (own and sin)", fallback="topk")
    check(run, {"largest": "aten::topk"})


def test_timed_work_on_the_host_is_never_recorded_as_the_devices_speed(bare):
    args = ("own.accel.yaml", "-k", "timed", "--accel-record=new")
    run = bare.run(*args, fallback="mm")
    assert run.code == 1, run.out
    assert run.faults == {"timed[op=mm]": ("REGRESSION", "fallback")}
    assert "aten::mm" in run.bad["timed[op=mm]"]["reason"]
    assert "op=mm" not in (bare.path / "baselines" / "ascend-910b3" / "own.json").read_text()


def test_saturating_overflow_changes_the_mode_and_is_missed_by_the_scaler(judged):
    run = judged.run(
        "precision.accel.yaml", "--accel-tier=smoke", "-k", "overflow or grad_scaler or ones", saturate="1"
    )
    check(
        run,
        {
            "overflow[dtype=float16]": "overflow_mode: `saturate` against `ieee`",
            SCALER: "natural_overflow: `missed`",
        },
    )


ROPE = "rope and not rope_"
SMOKE = ("operators.accel.yaml", "precision.accel.yaml", "--accel-tier=smoke", "-k")


def test_drift_in_rotary_tables_is_seen_from_the_first_band_on_in_every_dtype(judged):
    run = judged.run(*SMOKE, f"(core and (cos or softmax)) or ({ROPE}) or overflow", drift="1")
    check(run, {core("cos", "float32"): "faults", **{rope(dtype): "error_256" for dtype in DTYPES}})


def test_flushed_subnormals_are_seen_where_a_dtype_has_some(judged):
    run = judged.run(*SMOKE, f"(core and (topk or softmax)) or ({ROPE} and not bfloat16) or overflow", flush="1")
    check(
        run,
        {
            "overflow[dtype=float16]": "subnormals: `flushed` against `kept`",
            "overflow[dtype=bfloat16]": "subnormals: `flushed` against `kept`",
            rope("float16"): "ratio_131072",
            core("softmax", "float16"): "max_ulp",
        },
    )


def test_a_device_that_stops_answering_is_lost_for_the_variant_and_all_behind_it_and_never_a_cpu_run_later(judged):
    run = judged.run(
        "own.accel.yaml", "precision.accel.yaml", "--accel-tier=smoke", "-k", "own or ones", lose="digamma"
    )
    assert run.code == 10, run.out
    keys = list(run.cases)
    lost = keys.index("one[op=digamma]")
    assert lost > 0
    assert all(run.cases[key]["verdict"] == "PASS" for key in keys[:lost])
    assert {key: run.faults.get(key) for key in keys[lost:]} == dict.fromkeys(keys[lost:], ("ENV", "device-lost"))
    assert "507033" in run.out
    for accel in ("ascend", "auto"):
        later = judged.run("precision.accel.yaml", "--accel-tier=smoke", accel=accel)
        assert later.code == 10, later.out
        assert set(later.faults.values()) == {("ENV", "accelerator-broken")}
        assert "-8005" in later.out
