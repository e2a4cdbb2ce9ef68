"""One real run that ends in every verdict there is, shown in every format at once; and documents made for a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_accel.files import dump_json
from pytest_accel.report.json_report import build
from pytest_accel.report.types import CaseResult

WORK = """
import json
from pathlib import Path

def v(accel, name):
    found = json.loads(Path("state.json").read_text())[name]
    if found == "skip":
        accel.skip("not today")
    if found == "unfit":
        accel.unfit("throttled", "the device was throttled")
    if isinstance(found, list):  # another value in each session
        turn = Path("turn")
        number = len(turn.read_text()) if turn.exists() else 0
        turn.write_text("x" * (number + 1))
        return {"t": [float(found[number % len(found)])] * 20}
    return {"v": found}
"""

SUITE = """
schema: pytest-accel/suite/1
cases:
  - {name: fine, workload: "w:v", matrix: {name: [a, b, c]}, metrics: {v: {better: lower, worse_by: 10%}}}
  - {name: better, workload: "w:v", params: {name: d}, metrics: {v: {better: lower, worse_by: 10%}}}
  - {name: worse, workload: "w:v", matrix: {name: [e, f]}, metrics: {v: {better: lower, worse_by: 10%}}}
  - {name: unfit, workload: "w:v", params: {name: g}, metrics: {v: {better: lower, worse_by: 10%}}}
  - {name: skipped, workload: "w:v", params: {name: h}, metrics: {v: {better: lower, worse_by: 10%}}}
  - {name: noisy, workload: "w:v", params: {name: i}, metrics: {t: {unit: us, better: lower, worse_by: 1%}}}
  - name: waived
    workload: "w:v"
    params: {name: j}
    metrics: {v: {better: lower, worse_by: 10%}}
    waive: {metrics: {v: {up_to: 90%}}, reason: known, issue: "https://example.org/1", expires: 2999-01-01}
"""
LATER = '  - {name: new, workload: "w:v", params: {name: k}, metrics: {v: {better: lower, worse_by: 10%}}}\n'
GONE = '  - {name: gone, workload: "w:v", params: {name: l}, metrics: {v: {better: lower, worse_by: 10%}}}\n'


@dataclass(frozen=True)
class Shown:
    """What one run wrote: the folder with results.json, junit.xml, allure/, summary.md, and what the terminal said."""

    path: Path
    terminal: str
    exit_code: int

    @property
    def results(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "results.json").read_text(encoding="utf-8")))


def run_pytest(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--accel=cpu", *args]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A run with every verdict, reported in every format."""
    folder = tmp_path_factory.mktemp("every-verdict")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (folder / "w.py").write_text(textwrap.dedent(WORK))
    (folder / "s.accel.yaml").write_text(SUITE.lstrip() + GONE)
    before: dict[str, Any] = dict.fromkeys("abcdefghjl", 10)
    (folder / "state.json").write_text(json.dumps({**before, "i": [10]}))
    recorded = run_pytest(folder, "--accel-record=new")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    (folder / "s.accel.yaml").write_text(SUITE.lstrip() + LATER)
    now = {**before, "d": 5, "e": 20, "f": 30, "g": "unfit", "h": "skip", "j": 15, "k": 1}
    (folder / "turn").unlink()
    (folder / "state.json").write_text(json.dumps({**now, "i": [20, 5, 30]}))
    done = run_pytest(
        folder,
        "--accel-report=results.json",
        "--alluredir=allure",
        "--junitxml=junit.xml",
        "--accel-history=history.sqlite",
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
    )
    return Shown(folder, done.stdout, done.returncode)


def document(results: Sequence[CaseResult], **run: Any) -> dict[str, Any]:
    """A results document of these variants, built by the code that builds every one."""
    facts = {"id": "r1", "started": "2026-11-30T10:00:00+00:00", "seconds": 1.0, "argv": ["suites"], "exit_code": 1}
    return build(
        run={**facts, **run}, probe=None, results=results, stacks={}, baseline={"path": "", "stack": {}}, elsewhere=0
    )


def case(key: str = "s/c[n=1]", verdict: str = "PASS", **fields: Any) -> CaseResult:
    """A variant's result with defaults for what a test does not care about."""
    known: dict[str, Any] = {
        "key": key,
        "nodeid": f"s.accel.yaml::{key}",
        "suite": "s",
        "case": "c",
        "params": {},
        "tier": "gate",
        "path": "s.accel.yaml",
        "verdict": verdict,
        "measured": True,
        "judged": True,
    }
    return CaseResult(**{**known, **fields})


def metric(value: Any, verdict: str | None = "PASS", **fields: Any) -> dict[str, Any]:
    """One judged metric as a result carries it."""
    known = {"unit": "us", "better": "lower", "baseline": None, "change": None, "limit": None, "code": "", "reason": ""}
    return {**known, "value": value, "verdict": verdict, **fields}


def written(folder: Path, data: dict[str, Any], name: str = "results.json") -> Path:
    """The document as a file."""
    path = folder / name
    path.write_text(dump_json(data), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made() -> SimpleNamespace:
    """The helpers above, for tests that make documents of their own."""
    return SimpleNamespace(document=document, case=case, metric=metric, written=written)
