"""Two simulated devices under pytest-xdist: a worker a device, and the same verdicts as without it."""

from __future__ import annotations


def told(run):
    """The cases without what may differ: who measured when, on which device, and how fast."""
    return {
        key: (case["verdict"], case["code"], {name: m["verdict"] for name, m in case["metrics"].items()})
        for key, case in run.cases.items()
    }


def test_auto_is_one_worker_a_device_each_seeing_one_and_the_verdicts_are_those_of_one_process(judged):
    two = judged.with_devices(2)
    path = two.path / "own.accel.yaml"
    path.write_text(path.read_text() + "- {name: seen, workload: 'work:seen', metrics: {seen: {equals: 1}}}\n")
    with (two.path / "work.py").open("a") as stream:
        stream.write("\n\ndef seen(accel):\n    return {'seen': torch.npu.device_count()}\n")
    args = ("own.accel.yaml", "-k", "largest or kept or lgamma or sin or seen")
    spread = two.run(*args, jobs="auto", unsupported="lgamma")
    alone = two.run(*args, unsupported="lgamma", ASCEND_RT_VISIBLE_DEVICES="0")
    assert {(case["worker"], case["device"]) for case in spread.cases.values()} == {("gw0", "npu:0"), ("gw1", "npu:1")}
    assert spread.code == alone.code == 1, spread.out
    assert spread.faults == {"one[op=lgamma]": ("REGRESSION", "unsupported")}
    assert told(spread) == told(alone)
    assert spread.cases["seen"]["verdict"] == "PASS"


def test_the_callers_list_is_respected(judged):
    run = judged.with_devices(2).run(
        "own.accel.yaml", "-k", "largest or kept", jobs="auto", ASCEND_RT_VISIBLE_DEVICES="1"
    )
    assert run.code == 0, run.out
    assert {case["worker"] for case in run.cases.values()} == {"gw0"}
