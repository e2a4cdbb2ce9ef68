"""The replay of recorded sessions: it finds what was put in, and says what a file cannot show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES = {"gemm_a": 200.0, "sdpa_b": 900.0, "copy_c": 500.0, "other_d": 60.0, "tile_e": 1400.0, "launch_f": 4.0}


def recording(seed: int, cards: dict[str, float]) -> dict[str, Any]:
    """Nine unchanged sessions and three of each slow mode on each card; ``tile_e`` takes no longer for more work."""
    draw = np.random.default_rng(seed)
    sessions = []
    for card, shift in cards.items():
        for order, mode in enumerate(["base"] * 9 + ["slow2"] * 3 + ["slow5"] * 3):
            more = 1 + float(mode.removeprefix("slow") if mode != "base" else 0) / 100
            cases = {}
            for name, start in CASES.items():
                level = start * np.exp(draw.normal(0, 0.0015)) * (1 if name == "tile_e" else more) * (1 + shift)
                samples = level * (1 + np.abs(draw.normal(0, 0.004, 40)))
                host = samples * (1 + abs(draw.normal(0, 0.03)))
                cases[name] = {"device_us": samples.round(3).tolist(), "host_sync_us": host.round(1).tolist()}
            sessions.append({"gpu": card, "order": order, "mode": mode, "cases": cases})
    return {"about": "simulated", "sessions": sessions}


def replay(path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "detection_power.py"), str(path), "--replays", "40", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_known_slow_downs_are_found_without_false_alarms_and_peers_are_shown_beside(tmp_path: Path) -> None:
    path, out = tmp_path / "s.json", tmp_path / "out.json"
    path.write_text(json.dumps(recording(1, {"one": 0.0, "two": 0.008})))
    done = replay(path, "--accept", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    for place in ("same GPU", "other GPU"):
        shipped = found["shipped"][place]
        assert shipped["false red per suite"]["share"] == 0.0
        assert 0.05 < shipped["false red per suite"]["high"] < 0.5, "18 sessions cannot show less than that"
        assert set(shipped["slow5"]) == {"gemm_a", "sdpa_b", "copy_c", "other_d"}, "tile_e and launch_f did not grow"
    assert found["shipped"]["same GPU"]["power at 2%"]["share"] >= 0.85
    assert found["peers"]["host"]["pytest-benchmark mean:2%"]["same GPU: false red per variant"] > 0.1
    assert "tile_e" in done.stdout.split("left out:")[1]


def test_what_is_not_met_fails_where_acceptance_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps(recording(2, {"one": 0.0, "two": 0.06}))
    )  # cards farther apart than any healthy pair seen
    done = replay(path, "--accept")
    assert done.returncode == 1
    assert "NOT MET: other GPU, false red per suite" in done.stdout
    assert "met: same GPU, false red per suite" in done.stdout


@pytest.mark.parametrize("text", ["{}", "not json", '{"sessions": [{"gpu": "a"}]}', '{"sessions": []}'])
def test_a_file_of_another_kind_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    done = replay(path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "session" in done.stderr


def test_every_case_that_is_recorded_runs_and_has_more_work_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import session_cases
    import torch

    for name, make in session_cases.CASES.items():
        assert name in session_cases.WORKLOADS
        shapes = []
        for share in (1.0, 1.5):
            result = make(torch.device("cpu"), share, 32)()
            assert isinstance(result, torch.Tensor)
            shapes.append(result.shape)
        assert name == "sdpa_decode_bf16" or shapes[0] != shapes[1], f"{name}: {shapes}"


def test_slow_sessions_are_spread_among_the_unchanged_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from record_sessions import plan

    order = plan(12, 3)
    assert (order.count("base"), order.count("slow2"), order.count("slow5")) == (12, 3, 3)
    assert order[0] == order[1] == "base"
    places = [index for index, mode in enumerate(order) if mode != "base"]
    assert max(places) - min(places) > 8
