"""Simulated machines on which suites run in a real pytest of their own: an Ascend device, and a torch that reports HIP."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_accel.workloads.registry import WORKLOADS

pytest.importorskip("torch")
HERE = Path(__file__).parent
SUITES = HERE.parents[1] / "suites"

WIDE = "900%"  # a shared host says nothing finer about a simulated device's speed
ROWS = {"rows": 64, "hidden": 256}
DECODER = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 50}
#: Accelerators' sizes take hours on a host: these cases get their CPU size, and the ones that have none get this one.
SMALL: dict[str, dict[str, Any]] = {
    "gemm_medium": {"m": 256, "n": 256, "k": 256},
    "gemm_decode": {"m": 4, "n": 256, "k": 256},
    "attention_decode": {"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": 1, "seq_kv": 256, "head_dim": 64},
    "copy": {"megabytes": 16, "kind": "d2d"},
    "copy_host": {"megabytes": 8},
    "copy_pageable": {"megabytes": 8},
    "rope": {"head_dim": 16, "base": 10000.0, "max_position": 131072},
}
#: Workloads of a user's own, for what no shipped suite shows in a second: each does one thing with one operator.
OWN_WORK = """
import torch


def largest(accel):
    return {"largest": float(torch.arange(5.0, device=accel.device).topk(1)[0].item())}


def kept(accel):
    for _ in range(4):
        torch.ones(256, 256, device=accel.device) @ torch.ones(256, 256, device=accel.device)
    return {"kept": accel.memory()["allocated"]}


def timed(accel, op):
    value = torch.ones(64, 64, device=accel.device)
    return {"time": accel.time(lambda: getattr(torch, op)(value, value), min_time=0.02)}


def one(accel, op):
    return {"value": float(getattr(torch, op)(torch.full((4,), 0.5, device=accel.device))[0].item())}


def spend():
    torch.arange(5.0, device="npu").topk(1)
"""
OWN_SUITE = {
    "schema": "pytest-accel/suite/1",
    "suite": "own",
    "defaults": {"tier": "smoke", "timeout": "6s"},
    "cases": [
        {"name": "largest", "workload": "work:largest"},
        {
            "name": "kept",
            "workload": "work:kept",
            "metrics": {"kept": {"unit": "B", "better": "lower", "worse_by": 1024}},
        },
        {
            "name": "timed",
            "workload": "work:timed",
            "matrix": {"op": ["mm", "sub"]},
            "metrics": {"time": {"unit": "us", "better": "lower", "worse_by": "900%"}},
        },
        {"name": "one", "workload": "work:one", "matrix": {"op": ["lgamma", "digamma", "erfinv", "sin"]}},
    ],
}
#: Metrics that a host's neighbours move.
MOVED = ("time", "ratio", "times_float32", "host_us", "round_trip", "graph")
#: Seconds that a timing takes at least: there are half a hundred, and what they show is not how fast a host is.
QUICK = {"min_time": 0.01}
_ROWS = {"rows": 64, "hidden": 256}
_DECODER = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 50}
#: Of the throughput suite, what takes a simulated device long at a CPU's size.
TIMED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("rms_norm", "layer_norm", "softmax", "fused"), _ROWS),
    "cross_entropy": {"rows": 32, "vocab": 500},
    "sort": {"rows": 4, "length": 1024},
    "training_step": {"batch": 1, "length": 8, **_DECODER},
    "lora_step": {"batch": 1, "length": 8, **_DECODER},
    "decoder_prefill": {"prompt": 8, **_DECODER},
    "decoder_decode": {"batch": 1, "context": 16, **_DECODER},
}


def _built(name: str, folder: Path, devices: int) -> dict[str, str]:
    """The environment of the machine that ``name.py`` beside this file builds."""
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    environment: dict[str, str] = module.build(folder, devices)
    return environment


def shipped(target: Path) -> list[str]:
    """Write the shipped suites below ``target`` as they are, but for sizes that a host can do; returns their names."""
    names = []
    for path in sorted(SUITES.glob("*.accel.yaml")):
        suite = yaml.safe_load(path.read_text(encoding="utf-8"))
        for case in suite["cases"]:
            overlay = dict(case.get("platforms", {}).get("cpu", {}))
            if case["name"] in SMALL:
                overlay["params"] = SMALL[case["name"]]
            if path.name == "throughput.accel.yaml" and case["workload"] != "peer_copy":
                known = WORKLOADS[case["workload"]].metrics
                overlay["params"] = {**overlay.get("params", {}), **TIMED.get(case["name"], {}), **QUICK}
                overlay["metrics"] = {name: {"worse_by": WIDE} for name in MOVED if name in known}
            elif "time" in overlay.get("metrics", {}):
                overlay["metrics"] = {"time": {"worse_by": WIDE}}
            for name in ("ascend", "rocm") if overlay else ():
                places = case.setdefault("platforms", {})
                places[name] = {**places.get(name, {}), **overlay}
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
    """A project with the shipped suites, and one of its own, on a simulated machine of one device."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)
    accel: str = "ascend"

    def run(self, *args: str, accel: str | None = None, jobs: str | None = None, **switches: str) -> Run:
        """Run pytest with ``switches`` (``SIM_NPU_`` is put before a name in small letters) in the environment."""
        set_ = {name if name.isupper() else f"SIM_NPU_{name.upper()}": value for name, value in switches.items()}
        report = self.path / "results.json"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "pythonpath=."]
        command += ["-p", "no:xdist"] if jobs is None else ["-n", jobs]
        done = subprocess.run(
            [*command, f"--accel={accel or self.accel}", f"--accel-report={report}", *args],
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
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SIM_"))}
        return {**kept, "COLUMNS": "240", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def doctor(self, **switches: str) -> tuple[int, dict[str, Any]]:
        """Exit code and answer of ``pytest-accel doctor --json``."""
        start = "import simulated_host, sys; from pytest_accel.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", start, "doctor", "--json", f"--accel={self.accel}"]
        set_ = {name if name.isupper() else f"SIM_NPU_{name.upper()}": value for name, value in switches.items()}
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

    def with_devices(self, count: int) -> Machine:
        """The same project on a machine with ``count`` devices."""
        return replace(self, env=_built("machine", self.path / f"machine-{count}", count))


def _make(path: Path, machine: str = "machine", accel: str = "ascend") -> Machine:
    path.mkdir(parents=True, exist_ok=True)
    path.joinpath("pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    path.joinpath("work.py").write_text(OWN_WORK, encoding="utf-8")
    path.joinpath("own.accel.yaml").write_text(yaml.safe_dump(OWN_SUITE, sort_keys=False), encoding="utf-8")
    shipped(path)
    return Machine(path, _built(machine, path / "machine", 1), accel)


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A machine where nothing was accepted yet."""
    return _make(tmp_path / "bare")


@pytest.fixture
def hip(tmp_path: Path) -> Machine:
    """The machine whose torch reports HIP."""
    return _make(tmp_path / "hip", "rocm_machine", "rocm")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The baselines folder and the run in which a healthy device recorded all suites at tier smoke: once for xdist's workers."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    place = shared / "simulated-accepted"
    kept = place / "run.json"
    with open(shared / "simulated-accepted.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            run = _make(place).run(".", "--accel-tier=smoke", "--accel-record=new")
            kept.write_text(json.dumps([run.code, run.out, run.results]), encoding="utf-8")
    return place / "baselines", Run(*json.loads(kept.read_text(encoding="utf-8")))


@pytest.fixture
def judged(bare: Machine, recording: tuple[Path, Run]) -> Machine:
    """The same machine with those baselines."""
    shutil.copytree(recording[0], bare.path / "baselines")
    return bare
