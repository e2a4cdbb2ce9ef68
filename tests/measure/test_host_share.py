"""What the host spends, apart from the device's time: launches, first calls, graphs."""

from __future__ import annotations

import pytest

from pytest_accel.measure import host as module

pytest.importorskip("torch")


@pytest.fixture
def machine(monkeypatch):
    """A host that takes 7 us to launch, and a device that is done 500 us after the last launch."""

    class Machine:
        now = 0.0
        launches = 0

        def perf_counter(self):
            return self.now

        def launch(self):
            self.launches += 1
            self.now += 7e-6
            return "result"

        def synchronize(self):
            self.now += 500e-6

    made = Machine()
    monkeypatch.setattr(module, "time", made)
    return made


def test_the_hosts_time_for_a_launch_is_not_the_devices_time_for_the_work(machine):
    assert module.launch_us(machine.launch, machine.synchronize, call_us=50.0) == pytest.approx(7.0)
    assert machine.launches == module.CALLS * module.ROUNDS


def test_slow_work_is_launched_few_times(machine):
    module.launch_us(machine.launch, machine.synchronize, call_us=1e5)
    assert machine.launches == module.ROUNDS


def test_the_first_call_is_timed_to_its_end(machine):
    returned, us = module.first_call(machine.launch, machine.synchronize)
    assert returned == "result"
    assert us == pytest.approx(507.0)


def test_where_the_host_is_the_device_there_is_no_launch_to_time(make_accelerator):
    assert make_accelerator().launch_us(lambda: None, 1.0) is None


def test_a_platform_without_graphs_says_so_and_one_with_them_replays_the_work(make_accelerator, fake_platform):
    calls = []
    assert make_accelerator().graph(lambda: calls.append(1)) is None
    fake_platform.graphs = True
    replay = make_accelerator().graph(lambda: calls.append(1))
    replay()
    assert calls == [1]


def test_a_process_that_sees_one_device_has_one(make_accelerator):
    assert [str(device) for device in make_accelerator().devices()] == ["cpu"]
