"""A user's project in a folder of its own, run through a real pytest in a process of its own."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

WORK = '''
import json, os, time
from pathlib import Path

def value(accel, name="x", start=1.0):
    """The number that state.json holds for name, so that a test can make work slower or faster between runs."""
    state = Path("state.json")
    known = json.loads(state.read_text()) if state.exists() else {}
    return {"time": known.get(name, start)}

def constant(accel, n=0):
    return {"answer": n}
'''


class Project:
    """One user's project: suites, workloads, baselines, and what a run said."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path: Path = pytester.path
        pytester.makepyprojecttoml("[tool.pytest.ini_options]\npythonpath = ['.']\n")
        self.write("work.py", WORK)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def suite(self, cases: str, name: str = "s.accel.yaml") -> Path:
        body = textwrap.indent(textwrap.dedent(cases).strip("\n"), "  ")
        return self.write(name, f"schema: pytest-accel/suite/1\ncases:\n{body}\n")

    def state(self, **values: float) -> None:
        self.write("state.json", json.dumps(values))

    def run(self, *args: str, accel: str = "cpu", env: dict[str, str] | None = None) -> pytest.RunResult:
        saved = dict(os.environ)
        os.environ.update({"COLUMNS": "240", **(env or {})})
        try:
            return self.pytester.runpytest_subprocess(
                "-p", "no:cacheprovider", f"--accel={accel}", "--accel-report=results.json", *args, timeout=240
            )
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def record(self, *args: str) -> pytest.RunResult:
        result = self.run("--accel-record=new", *args)
        assert result.ret == 0, result.stdout.str() + result.stderr.str()
        return result

    @property
    def results(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "results.json").read_text(encoding="utf-8")))

    def verdicts(self) -> dict[str, str]:
        return {case["key"]: case["verdict"] for case in self.results["cases"]}

    def codes(self) -> dict[str, str]:
        return {case["key"]: case["code"] for case in self.results["cases"]}

    def baseline_bytes(self) -> dict[str, bytes]:
        folder = self.path / "baselines"
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }

    def baseline_file(self, suite: str = "s") -> Path:
        return next((self.path / "baselines").glob(f"*/{suite}.json"))


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)
