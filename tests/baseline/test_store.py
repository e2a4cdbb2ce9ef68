"""Baseline files: text that merges, values that are checked, one folder a hardware."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.baseline.match import entry_view, find_device, find_machine, nearest
from pytest_accel.baseline.record import record
from pytest_accel.baseline.schema import SCHEMA, parse, to_text
from pytest_accel.baseline.store import (
    file_of,
    hardware_in,
    load,
    looks_like_baselines,
    newest,
    stack_hash,
    suites_in,
)
from pytest_accel.baseline.types import Recordable
from pytest_accel.errors import ConfigError

HARDWARE = "nvidia-h200"
KEY = "s/gemm[n=1]"


def stack(**settings: Any) -> dict[str, Any]:
    return {"hardware": {"name": "X"}, "settings": settings, "versions": {"torch": "2.13.0"}}


def session(value: Any = 1.5, **more: Any) -> dict[str, Any]:
    base = {"metrics": {"time": value}, "work_version": 1, "digest": "d", "stack": stack(tf32=False), "cpu": None}
    return {**base, "machine": "m1", "device": "d1", "run": "r1", "started": "2026-01-01T00:00:00Z", **more}


def result(key: str = KEY, verdict: str = "NEW", **more: Any) -> Recordable:
    given: dict[str, Any] = {
        "suite": "s",
        "case": "gemm",
        "path": "suites/s.accel.yaml",
        "tier": "gate",
        "workload": "gemm",
        "metrics": {"time": {"verdict": verdict}},
        "rules": {"time": {"unit": "us", "better": "lower", "kind": "timing"}},
        "sessions": [session()],
    }
    return Recordable(key=key, verdict=verdict, **{**given, **more})


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The path of a baseline file with one entry."""
    record(tmp_path, HARDWARE, [result()])
    return file_of(tmp_path, HARDWARE, "s")


def test_what_is_written_reads_back_the_same_and_is_written_the_same(stored: Path) -> None:
    text = stored.read_text()
    content = load(stored.parent.parent, HARDWARE, "s")
    assert content is not None
    assert to_text(content) == text
    assert text.endswith("}\n")
    assert "\r" not in text
    assert content.entries[KEY].sessions[0].metrics == {"time": 1.5}
    assert sum('"run": "r1"' in line for line in text.splitlines()) == 1
    assert json.loads(text)["schema"] == SCHEMA


def test_crlf_and_a_byte_order_mark_read_the_same_and_recording_brings_lf_back(tmp_path: Path, stored: Path) -> None:
    before = load(tmp_path, HARDWARE, "s")
    stored.write_bytes(b"\xef\xbb\xbf" + stored.read_bytes().replace(b"\n", b"\r\n"))
    assert load(tmp_path, HARDWARE, "s") == before
    record(tmp_path, HARDWARE, [result("s/other")])
    assert b"\r" not in stored.read_bytes()


def test_only_a_file_that_is_not_there_counts_as_absent(tmp_path: Path, stored: Path) -> None:
    assert load(tmp_path, HARDWARE, "t") is None
    for text in ("", "null", "[]", "{}", stored.read_text()[:200], stored.read_text() * 2, stored.read_text() + "\0"):
        stored.write_text(text)
        with pytest.raises(ConfigError, match=r"s\.json") as caught:
            load(tmp_path, HARDWARE, "s")
        assert "(" in str(caught.value)
    stored.unlink()
    stored.symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, HARDWARE, "s")


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "1e999", "null", '"1.5"', "-1", "0", "true", "[1]", "-0.0"])
def test_a_time_that_is_none_is_refused_naming_case_and_field(tmp_path: Path, stored: Path, bad: str) -> None:
    stored.write_text(stored.read_text().replace('{"time": 1.5}', '{"time": ' + bad + "}"))
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, HARDWARE, "s")
    told = str(caught.value)
    assert f"entries.{KEY}.sessions[0].metrics.time" in told
    assert f"{stored}:" in told


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("baseline/1", "baseline/2", "newer"),
        ("baseline/1", "baseline/0", "does not read"),
        ('"schema"', '"shema"', "has no `schema`"),
        ('"tier": "gate"', '"tier": 3', "tier"),
        ('"tier": "gate"', '"teir": "gate"', "teir"),
        ('"kind": "timing"', '"kind": "tming"', "kind"),
        ('"run": "r1"', '"run": null', "run"),
        ('"cpu": null', '"cpu": 3', "cpu"),
        ('"metrics": {"time": 1.5}', '"metrics": {"other": 1.5}', "other"),
        ('"suite": "s"', '"suite": "t"', "suite"),
        (f'"hardware": "{HARDWARE}"', '"hardware": "amd-mi300x"', "stands in the folder"),
    ],
)
def test_a_wrong_field_is_refused_with_its_name(tmp_path: Path, stored: Path, old: str, new: str, word: str) -> None:
    text = stored.read_text()
    assert old in text
    stored.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=word):
        load(tmp_path, HARDWARE, "s")


def test_a_session_whose_stack_is_not_there_is_refused(tmp_path: Path, stored: Path) -> None:
    stored.write_text(stored.read_text().replace(f'"stack": "{stack_hash(stack(tf32=False))}"', '"stack": "abc"'))
    with pytest.raises(ConfigError, match="names the stack abc"):
        load(tmp_path, HARDWARE, "s")


def test_a_suite_name_that_is_no_file_name_gets_a_short_one(tmp_path: Path) -> None:
    for suite in ("../up", "a/b", "n" * 300, "显存", ".hidden", ""):
        path = file_of(tmp_path, HARDWARE, suite)
        assert path.parent == tmp_path / HARDWARE
        assert len(path.name) < 100
        record(tmp_path, HARDWARE, [result("k", suite=suite)])
        assert load(tmp_path, HARDWARE, suite) is not None
    assert len(suites_in(tmp_path, HARDWARE)) == 6


def test_the_newest_stack_and_the_folders_are_found(tmp_path: Path, stored: Path) -> None:
    content = load(tmp_path, HARDWARE, "s")
    assert content is not None
    assert newest(content) == ("2026-01-01T00:00:00Z", stack(tf32=False))
    assert hardware_in(tmp_path) == [HARDWARE]
    assert looks_like_baselines(tmp_path)
    assert not looks_like_baselines(tmp_path / "absent")
    assert nearest(tmp_path, "nvidia-h200-nvl") == [HARDWARE]
    assert nearest(tmp_path, HARDWARE) == []


def test_a_device_and_a_machine_are_found_in_whatever_folder_they_stand(tmp_path: Path, stored: Path) -> None:
    record(tmp_path, "cpu-x86_64", [result(sessions=[session(device="c", machine="m1")])])
    assert find_device(tmp_path, "d1") == [HARDWARE]
    assert find_device(tmp_path, "d2") == []
    assert find_device(tmp_path, "") == []
    assert find_machine(tmp_path, "m1") == {HARDWARE: "", "cpu-x86_64": "cpu"}


def view(root: Path, **more: Any) -> Any:
    content = load(root, HARDWARE, "s")
    assert content is not None
    return entry_view(content, content.entries[KEY], **more)


def test_on_the_cpu_only_timings_of_the_same_model_and_cores_compare(tmp_path: Path) -> None:
    rules = {"time": {"kind": "timing", "unit": "us", "better": "lower"}, "error": {"kind": "exact", "better": "lower"}}
    here, there = ["A", 8], ["B", 8]
    sessions = [
        session(1.0, metrics={"time": 1.0, "error": 0.1}, cpu=here),
        session(9.0, metrics={"time": 9.0, "error": 0.2}, cpu=there, run="r2", started="2026-01-02T00:00:00Z"),
    ]
    record(tmp_path, HARDWARE, [result(rules=rules, sessions=sessions)])
    assert view(tmp_path, cpu=("A", 8)).metrics["time"].values == (1.0,)
    assert view(tmp_path, cpu=("A", 8)).metrics["error"].values == (0.1, 0.2)
    assert view(tmp_path, cpu=("A", 4)).metrics["time"].values == ()
    assert view(tmp_path).metrics["time"].values == (1.0, 9.0)


def test_settings_are_those_of_the_newest_session_and_bind_timings(tmp_path: Path) -> None:
    sessions = [session(1.0), session(2.0, run="r2", started="2026-01-02T00:00:00Z", stack=stack(tf32=True))]
    record(tmp_path, HARDWARE, [result(sessions=sessions)])
    seen = view(tmp_path)
    assert seen.settings == {"tf32": True}
    assert seen.metrics["time"].values == (2.0,)


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    return subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False)


def test_two_branches_that_record_different_entries_merge(tmp_path: Path) -> None:
    def on(branch: str, sessions: dict[str, Any], more: str) -> None:
        git(tmp_path, "checkout", "-q", "-b", branch, "base")
        again = {"verdict": "PASS", "metrics": {"time": {"verdict": "PASS"}}}
        record(tmp_path, HARDWARE, [result(f"s/{more}0")])
        record(tmp_path, HARDWARE, [result(f"s/{more}", **again, sessions=[session(**sessions)])], "add")
        git(tmp_path, "commit", "-qam", branch)

    assert git(tmp_path, "init", "-q", "-b", "base").returncode == 0
    record(tmp_path, HARDWARE, [result(f"s/{name}") for name in "acegi"])
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    on("one", {"run": "r2", "device": "x"}, "a")
    on("two", {"run": "r3", "device": "y"}, "g")
    merged = git(tmp_path, "merge", "one")
    assert merged.returncode == 0, merged.stdout
    content = load(tmp_path, HARDWARE, "s")
    assert content is not None
    assert {key: len(entry.sessions) for key, entry in content.entries.items()} == {
        "s/a": 2,
        "s/a0": 1,
        "s/c": 1,
        "s/e": 1,
        "s/g": 2,
        "s/g0": 1,
        "s/i": 1,
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"time": 1.5', '"time": -1'),
        ('"time": 1.5', '"time": true'),
        ('"tier": "gate"', '"tier": true'),
        ('"work_version": 1', '"work_version": true'),
        ('"started": "2026-01-01T00:00:00Z"', '"started": "yesterday"'),
        ('"started": "2026-01-01T00:00:00Z"', '"started": "2026-02-30T00:00:00Z"'),
        ('"started": "2026-01-01T00:00:00Z"', '"started": "2026-01-01"'),
        ('"started": "2026-01-01T00:00:00Z"', '"started": "2026-01-01T08:00:00+08:00"'),
        ('"kind": "timing"', '"kind": "time"'),
        ('"unit": "us"', '"unit": 3'),
        ('"digest": "d"', '"digset": "d"'),
    ],
)
def test_a_message_names_the_line_on_which_the_wrong_value_stands(tmp_path: Path, old: str, new: str) -> None:
    record(tmp_path, HARDWARE, [result("s/a"), result("s/b"), result("s/c")])
    path = file_of(tmp_path, HARDWARE, "s")
    before, wrong, after = path.read_text().partition('"s/b"')
    assert old in after
    text = before + wrong + after.replace(old, new, 1)
    with pytest.raises(ConfigError) as caught:
        parse(text, path, HARDWARE)
    (problem,) = caught.value.problems
    assert problem.line is not None
    assert new in text.splitlines()[problem.line - 1]
    assert problem.line > before.count("\n") + 1
    assert "entries.s/b." in problem.what


def test_a_field_that_is_not_there_is_missed_where_its_entry_begins(tmp_path: Path, stored: Path) -> None:
    text = stored.read_text().replace('"case": "gemm",', "")
    with pytest.raises(ConfigError, match=r"s/gemm\[n=1\]\.case") as caught:
        parse(text, stored, HARDWARE)
    line = caught.value.problems[0].line
    assert line is not None
    assert KEY in text.splitlines()[line - 1]


@pytest.mark.parametrize("kind", ["exact", "info", "memory", "timing"])
def test_true_and_false_are_no_numbers_whatever_the_metric_is(tmp_path: Path, stored: Path, kind: str) -> None:
    text = stored.read_text().replace('"kind": "timing"', f'"kind": "{kind}"').replace('"time": 1.5', '"time": true')
    with pytest.raises(ConfigError, match="is true, not a number"):
        parse(text, stored, HARDWARE)
