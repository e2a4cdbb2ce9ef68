"""Allure's own generator reads what is written, and its page opens in a browser with the right counts."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

ALLURE = Path(sys.prefix) / "node" / "node_modules" / ".bin" / "allure"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
STATUS = {"PASS": "passed", "IMPROVED": "passed", "REGRESSION": "failed", "WAIVED": "skipped"}


@pytest.fixture(scope="module")
def generated(shown, tmp_path_factory):
    if not ALLURE.exists():
        pytest.skip("Allure's generator is not installed: `make test` installs it where npm is")
    folder = tmp_path_factory.mktemp("generated")
    shutil.copytree(shown.path / "allure", folder / "results")
    command = [str(ALLURE), "generate", "results", "-o", "report"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "report"


def test_the_generator_counts_what_the_run_counts(shown, generated):
    expected = Counter(STATUS.get(case["verdict"], "broken") for case in shown.results["cases"])
    stats = json.loads((generated / "summary.json").read_text())["stats"]
    assert {name: stats.get(name, 0) for name in ("passed", "failed", "broken", "skipped")} == dict(expected)


def test_the_generated_page_opens_in_a_browser_and_lists_the_regression(generated):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install Debian's package `chromium`")
    sync_api = pytest.importorskip("playwright.sync_api")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(generated))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_api.sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        sync_api.expect(page.locator("body")).to_contain_text("s/worse[name=e]", timeout=20_000)
        assert errors == []
        browser.close()
        server.shutdown()
