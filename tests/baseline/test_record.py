"""Recording: only what is sound, only where nothing stood, never over a value, nothing lost."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.baseline.record import record
from pytest_accel.baseline.store import file_of, load
from pytest_accel.baseline.types import Recordable, StoredEntry

RULES = {
    "time": {"unit": "us", "better": "lower", "kind": "timing"},
    "status": {"better": "equal", "kind": "exact"},
    "flops": {"unit": "1", "kind": "info"},
}
KEY = "s/gemm[n=1]"
HARDWARE = "cpu-x86_64"


def stack(torch: str = "2.13.0", **settings: Any) -> dict[str, Any]:
    return {"hardware": {}, "settings": settings, "versions": {"torch": torch}}


def session(run: str = "r1", **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"metrics": {"time": 1.5, "status": "native"}, "work_version": 1, "digest": "d"}
    where = {"stack": stack(), "machine": "m", "device": "d", "cpu": None}
    return {**base, **where, "run": run, "started": f"2026-01-01T00:00:0{run[1:]}Z", **more}


def result(verdict: str, *sessions: dict[str, Any], key: str = KEY) -> Recordable:
    return Recordable(
        key=key,
        suite="s",
        case="gemm",
        path="s.accel.yaml",
        tier="gate",
        workload="gemm",
        verdict=verdict,
        metrics={},
        rules=RULES,
        sessions=sessions or (session(),),
    )


def entry(root: Path) -> StoredEntry:
    content = load(root, HARDWARE, "s")
    assert content is not None
    return content.entries[KEY]


@pytest.mark.parametrize("verdict", ["REGRESSION", "ENV", "UNMEASURED", "INCONCLUSIVE", "MISSING", "WAIVED", "CONFIG"])
@pytest.mark.parametrize("mode", ["new", "add"])
def test_nothing_but_pass_improved_and_new_is_ever_stored(tmp_path: Path, verdict: str, mode: Any) -> None:
    summary = record(tmp_path, HARDWARE, [result(verdict)], mode)
    assert verdict in summary.left_out[KEY]
    assert not file_of(tmp_path, HARDWARE, "s").exists()


def test_a_bad_run_leaves_the_bytes_of_the_file_alone(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW")])
    path = file_of(tmp_path, HARDWARE, "s")
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    for verdict in ("REGRESSION", "UNMEASURED", "IMPROVED", "PASS"):
        summary = record(tmp_path, HARDWARE, [result(verdict, session("r9", metrics={"time": 99.0, "status": "x"}))])
        assert summary.files == ()
    record(tmp_path, HARDWARE, [replace(result("PASS"), sessions=())], "add")
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == when


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0, "fast", True])
def test_a_value_that_is_no_time_keeps_the_whole_result_out(tmp_path: Path, bad: Any) -> None:
    good = session("r1")
    summary = record(tmp_path, HARDWARE, [result("NEW", good, session("r2", metrics={"time": bad}))])
    if isinstance(bad, str):  # the last value says that the metric holds words, which no timing does elsewhere
        assert "time" in summary.left_out[KEY]
    assert KEY in summary.left_out
    assert not file_of(tmp_path, HARDWARE, "s").exists()


def test_a_non_finite_fact_is_left_out_and_the_rest_stored(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW", session(metrics={"time": 1.0, "flops": math.nan}))])
    assert entry(tmp_path).sessions[0].metrics == {"time": 1.0}


def test_new_writes_only_what_has_no_value_yet(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW", session("r1", metrics={"time": 1.0}))])
    summary = record(tmp_path, HARDWARE, [result("NEW", session("r2", metrics={"time": 1.01, "status": "native"}))])
    assert summary.new_metrics == ((KEY, "status"),)
    assert [dict(s.metrics) for s in entry(tmp_path).sessions] == [{"time": 1.0}, {"status": "native"}]


def test_a_timing_of_another_cpu_model_is_new_there_and_no_value_moves(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW", session("r1", cpu=["A", 8]))])
    summary = record(tmp_path, HARDWARE, [result("NEW", session("r2", cpu=["B", 8]))])
    assert summary.new_metrics == ((KEY, "time"),)
    assert [(s.cpu, dict(s.metrics)) for s in entry(tmp_path).sessions] == [
        (("A", 8), {"time": 1.5, "status": "native"}),
        (("B", 8), {"time": 1.5}),
    ]


def test_add_appends_a_session_only_of_a_pass_on_the_same_versions_and_settings(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW")])
    record(tmp_path, HARDWARE, [result("PASS", session("r2", stack=stack("2.14.0")))], "add")
    record(tmp_path, HARDWARE, [result("PASS", session("r3", stack=stack(tf32=True)))], "add")
    record(tmp_path, HARDWARE, [result("IMPROVED", session("r4"))], "add")
    record(tmp_path, HARDWARE, [result("PASS", session("r5"))], "new")
    assert len(entry(tmp_path).sessions) == 1
    summary = record(tmp_path, HARDWARE, [result("PASS", session("r6"))], "add")
    assert summary.more_sessions == (KEY,)
    assert [s.run for s in entry(tmp_path).sessions] == ["r1", "r6"]


def test_all_sessions_of_one_run_are_stored_and_none_of_them_twice(tmp_path: Path) -> None:
    three = [session("r1", metrics={"time": value}) for value in (1.0, 1.1, 1.2)]
    record(tmp_path, HARDWARE, [result("NEW", *three)])
    for mode in ("new", "add"):
        record(tmp_path, HARDWARE, [result("PASS", *three)], mode)  # type: ignore[arg-type]
    assert sorted(s.metrics["time"] for s in entry(tmp_path).sessions) == [1.0, 1.1, 1.2]


def test_changed_work_is_not_recorded_over_the_entry(tmp_path: Path) -> None:
    record(tmp_path, HARDWARE, [result("NEW")])
    summary = record(tmp_path, HARDWARE, [result("PASS", session("r2", digest="other"))], "add")
    assert "promote" in summary.left_out[KEY]
    assert len(entry(tmp_path).sessions) == 1


WRITER = """
import json, pathlib, sys
from pytest_accel.baseline.record import record
from pytest_accel.baseline.types import Recordable
root, who = pathlib.Path(sys.argv[1]), sys.argv[2]
given = json.loads(sys.argv[3])
for index in range(100):
    record(root, "cpu-x86_64", [Recordable(key=f"s/case[n={index},who={who}]", **given)])
"""


def test_four_processes_recording_at_once_lose_nothing_and_a_reader_sees_only_whole_files(tmp_path: Path) -> None:
    given = {
        "suite": "s",
        "case": "case",
        "path": "s.accel.yaml",
        "tier": "gate",
        "workload": "w",
        "verdict": "NEW",
        "rules": RULES,
        "sessions": [session()],
    }
    path = file_of(tmp_path, HARDWARE, "s")
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(who), json.dumps(given)]) for who in range(4)]
    reads, sizes = 0, [0]
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            content = load(tmp_path, HARDWARE, "s")  # raises for anything but a whole file
            assert content is not None
            sizes.append(len(content.entries))
            reads += 1
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    content = load(tmp_path, HARDWARE, "s")
    assert content is not None
    assert len(content.entries) == 400
    assert sizes == sorted(sizes)
    assert reads > 0
    assert [item.name for item in path.parent.iterdir()] == [path.name]
