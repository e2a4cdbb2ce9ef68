"""How long the reports take: an HTML page of 5,000 variants, written, opened and filtered in Chromium; a trend page out of
1,000,000 history rows, with the memory it needs.

    python benchmarks/reports.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import datetime
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_accel.files import dump_json, encode
from pytest_accel.report.json_report import build
from pytest_accel.report.types import CaseResult

METRICS = 5


def document(number: int, variants: int, seed: int = 0) -> dict[str, Any]:
    """A results document of ``variants`` variants with ``METRICS`` metrics each, a few of them worse."""
    draw = random.Random(seed + number)
    cases = []
    for n in range(variants):
        worse = n % 500 == 7
        value = 10.0 * draw.gauss(1.0, 0.01) * (1.1 if worse else 1.0)
        time_metric = {"value": value, "unit": "us", "better": "lower", "baseline": 10.0, "change": value / 10 - 1}
        verdict = "REGRESSION" if worse else "PASS"
        metrics = {"time": {**time_metric, "limit": 10.3, "verdict": verdict}}
        for m in range(METRICS - 1):
            metrics[f"m{m}"] = {
                "value": draw.random(),
                "unit": "",
                "better": "lower",
                "baseline": 0.5,
                "verdict": "PASS",
            }
        key = f"throughput/gemm[dtype=float16,k={n},m=4096,n=4096]"
        cases.append(
            CaseResult(key, key, "throughput", "gemm", {"k": n}, "gate", "s", verdict, metrics=metrics, measured=True)
        )
    started = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=number)
    run = {"id": f"r{number}", "started": started.isoformat(), "seconds": 1.0, "argv": [], "exit_code": 1}
    data = build(run=run, probe=None, results=cases, stacks={}, baseline={"path": "", "stack": {}}, elsewhere=0)
    data["stack"] = {"platform": "cuda", "hardware": {"name": "chip"}, "settings": {}, "versions": {"torch": "2.9"}}
    return dict(encode(data))


def page(folder: Path) -> None:
    """Write the page of 5,000 variants, then open and filter it."""
    source = folder / "results.json"
    source.write_text(dump_json(document(0, 5000)))
    begin = time.perf_counter()
    command = [sys.executable, "-m", "pytest_accel.cli", "report", str(source), "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"HTML page of 5,000 variants, the whole command: {time.perf_counter() - begin:.2f} s")
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium here: not opened")
        return
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        begin = time.perf_counter()
        tab.goto((folder / "results.html").as_uri())
        expect(tab.locator("#shown")).to_have_text("5000 of 5000 variants shown")
        opened = time.perf_counter() - begin
        begin = time.perf_counter()
        tab.fill("#search", "k=4321")
        expect(tab.locator("#shown")).to_have_text("1 of 5000 variants shown")
        print(f"opened in Chromium: {opened:.2f} s; filtered: {time.perf_counter() - begin:.2f} s")
        browser.close()


def trend(folder: Path, rows: int) -> None:
    """Fill a history of ``rows`` values and write its trend page in a process of its own."""
    from pytest_accel.history import store

    where = str(folder / "history.sqlite")
    variants = 1000
    runs = max(1, rows // (variants * METRICS))
    begin = time.perf_counter()
    for number in range(runs):
        store.add(where, document(number, variants))
    filled = time.perf_counter() - begin
    print(f"history: {runs * variants * METRICS:,} rows of {runs} runs stored in {filled:.0f} s")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    begin = time.perf_counter()
    command = [sys.executable, "-m", "pytest_accel.cli", "report", "--trend", where, "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - begin
    peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    print(f"trend page, the whole command: {took:.2f} s, peak memory {peak / 1024:.0f} MiB")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trend(Path(folder), arguments.rows)
        page(Path(folder))


if __name__ == "__main__":
    main()
