"""Memory through the whole gate: a doubled peak and a leak are REGRESSION, with time unchanged."""

from __future__ import annotations

STEPS = """
import json, pathlib, time
import torch

def state(name):
    path = pathlib.Path("state.json")
    return json.loads(path.read_text()).get(name, 0) if path.exists() else 0

def work(accel):
    count = 2 if state("doubled") else 1
    def step():
        blocks = [torch.empty(16_000_000) for _ in range(count)]
        for block in blocks: block[0] = 1.0
        time.sleep(0.005)
    return step

kept = []
def serve(accel):
    began, held = time.perf_counter(), 0
    def step(length):
        nonlocal held
        torch.ones(length, 64)
        while state("leaking") and held < 300e6 / 3600 * (time.perf_counter() - began):
            kept.append(torch.ones(5000))
            held += 20_000
        time.sleep(0.001)
    return step
"""
SUITE = """
- name: peak
  workload: memory_peak
  params: {implementation: "steps:work", cap: 1GiB}
  metrics: {time: {worse_by: 100%}}
- name: soak
  workload: memory_soak
  params: {implementation: "steps:serve", minutes: 0.04}
"""


def test_a_doubled_peak_and_a_leak_fail_and_the_time_does_not(project):
    project.write("steps.py", STEPS)
    project.suite(SUITE)
    project.record()
    peak, soak = project.results["cases"]
    assert abs(peak["metrics"]["peak_allocated"]["value"] - 64) < 4
    assert 0 < peak["metrics"]["cap_share"]["value"] < 10
    assert soak["verdict"] == "PASS", "a soak is judged by its own limit, without a baseline"
    assert 60 <= soak["metrics"]["smallest"]["value"] < 300

    project.state(doubled=1, leaking=1)
    result = project.run()
    assert result.ret == 1
    peak, soak = project.results["cases"]
    assert peak["code"] == "memory"
    assert peak["verdict"] == soak["verdict"] == "REGRESSION"
    worse = {name for name, metric in peak["metrics"].items() if metric["verdict"] == "REGRESSION"}
    assert worse == {"peak_allocated"}
    assert peak["metrics"]["time"]["verdict"] == "PASS"
    assert peak["metrics"]["peak_allocated"]["change"] > 0.9
    assert soak["metrics"]["leak"]["value"] > 200
    assert soak["metrics"]["hours_to_oom"]["value"] > 0
    result.stdout.fnmatch_lines(["*leak: * MB/h breaks its limit max 0 MB/h*", "*hours_to_oom: * h"])
