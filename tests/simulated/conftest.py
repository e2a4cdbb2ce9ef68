"""The shipped suites on a simulated Ascend machine, each run in a real pytest of its own."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")
HERE = Path(__file__).parent
SUITES = HERE.parents[1] / "suites"

WIDE = "900%"  # a shared host says nothing finer about a simulated device's speed
#: Accelerators' sizes take hours on a host: these cases get their CPU size, and the ones that have none get this one.
SMALL: dict[str, dict[str, Any]] = {
    "gemm_medium": {"m": 256, "n": 256, "k": 256},
    "gemm_decode": {"m": 4, "n": 256, "k": 256},
    "attention_decode": {"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": 1, "seq_kv": 256, "head_dim": 64},
    "copy": {"megabytes": 16, "kind": "d2d"},
    "copy_host": {"megabytes": 8},
}


def _machine() -> Any:
    spec = importlib.util.spec_from_file_location("simulated_machine", HERE / "machine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shipped(target: Path) -> list[str]:
    """Write the shipped suites below ``target`` as they are, but for sizes that a host can do; returns their names."""
    names = []
    for path in sorted(SUITES.glob("*.accel.yaml")):
        suite = yaml.safe_load(path.read_text(encoding="utf-8"))
        for case in suite["cases"]:
            overlay = dict(case.get("platforms", {}).get("cpu", {}))
            if case["name"] in SMALL:
                overlay |= {"params": SMALL[case["name"]], "metrics": {"time": {"worse_by": WIDE}}}
            elif "time" in overlay.get("metrics", {}):
                overlay["metrics"] = {"time": {"worse_by": WIDE}}
            if overlay:
                case.setdefault("platforms", {})["ascend"] = overlay
        target.joinpath(path.name).write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
        names.append(path.name)
    return names


@dataclass
class Run:
    """What one pytest said."""

    code: int
    out: str
    results: dict[str, Any]

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        """The variants by key without the suite's name."""
        return {case["key"].partition("/")[2]: case for case in self.results["cases"]}

    @property
    def bad(self) -> dict[str, dict[str, Any]]:
        """Those that are neither PASS nor IMPROVED nor newly recorded."""
        return {key: case for key, case in self.cases.items() if case["verdict"] not in ("PASS", "IMPROVED", "NEW")}

    @property
    def faults(self) -> dict[str, tuple[str, str]]:
        """Verdict and code of the bad ones."""
        return {key: (case["verdict"], case["code"]) for key, case in self.bad.items()}


@dataclass
class Machine:
    """A project with the shipped suites on a simulated machine."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *args: str, accel: str = "ascend", **switches: str) -> Run:
        """Run pytest with ``switches`` (``SIM_NPU_`` is put before a name in small letters) in the environment."""
        set_ = {name if name.isupper() else f"SIM_NPU_{name.upper()}": value for name, value in switches.items()}
        report = self.path / "results.json"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
        done = subprocess.run(
            [*command, f"--accel={accel}", f"--accel-report={report}", *args],
            cwd=self.path,
            env={**self._inherited(), **self.env, **set_},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        results = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        return Run(done.returncode, done.stdout + done.stderr, results)

    @staticmethod
    def _inherited() -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SIM_NPU_"))}
        return {**kept, "COLUMNS": "240", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def doctor(self, **switches: str) -> tuple[int, dict[str, Any]]:
        """Exit code and answer of ``pytest-accel doctor --json``."""
        command = [sys.executable, "-m", "pytest_accel.cli", "doctor", "--json", "--accel=ascend"]
        command.append(f"--rootfs={self.env['SIM_NPU_ROOT']}")
        set_ = {f"SIM_NPU_{name.upper()}": value for name, value in switches.items()}
        done = subprocess.run(
            command,
            cwd=self.path,
            env={**self._inherited(), **self.env, **set_},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)


def _make(path: Path) -> Machine:
    path.mkdir(parents=True, exist_ok=True)
    path.joinpath("pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    shipped(path)
    return Machine(path, _machine().build(path / "machine"))


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A machine where nothing was accepted yet."""
    return _make(tmp_path / "bare")


@pytest.fixture(scope="session")
def accepted(tmp_path_factory: pytest.TempPathFactory, worker_id: str = "master") -> Path:
    """The baselines folder that a healthy device recorded at tier smoke: once for all of xdist's workers."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    place = shared / "simulated-accepted"
    with open(shared / "simulated-accepted.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            machine = _make(place)
            run = machine.run(".", "--accel-tier=smoke", "--accel-record=new")
            assert run.code == 0, run.out
            (place / "done").touch()
    return place / "baselines"


@pytest.fixture
def judged(bare: Machine, accepted: Path) -> Machine:
    """The same machine with those baselines."""
    shutil.copytree(accepted, bare.path / "baselines")
    return bare
