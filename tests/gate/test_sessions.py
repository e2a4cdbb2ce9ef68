"""Sessions of a run: spoilt ones are repeated in fresh processes, and a baseline grows until statistics judge."""

from __future__ import annotations

import json

SPOILT = """
import json
from pathlib import Path

from pytest_accel.measure.types import Unfit

def timed(accel, name, spoilt=0, rate=1.0):
    path = Path(f"{name}.json")
    tries = json.loads(path.read_text()) if path.exists() else 0
    path.write_text(json.dumps(tries + 1))
    if tries < spoilt:
        raise Unfit("throttled", "the device was throttled during timing: power")
    return {"time": 1.0}
"""


def test_a_spoilt_session_is_repeated_in_a_fresh_process_and_a_machine_that_stays_unfit_is_env(project):
    project.write("spoilt.py", SPOILT)
    rule = "metrics: {time: {unit: us, better: lower, worse_by: 10%, max: 2.0}}"
    project.suite(f"""
    - name: once
      workload: spoilt:timed
      params: {{name: once, spoilt: 1}}
      {rule}
    - name: always
      workload: spoilt:timed
      params: {{name: always, spoilt: 99}}
      {rule}
    """)
    result = project.run()
    assert result.ret == 10
    assert sorted(project.verdicts().values()) == ["ENV", "PASS"]
    (code,) = (case["code"] for case in project.results["cases"] if case["verdict"] == "ENV")
    assert code == "throttled"
    assert "in the last of 3 fresh processes" in result.stdout.str()
    assert (project.path / "once.json").read_text() == "2"
    assert (project.path / "always.json").read_text() == "3"


def test_entries_name_how_samples_were_reduced_and_old_ones_are_judged_by_medians(project):
    project.write("samples.py", "def timed(accel):\n    return {'time': [1.0] * 10 + [3.0] * 11}\n")
    project.suite("""
    - name: a
      workload: samples:timed
      metrics: {time: {unit: us, better: lower, worse_by: 10%}}
    """)
    project.record()
    path = project.baseline_file()
    data = json.loads(path.read_text())
    entry = data["entries"]["s/a"]
    assert entry["metrics"]["time"]["reduced"] == "q05"
    assert entry["sessions"][0]["metrics"]["time"] == 1.0
    del entry["metrics"]["time"]["reduced"]  # as an older version wrote it, with the median
    entry["sessions"][0]["metrics"]["time"] = 3.0
    path.write_text(json.dumps(data))
    assert project.run("--accel-record=add").ret == 0
    assert project.results["cases"][0]["metrics"]["time"]["value"] == 3.0
    added = json.loads(path.read_text())["entries"]["s/a"]
    assert [session["metrics"]["time"] for session in added["sessions"]] == [3.0, 3.0]
    assert "reduced" not in added["metrics"]["time"]
