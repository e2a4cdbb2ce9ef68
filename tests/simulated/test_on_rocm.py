"""A torch that reports HIP on a recorded MI210 host, the CPU doing the work: detection, stack and judging as platform rocm."""

from __future__ import annotations

import shutil

ARGS = ("precision.accel.yaml", "own.accel.yaml", "--accel-tier=smoke", "-k", "ones or largest or timed or sin")


def test_a_run_is_recorded_and_judged_as_rocm_with_amds_names(hip):
    recorded = hip.run(*ARGS, "--accel-record=new")
    assert recorded.code == 0, recorded.out
    stack = recorded.results["stack"]
    assert stack["platform"] == "rocm"
    hardware, versions = stack["hardware"], stack["versions"]
    assert (hardware["name"], hardware["gfx"]) == ("AMD Instinct MI210", "gfx90a:sramecc+:xnack-")
    assert (versions["driver"], versions["toolkit"]) == ("6.12.12", "6.4.43482-0f2d60242")
    assert (versions["miopen"], versions["rccl"], versions.get("nccl")) == ("3.4.0", "2.22.3", None)
    assert {case["device"] for case in recorded.results["cases"]} == {"cuda:0"}
    assert (hip.path / "baselines" / "amd-mi210" / "precision.json").is_file()
    judged = hip.run(*ARGS, accel="auto")
    assert judged.code == 0, judged.out
    assert judged.results["summary"]["verdicts"] == {"PASS": len(recorded.cases)}


def test_a_hidden_device_or_a_kernel_without_its_node_is_env_and_never_cuda_or_cpu(hip):
    hidden = hip.run(*ARGS, HIP_VISIBLE_DEVICES="")
    assert hidden.code == 10, hidden.out
    assert {verdict for verdict, _ in hidden.faults.values()} == {"ENV"}
    assert hip.run(*ARGS, accel="cuda").code == 10
    (hip.path / "machine" / "root" / "dev" / "kfd").unlink()
    shutil.rmtree(hip.path / "machine" / "root" / "dev" / "dri")
    gone = hip.run(*ARGS, accel="auto")
    assert gone.code == 10, gone.out
    assert set(gone.faults.values()) == {("ENV", "accelerator-broken")}
    assert "/dev/kfd" in gone.out


def test_doctor_compares_hip_with_the_systems_rocm(hip):
    code, answer = hip.doctor()
    assert (code, answer["platform"]) == (0, "rocm")
    assert [device["pci"] for device in answer["devices"]] == ["0000:03:00.0"]
    (hip.path / "machine" / "root" / "opt" / "rocm" / ".info" / "version").write_text("7.0.2-56\n")
    _, later = hip.doctor()
    assert "hip-unlike-rocm" in {finding["code"] for finding in later["findings"]}
