"""``--accel``: which platform a run judges on, and when the machine may not judge."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.stack import registry
from pytest_accel.stack.choose import choose, machine_id, mixed_models
from pytest_accel.stack.common import hashed
from pytest_accel.stack.registry import names, platform, settings_known


def cuda_host(machines, **more):
    return machines.Recorded(
        more.pop("files", {}), libraries={"pynvml": more.pop("nvml", None) or machines.Nvml()}, **more
    )


def test_auto_takes_the_accelerator_that_is_there(machines):
    machine = choose("auto", cuda_host(machines), None)
    assert (machine.platform, machine.explicit, machine.unfit) == ("cuda", False, None)
    assert machine.why == "cuda: 1 × NVIDIA H200, driver 580.105.08"


def test_auto_without_an_accelerator_is_the_cpu_and_says_so(machines):
    machine = choose("auto", machines.Recorded(), None)
    assert (machine.platform, machine.unfit) == ("cpu", None)
    assert machine.why.startswith("no accelerator found, so the CPU is measured")
    assert all(name in machine.why for name in ("cuda", "rocm", "ascend"))


def test_auto_with_a_broken_accelerator_is_unfit_and_never_the_cpu(machines):
    machine = choose("auto", cuda_host(machines, nvml=machines.Nvml(wrong=18)), None)
    assert machine.platform == "cuda"
    assert machine.unfit is not None
    code, sentence = machine.unfit
    assert code == "accelerator-broken"
    assert "version mismatch" in sentence
    assert "reboot" in sentence


def test_a_named_accelerator_that_is_absent_is_unfit(machines):
    for name in ("cuda", "rocm", "ascend"):
        machine = choose(name, machines.Recorded(), None)
        assert (machine.platform, machine.explicit) == (name, True)
        assert machine.unfit is not None
        assert machine.unfit[0] == "accelerator-absent"
        assert "not here" in machine.unfit[1]


def test_a_named_accelerator_that_is_broken_is_unfit(machines):
    machine = choose("cuda", cuda_host(machines, nvml=machines.Nvml(wrong=999)), None)
    assert machine.unfit is not None
    assert machine.unfit[0] == "accelerator-broken"


def test_devices_hidden_by_the_users_own_variable(machines):
    host = cuda_host(machines, env={"CUDA_VISIBLE_DEVICES": ""})
    named = choose("cuda", host, None)
    assert named.unfit is not None
    assert "hides all 1 device(s)" in named.unfit[1]
    auto = choose("auto", host, None)
    assert (auto.platform, auto.unfit) == ("cpu", None)
    assert "CUDA_VISIBLE_DEVICES='' hides all 1 device(s)" in auto.why


def test_a_variable_that_names_a_device_that_is_not_there_is_unfit_under_auto_too(machines):
    machine = choose("auto", cuda_host(machines, env={"CUDA_VISIBLE_DEVICES": "7"}), None)
    assert machine.platform == "cuda"
    assert machine.unfit is not None


def test_fewer_devices_than_asked_for_are_told_with_both_numbers(machines):
    machine = choose("auto", cuda_host(machines), 8)
    assert machine.unfit is not None
    assert machine.unfit[0] == "too-few-devices"
    assert "8 devices" in machine.unfit[1]
    assert "1 usable" in machine.unfit[1]
    assert choose("auto", cuda_host(machines), 1).unfit is None
    assert choose("cpu", machines.Recorded(), 2).unfit is not None


def amd_files(machines, text):
    return {
        **machines.pci_files("0000:03:00.0", "1002", "74a1", "0x120000", "amdgpu"),
        "/sys/module/amdgpu/initstate": "live",
        "/dev/kfd": "",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": text,
    }


def test_two_accelerators_under_auto_must_be_chosen_from(machines, fixture_text):
    files = amd_files(machines, fixture_text("amd/kfd_mi300x.txt"))
    machine = choose("auto", cuda_host(machines, files=files), None)
    assert machine.unfit is not None
    assert machine.unfit[0] == "accelerator-ambiguous"
    assert "--accel" in machine.unfit[1]
    assert choose("cuda", cuda_host(machines, files=files), None).unfit is None


@pytest.mark.parametrize(("cuda", "hip", "chosen"), [("'13.0'", "None", "cuda"), ("None", "'7.2.1'", "rocm")])
def test_the_installed_torch_decides_between_two_accelerators(machines, fixture_text, cuda, hip, chosen):
    machine = choose(
        "auto",
        cuda_host(
            machines,
            files=amd_files(machines, fixture_text("amd/kfd_mi300x.txt")),
            packages={"torch": "2.13.0"},
            package_files={
                ("torch", "torch/version.py"): f"cuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
            },
        ),
        None,
    )
    assert machine.platform == chosen
    assert machine.unfit is None


def test_an_error_beside_a_device_that_answers_makes_the_machine_unfit(machines):
    machine = choose(
        "auto", cuda_host(machines, nvml=machines.Nvml(cards=[machines.Card(), machines.Card(broken=15)])), None
    )
    assert machine.unfit is not None
    assert "device-lost" in machine.unfit[1]


def test_an_accelerator_that_the_baseline_knows_and_that_is_gone_is_unfit(machines):
    machine = choose("auto", machines.Recorded(), None, baseline_hint="nvidia-h200")
    assert machine.unfit is not None
    assert machine.unfit[0] == "accelerator-gone"
    assert "nvidia-h200" in machine.unfit[1]
    assert choose("auto", machines.Recorded(), None, baseline_hint="cpu-x86_64").unfit is None


def test_mixed_models_are_named(machines):
    other = machines.Card(name="NVIDIA L4", uuid="GPU-b", device=0x27B810DE)
    host = cuda_host(machines, nvml=machines.Nvml(cards=[machines.Card(), other]))
    assert mixed_models(choose("auto", host, None)) == ("NVIDIA H200", "NVIDIA L4")
    assert mixed_models(choose("auto", cuda_host(machines), None)) == ()


def test_the_machines_id_is_a_hash_and_stable(machines):
    one = machines.Recorded({"/etc/machine-id": "0123456789abcdef0123456789abcdef\n"})
    board = machines.Recorded({"/etc/machine-id": "uninitialized\n", "/sys/class/dmi/id/product_uuid": "ABC\n"})
    ids = {machine_id(one), machine_id(board), machine_id(machines.Recorded())}
    assert len(ids) == 3
    assert all(len(name) == 16 for name in ids)
    assert machine_id(one) == machine_id(one)
    assert "0123456789abcdef" not in ids


def test_platforms_are_known_by_name_and_an_unknown_one_is_a_users_error():
    assert names()[:3] == ("cuda", "rocm", "ascend")
    assert names()[-1] == "cpu"
    assert [platform(name).name for name in names()] == list(names())
    with pytest.raises(ConfigError, match="unknown platform 'tpu'"):
        platform("tpu")
    with pytest.raises(ConfigError):
        choose("tpu", None, None)


def test_the_settings_that_a_suite_may_pin_are_known_for_every_platform():
    known = settings_known()
    assert set(known) == set(names())
    assert known["cuda"]["allow_tf32"] is bool
    assert known["cpu"]["num_threads"] is int
    assert "allow_tf32" not in known["cpu"]


MACHINE = {"/etc/machine-id": "0123456789abcdef0123456789abcdef\n"}


def nic(name, address, assigned="0", bus=True, **files):
    base = f"/sys/class/net/{name}"
    told = {f"{base}/address": f"{address}\n", f"{base}/addr_assign_type": f"{assigned}\n"}
    return {**told, **({f"{base}/device/vendor": "0x15b3\n"} if bus else {}), **files}


def test_clones_of_one_image_are_told_apart_by_their_network_cards(machines):
    one = machines.Recorded({**MACHINE, **nic("eth0", "52:54:00:00:00:01")})
    two = machines.Recorded({**MACHINE, **nic("eth0", "52:54:00:00:00:02")})
    assert len({machine_id(one), machine_id(two), machine_id(machines.Recorded(MACHINE))}) == 3


def test_a_renamed_card_a_new_kernel_and_another_user_leave_the_machines_id(machines):
    files = {**MACHINE, **nic("eth0", "b8:ce:f6:00:00:01"), "/sys/class/dmi/id/product_uuid": None}
    one = machines.Recorded(files, kernel="5.15.0")
    renamed = {**MACHINE, **nic("enp3s0", "B8:CE:F6:00:00:01"), "/sys/class/dmi/id/product_uuid": "4C4C4544\n"}
    assert machine_id(one) == machine_id(machines.Recorded(renamed, kernel="6.8.0"))


@pytest.mark.parametrize(
    "other",
    [
        nic("docker0", "02:42:00:00:00:01", bus=False),
        nic("usb0", "0a:00:00:00:00:01", bus=False),
        nic("eth9", "00:00:00:00:00:09", assigned="1"),
        nic("ib0", "20:00:10:86:fe:80:00:00:00:00:00:00:00:11:22:33:44:55:66:77"),
        nic("eth9", "00:00:00:00:00:00"),
        nic("virt0", "02:00:00:00:00:01"),
    ],
)
def test_interfaces_that_come_and_go_are_no_part_of_it(machines, other):
    own = {**MACHINE, **nic("eth0", "b8:ce:f6:00:00:01")}
    assert machine_id(machines.Recorded({**own, **other})) == machine_id(machines.Recorded(own))


def test_a_bond_tells_the_cards_own_address(machines):
    lent = {"/sys/class/net/eth1/bonding_slave/perm_hwaddr": "b8:ce:f6:00:00:01\n"}
    bonded = {**MACHINE, **nic("eth1", "b8:ce:f6:00:00:77", "3", **lent)}
    assert machine_id(machines.Recorded(bonded)) == machine_id(
        machines.Recorded({**MACHINE, **nic("eth1", "b8:ce:f6:00:00:01")})
    )


def test_without_a_card_the_hypervisors_or_the_boards_id_counts_and_fillers_do_not(machines):
    plain = machine_id(machines.Recorded(MACHINE))
    assert machine_id(machines.Recorded({**MACHINE, "/sys/hypervisor/uuid": "ec2a1b2c\n"})) != plain
    assert machine_id(machines.Recorded({**MACHINE, "/sys/class/dmi/id/board_serial": "XYZ123\n"})) != plain
    assert (
        machine_id(machines.Recorded({**MACHINE, "/sys/class/dmi/id/board_serial": "To be filled by O.E.M.\n"}))
        == plain
    )
    # What baselines hold from before there was a second ingredient still names a machine that has none.
    assert plain == hashed("pytest-accel machine 0123456789abcdef0123456789abcdef")


@pytest.fixture
def outside(monkeypatch):
    """A package that brings a platform ``other``, as ``module:Class``; the registry forgets it afterwards."""

    def bring(path):
        point = SimpleNamespace(name="other", value=path)
        monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [point])
        registry._classes.cache_clear()
        registry.platform.cache_clear()

    yield bring
    monkeypatch.undo()
    registry._classes.cache_clear()
    registry.platform.cache_clear()


class Raises(type(platform("cpu"))):
    name = "other"

    def probe(self, host):
        raise OSError("libother.so: bad ELF")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module:Platform", "No module named 'no_such_module'"),
        ("json:Platform", "has no attribute 'Platform'"),
        ("fractions:Fraction", "lacks name, device_type"),
        (f"{__name__}:Raises", "libother.so: bad ELF"),
    ],
)
def test_a_platform_whose_module_is_broken_costs_no_other_platform(machines, outside, monkeypatch, path, words):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    outside(path)
    assert names()[-2:] == ("other", "cpu")
    machine = choose("auto", cuda_host(machines), None)
    assert (machine.platform, machine.unfit) == ("cuda", None)
    (warning,) = (finding for finding in machine.probe.findings if finding.code == "platform-broken")
    assert warning.severity == "warning"
    assert words in warning.message
    assert choose("cpu", machines.Recorded(), None).unfit is None
    assert set(settings_known()) == set(names())


def test_a_broken_platform_with_no_other_accelerator_is_env_and_never_a_quiet_cpu_run(machines, outside):
    outside("no_such_module:Platform")
    machine = choose("auto", machines.Recorded(), None)
    assert machine.platform == "cpu"
    assert machine.unfit is not None
    assert machine.unfit[0] == "platform-broken"
    assert "no_such_module" in machine.unfit[1]
    assert "--accel=cpu" in machine.unfit[1]
    with pytest.raises(ConfigError, match="no_such_module"):
        choose("other", machines.Recorded(), None)
