"""Every shipped suite runs end to end on the simulated device as platform ascend."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

DEVICE_PROBE = """
import torch
torch.manual_seed(0)
device = torch.device("npu", 0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("npu", init_scale=1024.0)
for _ in range(2):
    with torch.autocast("npu", dtype=torch.float16):
        out = model(torch.randn(5, 4, device=device))
        assert out.dtype == torch.float16, out.dtype
        assert out.exp().dtype == torch.float32
        loss = out.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
assert scaler.get_scale() == 1024.0  # of 65536, random weights overflow now and then, rightly
assert torch.accelerator.current_accelerator().type == "npu"
for stray in (lambda: torch.ones(3, device=device) + torch.ones(3), lambda: torch.ones(3, device=device).numpy()):
    try:
        stray()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__)
before = torch.npu.memory_allocated()
kept = torch.empty(1024, device=device)
assert torch.npu.memory_allocated() == before + 4096
del kept
assert torch.npu.memory_allocated() == before
print(torch.npu.get_device_name(), out.device)
"""


def test_every_suite_is_measured_at_tier_smoke_and_breaks_no_limit(recording):
    baselines, run = recording
    assert run.code == 0, run.out
    assert run.results["stack"]["platform"] == "ascend"
    assert {case["device"] for case in run.results["cases"]} == {"npu:0"}
    assert {case["suite"] for case in run.results["cases"]} >= {"operators", "precision", "throughput", "own"}
    assert (baselines / "ascend-910b3" / "operators.json").is_file()


@pytest.mark.skipif(os.environ.get("ACCEL_SIMULATED") != "full", reason="takes minutes: set ACCEL_SIMULATED=full")
def test_every_variant_is_recorded_and_then_judged_a_pass_at_tier_gate(bare):
    first = bare.run(".", "--accel-record=new")
    assert first.code == 0, first.out
    second = bare.run(".")
    assert second.code == 0, second.out
    assert second.results["summary"]["verdicts"] == {"PASS": len(first.cases)}
    assert second.results["summary"]["judged"] == second.results["summary"]["asked"] > 390


def test_auto_finds_the_device_and_the_stack_names_driver_toolkit_and_extension(judged):
    run = judged.run("precision.accel.yaml", "--accel-tier=smoke", "-k", "float32_mode", accel="auto")
    assert run.code == 0, run.out
    assert run.results["stack"]["platform"] == "ascend"
    versions = run.results["stack"]["versions"]
    assert (versions["driver"], versions["toolkit"]) == ("26.1.0", "9.1.0")
    assert versions["torch_npu"] == versions["torch"].partition("+")[0]
    assert run.results["stack"]["hardware"]["name"] in ("Ascend910B3", "Ascend 910B3")


def test_the_device_trains_under_autocast_counts_memory_and_refuses_to_mix_devices(bare):
    env = {**bare._inherited(), **bare.env}
    done = subprocess.run([sys.executable, "-c", DEVICE_PROBE], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["RuntimeError", "TypeError", "Ascend910B3 npu:0"]


def test_more_devices_than_there_are_is_env_and_nothing_is_measured(judged):
    run = judged.run("precision.accel.yaml", "--accel-tier=smoke", "--accel-devices=2")
    assert run.code == 10, run.out
    assert set(run.faults.values()) == {("ENV", "too-few-devices")}
    assert run.results["summary"]["measured"] == 0


def test_an_extension_that_cannot_be_imported_is_env_with_its_words_and_never_the_cpu(judged):
    run = judged.run("precision.accel.yaml", "--accel-tier=smoke", "-k", "ones", accel="auto", broken="1")
    assert run.code == 10, run.out
    assert set(run.faults.values()) == {("ENV", "torch-broken")}
    assert "libhccl.so" in run.out


def test_a_device_that_takes_one_process_at_a_time_serves_fresh_processes_and_python_tests(judged):
    judged.path.joinpath("test_python.py").write_text(
        "import pytest\n\n\n"
        "@pytest.mark.accel\n"
        "def test_works(accel, accel_check):\n"
        "    import torch\n\n"
        "    accel_check('sum', float(torch.ones(4, device=accel.device).sum().item()), unit='1', better='equal', min=4.0)\n"
    )
    args = ("own.accel.yaml", "test_python.py", "-k", "lgamma or works", "--accel-allow-new")
    run = judged.run(*args, exclusive="1", crash="lgamma")
    assert run.faults == {"one[op=lgamma]": ("REGRESSION", "crash")}, run.out
    assert len(run.cases) == 2


def test_hiding_the_device_is_env_as_well(judged):
    run = judged.run("precision.accel.yaml", "--accel-tier=smoke", ASCEND_RT_VISIBLE_DEVICES="")
    assert run.code == 10, run.out
    assert {verdict for verdict, _ in run.faults.values()} == {"ENV"}


def test_doctor_agrees_with_what_the_machine_says(bare):
    code, answer = bare.doctor()
    assert answer["platform"] == "ascend"
    assert [finding for finding in answer["findings"] if finding["severity"] == "error"] == []
    assert (code, answer["fit"]) == (0, True)
    (device,) = answer["devices"]
    assert (device["pci"], device["memory_bytes"]) == ("0000:c1:00.0", 65536 * 2**20)
