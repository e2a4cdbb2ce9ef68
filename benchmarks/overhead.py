"""What the plugin costs, side by side with pytest without it.

1. ``pytest --version`` with and without the plugin (budget: 50 ms more).
2. 5,000 variants of a no-op workload against 5,000 parametrised no-op tests (budget: 1.5 times the wall time).

Run: ``python benchmarks/overhead.py [rounds]``. Alternates the two sides and prints medians; asserts nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT = 5000
SUITE = f"""schema: pytest-accel/suite/1
cases:
  - name: noop
    workload: noop:noop
    matrix: {{n: [{", ".join(map(str, range(COUNT)))}]}}
"""
TESTS = f"""import pytest

@pytest.mark.parametrize("n", range({COUNT}))
def test_noop(n):
    pass
"""


def wall(arguments: list[str], folder: Path, expected: set[int]) -> float:
    """Seconds of one pytest process."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment(folder),
    )
    if done.returncode not in expected:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return time.perf_counter() - began


def environment(folder: Path) -> dict[str, str]:
    """As a user has it: compiled modules are kept between runs, here in a folder that both sides share."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def pairs(ours: list[str], theirs: list[str], folder: Path, rounds: int, expected: set[int]) -> tuple[float, float]:
    """Medians of both sides, measured in turn."""
    left, right = [], []
    wall(ours, folder, expected)  # compiles the modules of both sides
    for _ in range(rounds):
        left.append(wall(ours, folder, expected))
        right.append(wall(theirs, folder, expected))
    return statistics.median(left), statistics.median(right)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "noop.py").write_text("def noop(accel, n):\n    return {'n': n}\n")
        (folder / "test_noop.py").write_text(TESTS)
        (folder / "noop.accel.yaml").write_text(SUITE)
        with_plugin, without = pairs(["--version"], ["--version", "-p", "no:accel"], folder, 4 * rounds, {0})
        print(
            f"pytest --version: {with_plugin * 1e3:.0f} ms with the plugin, {without * 1e3:.0f} ms without: "
            f"{(with_plugin - without) * 1e3:+.0f} ms"
        )
        suite = ["noop.accel.yaml", "--accel=cpu", "--accel-allow-new"]
        variants, tests = pairs(suite, ["test_noop.py", "-p", "no:accel"], folder, rounds, {0})
        print(
            f"{COUNT} variants: {variants:.2f} s; {COUNT} parametrised tests: {tests:.2f} s; ratio {variants / tests:.2f}"
        )


if __name__ == "__main__":
    main()
