"""Promotion: the only way to replace or remove a value, with its history, and never a bad value by accident."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.baseline.match import entry_view
from pytest_accel.baseline.promote import promote
from pytest_accel.baseline.record import record
from pytest_accel.baseline.results import read_known_bad, read_results, recordables
from pytest_accel.baseline.store import file_of, load
from pytest_accel.baseline.types import StoredEntry
from pytest_accel.errors import ConfigError
from pytest_accel.files import dump_json
from pytest_accel.verdict.types import OUTCOME, Entry

HARDWARE = "nvidia-h200"
KEY = "s/gemm[dtype=float16,n=4]"
RULES = {
    "time": {"unit": "us", "better": "lower", "kind": "timing"},
    "error": {"unit": "", "better": "lower", "kind": "exact"},
    "status": {"unit": "", "better": "equal", "kind": "exact"},
}
STACKS = {"old": {"versions": {"torch": "2.12.0"}}, "new": {"versions": {"torch": "2.13.0"}}}
GOOD = {"time": 1.0, "error": 0.1, "status": "native"}


def case(verdict: str = "PASS", values: dict[str, Any] | None = None, key: str = KEY, **more: Any) -> dict[str, Any]:
    """One case of a results file; ``codes`` gives (verdict, code) by metric."""
    values = GOOD if values is None else values
    codes = more.pop("codes", {})
    metrics = {}
    for name, value in values.items():
        judged, code = codes.get(name, ("PASS", ""))
        metrics[name] = {"value": value, **RULES[name], "verdict": judged, "code": code}
    session = {"metrics": values, "work_version": 1, "digest": "d", "stack": "new", "machine": "m", "device": "d"}
    one = {**session, **more.pop("session", {}), "cpu": more.pop("cpu", None)}
    return {
        "key": key,
        "suite": "s",
        "case": "gemm",
        "tier": "gate",
        "path": "s.accel.yaml",
        "verdict": verdict,
        "code": more.pop("code", ""),
        "metrics": metrics,
        "record": {"workload": "gemm", "rules": RULES, "sessions": [one] if values else []},
        **more,
    }


def results(root: Path, *cases: dict[str, Any], run: str = "r2") -> Path:
    path = root / f"{run}.json"
    data = {
        "schema": "pytest-accel/results/1",
        "run": {"id": run, "started": f"2026-02-0{run[-1]}T00:00:00Z"},
        "baseline": {"path": f"baselines/{HARDWARE}"},
        "stacks": STACKS,
        "cases": list(cases),
    }
    path.write_text(dump_json(data))
    return path


def accept(root: Path, *cases: dict[str, Any]) -> None:
    path = results(root, *cases, run="r1")
    record(root, HARDWARE, recordables(read_results(path), path))


def entry(root: Path, key: str = KEY) -> StoredEntry:
    content = load(root, HARDWARE, "s")
    assert content is not None
    return content.entries[key]


def view(root: Path) -> Entry | None:
    content = load(root, HARDWARE, "s")
    assert content is not None
    return entry_view(content, content.entries[KEY])


def test_a_value_is_replaced_with_old_new_run_versions_and_reason(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"))
    slower = case("REGRESSION", {**GOOD, "time": 2.0}, codes={"time": ("REGRESSION", "worse")})
    summary = promote(tmp_path, results(tmp_path, slower), reason="new power limit")
    assert summary.changes == ((KEY, "time", 1.0, 2.0),)
    stored = entry(tmp_path)
    assert [dict(s.metrics) for s in stored.sessions] == [{**GOOD, "time": 2.0}]
    assert stored.promotions == (
        {
            "run": "r2",
            "started": "2026-02-02T00:00:00Z",
            "reason": "new power limit",
            "versions": {"torch": "2.13.0"},
            "metrics": {"time": {"old": 1.0, "new": 2.0}},
        },
    )


def test_promoting_the_same_results_twice_changes_nothing(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"))
    path = results(tmp_path, case("IMPROVED", {**GOOD, "time": 0.5}))
    promote(tmp_path, path, reason="why")
    before = file_of(tmp_path, HARDWARE, "s").read_bytes()
    assert promote(tmp_path, path, reason="why").unchanged == (KEY,)
    assert file_of(tmp_path, HARDWARE, "s").read_bytes() == before


def test_values_that_did_not_change_leave_the_entry_as_it_is_in_another_run_too(tmp_path: Path) -> None:
    other = "s/other"
    accept(tmp_path, case("NEW"), case("NEW", key=other))
    before = file_of(tmp_path, HARDWARE, "s").read_bytes()
    summary = promote(tmp_path, results(tmp_path, case(), case(key=other), run="r5"), reason="no change")
    assert summary.unchanged == (KEY, other)
    assert (summary.promoted, summary.changes, summary.files) == ((), (), ())
    assert file_of(tmp_path, HARDWARE, "s").read_bytes() == before
    faster = case("IMPROVED", {**GOOD, "time": 0.5}, key=other)
    summary = promote(tmp_path, results(tmp_path, case(), faster, run="r6"), reason="one is faster")
    assert (summary.unchanged, summary.promoted) == ((KEY,), (other,))
    assert entry(tmp_path).sessions[0].run == "r1"
    assert entry(tmp_path).promotions == ()


@pytest.mark.parametrize(
    "changed",
    [{"session": {"work_version": 2}}, {"session": {"digest": "e"}}, {"path": "moved/s.accel.yaml"}, {"tier": "full"}],
)
def test_equal_values_of_other_work_or_of_another_place_are_promoted(tmp_path: Path, changed: dict[str, Any]) -> None:
    accept(tmp_path, case("NEW"))
    summary = promote(tmp_path, results(tmp_path, case(**changed)), reason="why")
    assert (summary.promoted, summary.unchanged) == ((KEY,), ())
    assert entry(tmp_path).sessions[0].run == "r2"


def test_equal_values_under_other_settings_are_promoted(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"))
    path = results(tmp_path, case("ENV", code="settings-differ"))
    path.write_text(path.read_text().replace('"versions": {', '"settings": {"tf32": true}, "versions": {'))
    assert promote(tmp_path, path, reason="why").promoted == (KEY,)


@pytest.mark.parametrize(
    ("values", "codes", "word"),
    [
        ({**GOOD, "error": math.nan}, {"error": ("REGRESSION", "nonfinite")}, "nan"),
        ({**GOOD, "error": 7.0}, {"error": ("REGRESSION", "limit")}, "limit"),
        ({**GOOD, "status": "fallback"}, {"status": ("REGRESSION", "worse")}, "fallback"),
    ],
)
def test_a_bad_value_is_taken_only_where_it_is_listed(
    tmp_path: Path, values: dict[str, Any], codes: dict[str, Any], word: str
) -> None:
    accept(tmp_path, case("NEW"))
    path = results(tmp_path, case("REGRESSION", values, codes=codes))
    before = file_of(tmp_path, HARDWARE, "s").read_bytes()
    summary = promote(tmp_path, path, reason="why")
    assert word in summary.refused[KEY]
    assert file_of(tmp_path, HARDWARE, "s").read_bytes() == before
    summary = promote(tmp_path, path, reason="why", known_bad=[KEY])
    assert summary.known_bad == (KEY,)
    name = next(iter(codes))
    assert entry(tmp_path).known_bad == {name: word}
    seen = view(tmp_path)
    assert seen is not None
    assert seen.known_bad == {name}
    assert seen.metrics[name].values == (word if word != "limit" else 7.0,)


def test_a_crash_is_taken_as_known_and_good_values_stay_for_the_day_it_works(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"))
    crash = results(tmp_path, case("REGRESSION", {}, code="crash"))
    assert "crash" in promote(tmp_path, crash, reason="why").refused[KEY]
    promote(tmp_path, crash, reason="why", known_bad=[KEY])
    seen = view(tmp_path)
    assert seen is not None
    assert seen.metrics[OUTCOME].values == ("crash",)
    assert seen.metrics["time"].values == (1.0,)
    promote(tmp_path, results(tmp_path, case("IMPROVED", code="fault-gone"), run="r3"), reason="mended")
    assert entry(tmp_path).known_bad == {}


@pytest.mark.parametrize(
    ("verdict", "code", "taken"),
    [
        ("ENV", "work-changed", True),
        ("ENV", "settings-differ", True),
        ("ENV", "throttled", False),
        ("UNMEASURED", "skipped", False),
        ("INCONCLUSIVE", "too-noisy", True),
        ("MISSING", "metric-missing", True),
    ],
)
def test_what_the_machine_was_unfit_to_measure_is_refused(tmp_path: Path, verdict: str, code: str, taken: bool) -> None:
    accept(tmp_path, case("NEW"))
    changed = case(verdict, {**GOOD, "time": 3.0}, codes={"time": (verdict, code)}, code=code)
    summary = promote(tmp_path, results(tmp_path, changed), reason="why")
    assert bool(summary.promoted) == taken
    assert bool(summary.refused) != taken


def test_changed_work_is_accepted_by_promotion(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"))
    changed = case("ENV", code="work-changed", session={"work_version": 2, "digest": "e"})
    promote(tmp_path, results(tmp_path, changed), reason="longer")
    assert (entry(tmp_path).work_version, entry(tmp_path).digest) == (2, "e")
    assert len(entry(tmp_path).sessions) == 1


def test_timings_of_other_cpus_stay_when_one_cpu_is_promoted(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW", cpu=["A", 8]))
    codes = {"time": ("REGRESSION", "worse")}
    slower = case("REGRESSION", {**GOOD, "time": 4.0}, cpu=["B", 8], codes=codes)
    promote(tmp_path, results(tmp_path, slower), reason="why")
    assert [(s.cpu, dict(s.metrics)) for s in entry(tmp_path).sessions] == [
        (("A", 8), {"time": 1.0}),
        (("B", 8), {**GOOD, "time": 4.0}),
    ]


def test_a_retired_entry_leaves_a_tombstone_and_is_new_when_measured_again(tmp_path: Path) -> None:
    accept(tmp_path, case("NEW"), case("NEW", key="s/other"))
    path = results(tmp_path, case(), case(key="s/other"))
    summary = promote(tmp_path, path, reason="gone for good", retire=[KEY])
    assert summary.retired == (KEY,)
    assert summary.promoted == ()
    stone = entry(tmp_path).tombstone
    assert stone is not None
    assert stone["reason"] == "gone for good"
    assert view(tmp_path) is None
    assert promote(tmp_path, path, reason="again", retire=[KEY]).unchanged == (KEY,)
    accept(tmp_path, case("NEW"))
    assert entry(tmp_path).tombstone is None
    assert entry(tmp_path).promotions[-1]["metrics"]["time"] == {"old": 1.0, "new": None}


@pytest.mark.parametrize(
    ("glob", "taken"),
    [
        (KEY, [KEY]),
        ("s/gemm", [KEY, "s/gemm[dtype=float32,n=4]"]),
        ("*float32*", ["s/gemm[dtype=float32,n=4]"]),
        ("s/*[dtype=float16,*]", [KEY]),
        ("*", [KEY, "s/gemm[dtype=float32,n=4]", "s/x"]),
    ],
)
def test_a_glob_selects_keys_and_brackets_are_only_brackets(tmp_path: Path, glob: str, taken: list[str]) -> None:
    cases = [case(key=key) for key in (KEY, "s/gemm[dtype=float32,n=4]", "s/x")]
    assert sorted(promote(tmp_path, results(tmp_path, *cases), reason="why", case=glob).promoted) == sorted(taken)


def test_names_that_match_nothing_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = results(tmp_path, case())
    for given, word in (
        ({"case": "nothing*"}, "no case that matches"),
        ({"known_bad": ["s/typo"]}, "s/typo"),
        ({"retire": ["s/typo"]}, "s/typo"),
        ({"reason": " "}, "reason"),
    ):
        with pytest.raises(ConfigError, match=word):
            promote(tmp_path, path, **{"reason": "why", **given})  # type: ignore[arg-type]
    assert not (tmp_path / HARDWARE).exists()


def test_results_that_cannot_be_promoted_say_so(tmp_path: Path) -> None:
    bare = case()
    del bare["record"]
    with pytest.raises(ConfigError, match="has no `record`"):
        promote(tmp_path, results(tmp_path, bare), reason="why")
    for text in ("", "{}", "[]", '{"schema": "pytest-accel/results/9"}', '{"schema": "pytest-accel/results/1"}'):
        path = tmp_path / "broken.json"
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"broken\.json"):
            promote(tmp_path, path, reason="why")


def test_a_list_of_known_faults_takes_comments_but_not_out_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text('# faults\n\ns/a\ns/b  # see [1]\ns/c[x=1] # https://x/1]\ns/d[t="p # q"]  # why\ns/e[t="#"]\n')
    assert read_known_bad(path) == ["s/a", "s/b", "s/c[x=1]", 's/d[t="p # q"]', 's/e[t="#"]']
