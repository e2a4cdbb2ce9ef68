"""The workflows that ship: valid, least permissions, actions pinned by hash, a platform named and never `auto`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / ".github" / "actions" / "accel-gate" / "action.yml"
GITLAB = ROOT / "docs" / "examples" / "gitlab-ci.yml"


def steps():
    for path in [*WORKFLOWS, ACTION]:
        data = yaml.safe_load(path.read_text())
        jobs = data.get("jobs") or {"action": data["runs"]}
        for job in jobs.values():
            for step in job["steps"]:
                yield path.name, step


@pytest.mark.parametrize(
    ("schema", "paths"),
    [("github-workflows", WORKFLOWS), ("github-actions", [ACTION]), ("gitlab-ci", [GITLAB])],
    ids=["workflows", "action", "gitlab"],
)
def test_they_are_valid_by_their_published_schema(schema, paths):
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_security_audit_finds_nothing_of_weight():
    audit = Path(sys.executable).with_name("zizmor")
    if not audit.exists():
        pytest.skip("zizmor is not installed here")
    command = [str(audit), "--offline", "--no-progress", "--min-severity", "medium", str(ROOT / ".github")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_action_is_pinned_by_hash():
    used = [(name, step["uses"]) for name, step in steps() if "uses" in step]
    assert len(used) > 8
    loose = [pair for pair in used if not pair[1].startswith("./") and not re.search(r"@[0-9a-f]{40}$", pair[1])]
    assert loose == []


def test_permissions_are_read_only_unless_a_job_needs_more():
    for path in WORKFLOWS:
        data = yaml.safe_load(path.read_text())
        assert data["permissions"] == {"contents": "read"}, path.name


def test_no_expression_is_pasted_into_a_shell_script():
    scripts = [(name, step["run"]) for name, step in steps() if "run" in step]
    assert len(scripts) > 6
    assert [name for name, script in scripts if "${{" in script] == []


def test_every_shell_script_parses():
    for name, step in steps():
        if "run" in step:
            done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (name, done.stderr)


def test_a_gate_names_its_platform_and_its_number_of_devices():
    gates = [(name, step) for name, step in steps() if step.get("uses") == "./.github/actions/accel-gate"]
    assert {name for name, _ in gates} == {"nightly.yml", "upgrade-gate.yml"}
    for name, step in gates:
        assert {"platform", "devices"} <= set(step["with"]), name
    script = next(step["run"] for name, step in steps() if name == "action.yml" and step.get("id") == "gate")
    assert '--accel="$PLATFORM" --accel-devices="$DEVICES"' in script
    matrix = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]["gate"]["strategy"]["matrix"]
    assert [entry["platform"] for entry in matrix["include"]] == ["cuda", "rocm", "ascend"]


def test_the_gate_step_of_the_action_runs_here_and_hands_on_the_exit_code(tmp_path):
    """The step's own script, with the variables that a runner sets, on this machine's CPU."""
    (tmp_path / "w.py").write_text("def v(accel): return {'v': 3}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    suite = "schema: pytest-accel/suite/1\ncases:\n  - {name: a, workload: 'w:v', metrics: {v: {max: 2}}}\n"
    (tmp_path / "s.accel.yaml").write_text(suite)
    (tmp_path / "accel").symlink_to(Path(sys.executable).parents[1])
    scripts = {step["name"]: step["run"] for name, step in steps() if name == "action.yml"}
    environment = {
        "PATH": "/usr/bin:/bin",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PLATFORM": "cpu",
        "DEVICES": "1",
        "SUITES": "s.accel.yaml",
        "TIER": "gate",
        "HISTORY": str(tmp_path / "h.sqlite"),
        "OUTPUT": "reports",
    }
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": False}
    gate = subprocess.run(["bash", "-c", scripts["Gate"]], **run)
    assert gate.returncode == 1, gate.stdout + gate.stderr
    assert "exit-code=1" in (tmp_path / "output").read_text()
    report = subprocess.run(["bash", "-c", scripts["Report"]], **run)
    assert report.returncode == 0, report.stderr
    assert {path.name for path in (tmp_path / "reports").iterdir()} >= {
        "results.json",
        "results.html",
        "results.md",
        "junit.xml",
        "trend.html",
    }
