"""The host's own processors: what is read, what is used, and that nothing heavy is loaded to read it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.stack.cpu import SETTINGS, CpuPlatform
from pytest_accel.stack.loaded import loaded_stack
from pytest_accel.stack.torch_settings import pinned, read
from pytest_accel.stack.types import Device


def test_an_x86_machine_is_read_from_its_files(machines, fixture_text):
    files = {
        "/proc/cpuinfo": fixture_text("cpu/cpuinfo_x86.txt"),
        "/proc/meminfo": "MemTotal:       1000 kB\nMemFree: 1 kB\n",
    }
    found = CpuPlatform().probe(machines.Recorded(files, cpus=frozenset({0, 1, 2})))
    assert found.slug == "cpu-x86_64"
    assert found.hardware["name"] == "Intel(R) Xeon(R) Platinum 8480C"
    assert (found.hardware["cores"], found.hardware["threads"]) == (2, 3)
    assert found.hardware["memory_bytes"] == 1024000
    assert str(found.hardware["isa"]).split() == [
        "avx2",
        "fma",
        "avx512f",
        "avx512_bf16",
        "avx512_fp16",
        "amx_tile",
        "amx_int8",
        "amx_bf16",
    ]
    assert found.versions["microcode"] == "0x2b000620"
    assert (found.versions["driver"], found.versions["toolkit"]) == (None, None)


def test_affinity_and_the_containers_quota_bound_the_cores(machines, fixture_text):
    files = {"/proc/cpuinfo": fixture_text("cpu/cpuinfo_x86.txt")}
    assert CpuPlatform().probe(machines.Recorded(files, cpus=frozenset({0, 1}))).hardware["cores"] == 1
    bounded = {**files, "/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/memory.max": "max\n"}
    hardware = CpuPlatform().probe(machines.Recorded(bounded, cpus=frozenset({0, 2}))).hardware
    assert (hardware["cores"], hardware["cpu_quota"]) == (1, 0.5)


def test_an_arm_machine_is_named_by_its_codes(machines, fixture_text):
    host = machines.Recorded({"/proc/cpuinfo": fixture_text("cpu/cpuinfo_arm.txt")}, machine="aarch64")
    found = CpuPlatform().probe(host)
    assert found.slug == "cpu-aarch64"
    assert found.hardware["name"] == "Arm Neoverse-V2"
    assert found.hardware["cores"] == 2


def test_a_machine_that_tells_nothing_is_still_present_and_guesses_nothing(machines):
    found = CpuPlatform().probe(machines.Recorded())
    assert found.state == "present"
    assert found.hardware["name"] == "unknown CPU"
    assert found.hardware["memory_bytes"] is None
    assert len(found.devices) == 1


def test_library_switches_are_versions_and_none_where_unset(machines):
    host = machines.Recorded(env={"ONEDNN_MAX_CPU_ISA": "AVX2"})
    versions = CpuPlatform().probe(host).versions
    assert versions["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert versions["MKL_ENABLE_INSTRUCTIONS"] is None


def test_probing_the_machine_imports_no_torch_and_is_quick():
    code = (
        "import sys, time\nbegin = time.perf_counter()\n"
        "from pytest_accel.stack.choose import choose\nfrom pytest_accel.stack.host import Host\n"
        "loaded = time.perf_counter()\nmachine = choose('auto', Host(), None)\n"
        "print(machine.platform, 'torch' in sys.modules, 'numpy' in sys.modules, time.perf_counter() - loaded)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[1:3] == ["False", "False"]
    if out[0] == "cpu":
        assert float(out[3]) < 2.0  # 0.02 s on an idle machine; a loaded one must not fail the test


def test_no_roof_and_no_telemetry_are_guessed():
    platform = CpuPlatform()
    device = Device(0, "some CPU")
    assert platform.roof(device) is None
    assert platform.telemetry(None, device).sm_clock_mhz is None


# --- with torch --------------------------------------------------------------------------------------------------------

torch = pytest.importorskip("torch")


def test_the_loaded_stack_joins_what_was_probed_and_what_is_loaded():
    part = {"hardware": {"name": "X"}, "settings": {}, "versions": {"driver": None, "torch": "old", "kernel": "6.8"}}
    stack = loaded_stack(CpuPlatform(), 0, part)
    assert stack.platform == "cpu"
    assert stack.hardware["name"] == "X"
    assert stack.versions["torch"] == torch.__version__
    assert stack.versions["kernel"] == "6.8"
    assert set(SETTINGS) <= set(stack.settings)


def test_the_host_clock_counts_milliseconds():
    platform = CpuPlatform()
    start, end = platform.event(), platform.event()
    start.record()
    torch.ones(8).sum()
    end.record()
    assert 0 < start.elapsed_ms(end) < 10_000


def test_the_device_answers_and_seeding_repeats_numbers():
    platform = CpuPlatform()
    platform.check(0)
    platform.synchronize(0)
    platform.seed(3)
    first = torch.rand(4)
    platform.seed(3)
    assert torch.equal(first, torch.rand(4))
    assert platform.memory(0) == {}
    assert platform.cache_bytes(0) == 0


def test_settings_are_pinned_inside_the_block_and_restored_after_it():
    platform = CpuPlatform()
    before = platform.settings()
    wanted = {
        "num_threads": 1,
        "mkldnn": False,
        "sdp_math": False,
        "deterministic_algorithms": True,
        "float32_matmul_precision": "high",
    }
    with platform.pinned(wanted):
        now = platform.settings()
        assert {name: now[name] for name in wanted} == wanted
    assert platform.settings() == before


def test_settings_are_restored_after_an_error_too():
    platform = CpuPlatform()
    before = platform.settings()
    with (
        pytest.raises(ZeroDivisionError),
        platform.pinned({"mkldnn": False, "flush_denormal": not before["flush_denormal"]}),
    ):
        1 / 0  # noqa: B018
    assert platform.settings() == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"nonsense": 1}, "unknown setting"), ({"mkldnn": 1}, "must be bool"), ({"num_threads": True}, "must be int"),
     ({"float32_matmul_precision": "lowest"}, "cannot be put in force|was pinned to")],
)  # fmt: skip
def test_settings_that_cannot_be_pinned_are_the_users_error_and_change_nothing(settings, words):
    platform = CpuPlatform()
    before = platform.settings()
    with pytest.raises(ConfigError, match=words), platform.pinned(settings):
        pytest.fail("the block must not be entered")
    assert platform.settings() == before


def test_another_platforms_setting_is_passed_over():
    with CpuPlatform().pinned({"allow_tf32": True}):
        assert torch.backends.cuda.matmul.allow_tf32 is False


def test_settings_that_contradict_each_other_are_refused():
    names = ("float32_matmul_precision", "allow_tf32")
    before = read(names)
    with (
        pytest.raises(ConfigError, match="contradict"),
        pinned({"float32_matmul_precision": "high", "allow_tf32": False}, names),
    ):
        pytest.fail("the block must not be entered")
    assert read(names) == before


def test_a_pinned_switch_that_moves_a_broader_setting_gives_it_back():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pinned({"allow_tf32": True}, ("float32_matmul_precision", "allow_tf32")):
            pass
        assert torch.get_float32_matmul_precision() == "medium"
        with pinned({"allow_tf32": False}, ("float32_matmul_precision", "allow_tf32")):
            assert read(("float32_matmul_precision",)) == {"float32_matmul_precision": "highest"}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_old_and_new_ways_of_setting_float32_may_be_mixed():
    """In a process of its own: torch keeps the mixture for good."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has one way only")
    code = (
        "import torch\nfrom pytest_accel.stack.torch_settings import pinned, read\n"
        "from pytest_accel.stack.torch_cuda_like import PINNABLE\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\ntorch.backends.cudnn.conv.fp32_precision = 'ieee'\n"
        "before = read(PINNABLE)\n"
        "assert (before['allow_tf32'], before['cudnn_allow_tf32']) == (True, False), before\n"
        "assert before['float32_matmul_precision'] == 'high', before\n"
        "with pinned({'allow_tf32': False, 'cudnn_allow_tf32': True}, PINNABLE):\n"
        "    now = read(PINNABLE)\n    assert (now['allow_tf32'], now['cudnn_allow_tf32']) == (False, True), now\n"
        "assert read(PINNABLE) == before\nprint('well')"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "well", done.stderr


def test_reading_cuda_settings_needs_no_device():
    from pytest_accel.stack.cuda import CudaPlatform

    settings = CudaPlatform().settings()
    assert settings["overflow_mode"] == "ieee"
    assert settings["launch_blocking"] in (True, False)
    assert settings["allow_tf32"] is False


def test_a_torch_without_cuda_fails_its_check_with_both_views():
    from pytest_accel.stack.cuda import CudaPlatform

    if torch.version.cuda is not None:
        pytest.skip("this torch was built for CUDA")
    with pytest.raises(RuntimeError, match=r"driver.*torch cannot use device 0: .*CUDA"):
        CudaPlatform().check(0)
