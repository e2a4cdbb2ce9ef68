"""Modules and kernels: differing halves, builds for another kernel, failed builds, and what the next start will break."""

from __future__ import annotations

import pytest

from pytest_accel.stack.doctor.readings import Build, build_logs, dkms_builds, has_module, kernels, loaded_module

RUNS, NEXT = "6.8.0-79-generic", "6.8.0-90-generic"
NVRM = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@host)  Tue Sep 23\n"
    "GCC version:  gcc version 11.4.0\n"
)
GPL_LOG = f"""DKMS make.log for nvidia-470.57.02 for kernel {NEXT} (x86_64)
make[1]: Entering directory '/usr/src/linux-headers-{NEXT}'
  MODPOST Module.symvers
ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'
make[3]: *** [scripts/Makefile.modpost:145: Module.symvers] Error 1
"""


def built(module="nvidia", version="580.95.05", *kernels):
    return tuple(Build(module, version, kernel) for kernel in kernels or (RUNS,))


# --- kernel module and user space ----------------------------------------------------------------------------------------
def test_a_kernel_module_unlike_the_libraries_on_disk_is_told_where_no_tool_answers(doctor):
    files = {"/proc/driver/nvidia/version": NVRM, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04": ""}
    found = doctor.run("driver_mismatch", doctor.probe("cuda", "broken"), host=doctor.Host(files))
    assert doctor.codes(found) == [("driver-mismatch", "error")]
    assert "580.95.05" in found[0].message
    assert "580.159.04" in found[0].message


@pytest.mark.parametrize("library", ["/usr/lib64/libnvidia-ml.so.580.95.05", "/usr/lib64/libcuda.so.1", None])
def test_libraries_that_fit_or_are_not_told_are_no_mismatch(doctor, library):
    host = doctor.Host({"/proc/driver/nvidia/version": NVRM, **({library: ""} if library else {})})
    assert not doctor.run("driver_mismatch", doctor.probe("cuda", "broken"), host=host)


def test_where_the_tool_answered_files_do_not_contradict_it(doctor):
    host = doctor.Host({"/proc/driver/nvidia/version": NVRM, "/usr/lib64/libcuda.so.570.26": ""})
    live = doctor.probe("cuda", versions={"driver": "580.95.05", "driver_user": "580.95.05"})
    assert not doctor.run("driver_mismatch", live, host=host)


def test_a_newer_module_that_waits_for_the_next_start_is_told(doctor):
    host = doctor.Host({"/sys/module/amdgpu/version": "6.12.12\n"})
    waiting = built("amdgpu", "6.16.6-2255209.24.04")
    found = doctor.run("module_not_reloaded", doctor.probe("rocm"), host=host, builds=waiting)
    assert doctor.codes(found) == [("module-not-reloaded", "warning")]
    host = doctor.Host({"/sys/module/amdgpu/version": "6.16.6\n"})
    assert not doctor.run("module_not_reloaded", doctor.probe("rocm"), host=host, builds=waiting)
    assert not doctor.run("module_not_reloaded", doctor.probe("rocm"), host=doctor.Host(), builds=waiting)


# --- kernel changed under a module ---------------------------------------------------------------------------------------
VERMAGIC = (
    f"[    5.1] nvidia: version magic '{NEXT} SMP preempt mod_unload modversions ' should be "
    f"'{RUNS} SMP preempt mod_unload modversions '\n"
)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (VERMAGIC, NEXT),
        ("modprobe: ERROR: could not insert 'nvidia': Invalid module format\n", "Invalid module format"),
        ("systemd-modules-load[312]: Failed to insert module 'amdgpu': Exec format error\n", "Exec format error"),
    ],
)
def test_the_kernels_words_for_a_module_of_another_kernel_are_known(doctor, log, words):
    found = doctor.run("module_for_another_kernel", doctor.probe("cuda", "broken"), kernel_log=log)
    assert doctor.codes(found) == [("module-for-another-kernel", "error")]
    assert words in found[0].message


def test_an_unsigned_module_has_a_code_of_its_own(doctor):
    log = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
    found = doctor.run("module_for_another_kernel", doctor.probe("cuda", "broken"), kernel_log=log)
    assert doctor.codes(found) == [("module-not-signed", "error")]


def test_a_module_built_only_for_another_kernel_explains_a_broken_device(doctor):
    found = doctor.run("module_for_another_kernel", doctor.probe("cuda", "broken"), builds=built("nvidia", "580", NEXT))
    assert doctor.codes(found) == [("module-for-another-kernel", "error")]
    assert RUNS in found[0].message
    assert NEXT in found[0].message


def test_a_live_device_a_hidden_one_or_an_old_log_is_no_module_of_another_kernel(doctor):
    rule, other = "module_for_another_kernel", built("nvidia", "580", NEXT)
    assert not doctor.run(rule, doctor.probe("cuda"), kernel_log=VERMAGIC, builds=other)
    hidden = doctor.probe("cuda", "broken", hardware={"hidden_devices": 1})
    assert not doctor.run(rule, hidden, kernel_log=VERMAGIC, builds=other)
    stale = VERMAGIC.replace(RUNS, "5.15.0-1-generic")
    assert not doctor.run(rule, doctor.probe("cuda", "broken"), kernel_log=stale, builds=built())


# --- failed builds -------------------------------------------------------------------------------------------------------
def test_a_build_that_needs_a_gpl_only_symbol_is_named_with_its_kernel(doctor):
    host = doctor.Host({"/var/lib/dkms/nvidia/470.57.02/build/make.log": GPL_LOG})
    assert [kernel for _, kernel, _ in build_logs(host)] == [NEXT]
    found = doctor.run("build_failed", doctor.probe("cuda"), host=host)
    assert doctor.codes(found) == [("module-build-failed", "warning")]
    assert "rcu_read_unlock_strict" in found[0].message
    assert NEXT in found[0].message
    broken = doctor.run("build_failed", doctor.probe("cuda", "broken"), host=host, kernel=NEXT)
    assert doctor.codes(broken) == [("module-build-failed", "error")]


def test_any_other_compile_error_is_told_in_its_own_words(doctor):
    log = f"DKMS make.log for amdgpu-6.10.5 for kernel {NEXT} (x86_64)\n/x/y.c:12:5: error: too few arguments\n"
    host = doctor.Host({"/var/lib/dkms/amdgpu/6.10.5/build/make.log": log})
    (found,) = doctor.run("build_failed", doctor.probe("rocm"), host=host)
    assert "too few arguments" in found.message


def test_a_log_without_error_or_of_a_module_that_was_built_since_is_silent(doctor):
    path = "/var/lib/dkms/nvidia/470.57.02/build/make.log"
    quiet = doctor.Host({path: f"DKMS make.log for nvidia-470.57.02 for kernel {NEXT} (x86_64)\nLD nvidia.ko\n"})
    assert not doctor.run("build_failed", doctor.probe("cuda"), host=quiet)
    host = doctor.Host({path: GPL_LOG})
    since = built("nvidia", "470.57.02", NEXT)
    assert not doctor.run("build_failed", doctor.probe("cuda"), host=host, builds=since)
    assert not doctor.run("build_failed", doctor.probe("cuda", "absent"), host=host)


# --- before it breaks ----------------------------------------------------------------------------------------------------
BOOT = {f"/boot/vmlinuz-{RUNS}": "", f"/boot/vmlinuz-{NEXT}": "", "/boot/vmlinuz.old": ""}


def test_a_newer_kernel_without_a_build_is_told_before_the_next_start(doctor):
    host = doctor.Host(BOOT)
    assert kernels(host) == (RUNS, NEXT)
    found = doctor.run("kernel_without_module", doctor.probe("cuda"), host=host, builds=built())
    assert doctor.codes(found) == [("kernel-without-module", "warning")]
    assert NEXT in found[0].message
    both = built("nvidia", "580.95.05", RUNS, NEXT)
    assert not doctor.run("kernel_without_module", doctor.probe("cuda"), host=host, builds=both)
    assert not doctor.run("kernel_without_module", doctor.probe("cuda"), host=host, builds=())
    assert not doctor.run("kernel_without_module", doctor.probe("cuda"), host=host, builds=built(), kernel=NEXT)


def test_the_list_of_a_kernels_modules_tells_as_well_and_in_tree_amdgpu_does_not_count(doctor):
    host = doctor.Host(
        {
            **BOOT,
            f"/lib/modules/{RUNS}/modules.dep": "updates/dkms/amdgpu.ko.zst: kernel/x.ko\nkernel/nvidia-570/nvidia.ko:\n",
            f"/lib/modules/{NEXT}/modules.dep": "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst: kernel/x.ko\n",
        }
    )
    assert has_module(host, RUNS, "amdgpu") is True
    assert has_module(host, NEXT, "amdgpu") is False
    assert has_module(host, RUNS, "nvidia") is True
    assert has_module(host, "5.0", "nvidia") is None
    assert doctor.run("kernel_without_module", doctor.probe("rocm"), host=host)
    assert doctor.run("kernel_without_module", doctor.probe("cuda"), host=host)


ON = {"/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n'}
HELD = "Package: linux-image-generic\nStatus: hold ok installed\nPriority: optional\n"


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        ({}, True),
        ({"/var/lib/dpkg/status": HELD.replace("hold", "install")}, True),
        ({"/var/lib/dpkg/status": HELD}, False),
        (
            {"/etc/apt/apt.conf.d/50unattended-upgrades": 'Unattended-Upgrade::Package-Blacklist {\n  "linux-";\n};\n'},
            False,
        ),
        (
            {
                "/etc/apt/apt.conf.d/50unattended-upgrades": 'Unattended-Upgrade::Package-Blacklist {\n//  "linux-";\n};\n'
            },
            True,
        ),
        ({"/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "0";\n'}, False),
        ({"/etc/apt/apt.conf.d/99off.bak": 'APT::Periodic::Unattended-Upgrade "0";\n'}, True),
        ({"/etc/apt/apt.conf.d/99off": 'APT::Periodic::Unattended-Upgrade "0";\n'}, False),
    ],
)
def test_unattended_upgrades_with_kernels_that_are_not_held_are_told(doctor, more, fires):
    found = doctor.run("kernel_upgrades_by_itself", doctor.probe("cuda"), host=doctor.Host({**ON, **more}))
    assert doctor.codes(found) == ([("kernel-upgrades-by-itself", "warning")] if fires else [])


def test_automatic_updates_of_the_other_family_are_told_as_well(doctor):
    on = {"/etc/dnf/automatic.conf": "[commands]\napply_updates = yes\n"}
    assert doctor.run("kernel_upgrades_by_itself", doctor.probe("rocm"), host=doctor.Host(on))
    held = {**on, "/etc/dnf/dnf.conf": "[main]\nexclude=kernel*\n"}
    assert not doctor.run("kernel_upgrades_by_itself", doctor.probe("rocm"), host=doctor.Host(held))
    assert not doctor.run("kernel_upgrades_by_itself", host=doctor.Host(on))


# --- readings ------------------------------------------------------------------------------------------------------------
STATUS = (
    "amdgpu/6.16.6-2255209.24.04, 6.8.0-88-generic, x86_64: installed (Original modules exist)\n"
    "nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed\n"
    "nvidia/580.95.05: added\n"
)


def test_dkms_is_read_from_its_folders_and_from_its_tool_only_where_it_may_be_asked(doctor):
    folders = doctor.Host(doctor.dkms("nvidia", "580.95.05", RUNS, NEXT))
    assert dkms_builds(folders, ask_tool=True) == built("nvidia", "580.95.05", RUNS, NEXT)
    tool = doctor.Host(commands={"dkms status": doctor.Result(0, STATUS, "")})
    assert dkms_builds(tool, ask_tool=False) == ()
    assert tool.ran == []
    assert dkms_builds(tool, ask_tool=True) == (
        Build("amdgpu", "6.16.6-2255209.24.04", "6.8.0-88-generic"),
        Build("nvidia", "470.57.02", "5.4.0-80-generic"),
    )


def test_distributions_names_for_the_module_are_known_and_other_modules_are_not_it(doctor):
    files = {
        **doctor.dkms("nvidia-current", "550.163.01", RUNS),
        **doctor.dkms("nvidia-fs", "2.24.2", RUNS),
        f"/lib/modules/{NEXT}/modules.dep": "updates/dkms/nvidia-current.ko.xz:\nupdates/dkms/nvidia-fs.ko:\n",
        f"/lib/modules/{RUNS}/modules.dep": "updates/dkms/nvidia-fs.ko:\nupdates/dkms/nvidia-uvm.ko:\n",
    }
    assert dkms_builds(doctor.Host(files), ask_tool=False) == built("nvidia", "550.163.01")
    assert has_module(doctor.Host(files), NEXT, "nvidia") is True
    assert has_module(doctor.Host(files), RUNS, "nvidia") is False


def test_a_loaded_module_without_a_version_is_none(doctor):
    assert loaded_module(doctor.Host({"/sys/module/amdgpu/srcversion": "6CCB"}), "amdgpu") is None
    assert loaded_module(doctor.Host({"/proc/driver/nvidia/version": NVRM}), "nvidia") == "580.95.05"
