"""The same with torch and the host's own platform: what every machine has."""

from __future__ import annotations

import time

import pytest

from pytest_accel.runner.runner import Runner
from pytest_accel.runner.types import Request

WORK = """
import sys

def noop(accel):
    return {"a": 1}

def tensors(accel, n):
    import torch
    torch.set_num_threads(torch.get_num_threads())
    x = torch.randn(n, device=accel.device)
    return {"scalar": x.sum(), "samples": x, "float": x.double().sum().item()}

def loaded(accel):
    return {name: int(name in sys.modules) for name in ("pytest", "pydantic", "rich")}

def broken(accel):
    import torch
    torch.ones(2, 3) @ torch.ones(2, 3)
"""


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "work_on_torch.py").write_text(WORK, encoding="utf-8")
    with Runner("cpu", 0, probe_part={"hardware": {"name": "here"}}) as made:
        yield made


def request_of(name, **params):
    return Request(name, f"work_on_torch:{name}", params, {}, 60.0)


def test_tensors_become_numbers_and_every_session_has_the_same_data(runner):
    torch = pytest.importorskip("torch")
    one, two = (runner.measure(request_of("tensors", n=8), fresh=fresh) for fresh in (False, True))
    assert one.outcome == "measured", one
    assert one.metrics == two.metrics
    assert one.metrics["scalar"] == pytest.approx(one.metrics["float"], rel=1e-5)
    assert len(one.metrics["samples"]) == 8
    assert one.stack["versions"]["torch"] == torch.__version__
    assert one.stack["hardware"]["name"]
    assert one.pid != two.pid


def test_a_real_process_is_quick_lean_and_outlives_no_error(runner):
    assert set(runner.measure(request_of("loaded")).metrics.values()) == {0}
    took = []
    for _ in range(200):
        begin = time.perf_counter()
        assert runner.measure(request_of("noop")).outcome == "measured"
        took.append(time.perf_counter() - begin)
    print(f"round trip: least {min(took) * 1e3:.3f} ms, median {sorted(took)[100] * 1e3:.3f} ms")
    assert min(took) < 1e-3
    broken = runner.measure(request_of("broken"))
    assert broken.outcome == "error"
    assert "in broken" in broken.detail


POISON = """
def outside(accel, n):
    import torch
    where = torch.full((4,), n, device=accel.device, dtype=torch.int64)
    return {"n": torch.zeros(4, device=accel.device)[where].sum()}
"""


def accelerators_here():
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.registry import names, platform

    return [name for name in names() if platform(name).device_type != "cpu" and platform(name).probe(Host()).devices]


def test_a_device_side_assertion_costs_one_variant_of_ten(tmp_path, monkeypatch):
    found = accelerators_here()
    if not found:
        pytest.skip("no accelerator on this machine")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "work_that_poisons.py").write_text(POISON, encoding="utf-8")
    with Runner(found[0], 0) as runner:
        results = [
            runner.measure(Request(str(n), "work_that_poisons:outside", {"n": 10**6 if n == 3 else 0}, {}, 60.0))
            for n in range(1, 11)
        ]
    print([(result.outcome, result.code, result.reason) for result in results])
    assert [result.outcome for result in results].count("measured") == 9
    assert results[2].code in ("poisoned", "crash")
