"""A user's project in a folder of its own, run through a real pytest in a process of its own.

Most workloads here need no torch, so measuring processes do not find it: importing it costs more than all else in a run.
Tests of what torch tells (settings, versions, Python tests) call ``with_torch``. The device's locks are the tests' own, so
that they do not wait for whoever else measures on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
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
SITE = """
import os, sys
from pathlib import Path

import pytest_accel.locks

pytest_accel.locks.machine_folder = lambda: pytest_accel.locks._prepared(Path(__file__).parent / "locks")

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

if os.environ.get("HIDE_TORCH"):
    sys.meta_path.insert(0, Hidden())
"""
OUTPUT = "results.json"
#: The cache would outlive a run, and hypothesis' plugin imports hypothesis for its summary (a second a run).
QUIETER = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")


class Accepted:
    """Baselines that were recorded already, by what was in the project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[object, Path] = {}

    def place(self, content: object) -> Path:
        """Where the baselines of a project with this content are kept."""
        return self._known.setdefault(content, self.folder / str(len(self._known)))


class Project:
    """One user's project: suites, workloads, baselines, and what a run said."""

    def __init__(self, pytester: pytest.Pytester, site: Path, accepted: Accepted) -> None:
        self.pytester = pytester
        self.path: Path = pytester.path
        self._accepted = accepted
        self.env = {"PYTHONPATH": str(site), "HIDE_TORCH": "1"}
        pytester.makepyprojecttoml("[tool.pytest.ini_options]\npythonpath = ['.']\n")
        self.write("work.py", WORK)

    def with_torch(self) -> None:
        """Let measuring processes import the torch that is installed."""
        self.env["HIDE_TORCH"] = ""

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
        os.environ.update({"COLUMNS": "240", **self.env, **(env or {})})
        try:
            return self.pytester.runpytest_subprocess(
                *QUIETER, f"--accel={accel}", f"--accel-report={OUTPUT}", *args, timeout=240
            )
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def record(self, *args: str) -> pytest.RunResult:
        """Record by a run of its own; ``accept`` is quicker where nothing is asked of that run."""
        result = self.run("--accel-record=new", *args)
        assert result.ret == 0, result.stdout.str() + result.stderr.str()
        return result

    def accept(self, *args: str) -> None:
        """Baselines and results as ``record`` leaves them: from an earlier run where one recorded the same files."""
        files = {str(path.relative_to(self.path)): path for path in sorted(self.path.rglob("*")) if path.is_file()}
        shown = tuple(
            (name, path.read_bytes()) for name, path in files.items() if name != OUTPUT and "__pycache__" not in name
        )
        store = self._accepted.place((args, self.env["HIDE_TORCH"], shown))
        if not store.exists():
            self.record(*args)
            shutil.copytree(self.path / "baselines", store / "baselines")
            shutil.copy(self.path / OUTPUT, store)
        else:
            shutil.copytree(store, self.path, dirs_exist_ok=True)

    @property
    def results(self) -> dict[str, Any]:
        return dict(json.loads((self.path / OUTPUT).read_text(encoding="utf-8")))

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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that makes every Python process see the machine as these tests need it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Accepted:
    """What the tests of this process accepted so far."""
    return Accepted(tmp_path_factory.mktemp("accepted"))


@pytest.fixture
def project(pytester: pytest.Pytester, site: Path, accepted: Accepted) -> Project:
    return Project(pytester, site, accepted)
