"""The HTML page in a real browser: what it shows, what its filters do, and that nothing in it can act."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from pytest_accel.report.page.build import render
from pytest_accel.report.results import parse, read

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<script>window.stolen=1</script>\"'><img src=x onerror=window.stolen=2>|`*_[x](javascript:window.stolen=3)"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install Debian's package `chromium`")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def shows(page, text):
    """Waits for the line that counts what is shown."""
    from playwright.sync_api import expect

    expect(page.locator("#shown")).to_have_text(text)


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens HTML and keeps what the console, failed requests and errors said in ``page.said``."""

    def open_it(html, **options):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(**options)
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("requestfailed", lambda request: page.said.append(request.url))
        page.goto(path.as_uri())
        return page

    return open_it


def test_the_page_of_a_real_run_filters_opens_rows_and_says_nothing_on_the_console(shown, open_page):
    page = open_page(render(read(shown.path / "results.json")))
    total = len(shown.results["cases"])
    assert page.inner_text("#shown") == f"{total} of {total} variants shown"

    page.fill("#search", "worse name=e")
    shows(page, f"1 of {total} variants shown")
    page.click("#rows tr:not([hidden]) button.key")
    assert "20" in page.inner_text("tr.detail")
    page.click("#rows tr:not([hidden]) button.key")
    assert page.locator("tr.detail").count() == 0

    page.fill("#search", "")
    page.select_option("#verdict", "ENV")
    shows(page, f"1 of {total} variants shown")
    assert page.said == []


def test_the_page_is_usable_by_keyboard_and_has_names_for_a_screen_reader(shown, open_page):
    page = open_page(render(read(shown.path / "results.json")))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.focus("#rows button.key")
    page.keyboard.press("Enter")
    assert page.get_attribute("#rows button.key", "aria-expanded") == "true"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input,select,button')]"
        ".filter(e => !e.labels?.length && !e.textContent.trim()).length"
    )
    assert unnamed == 0
    assert page.get_attribute("html", "lang") == "en"


def test_dark_and_light_give_readable_contrast(shown, open_page):
    html = render(read(shown.path / "results.json"))
    for scheme in ("light", "dark"):
        page = open_page(html, color_scheme=scheme)
        ink, paper = page.evaluate(
            "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor] })()"
        )
        assert contrast(ink, paper) > 7, scheme


def contrast(first, second):
    """The contrast ratio of two ``rgb(r, g, b)`` colours, by WCAG 2."""

    def luminance(text):
        channels = [int(part) / 255 for part in text[text.index("(") + 1 : -1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_hostile_names_reasons_and_values_are_inert(made, open_page):
    bad = made.case(
        key=f"s/c[x={HOSTILE}]",
        verdict="REGRESSION",
        code="worse",
        reason=f"{HOSTILE}\n</script><script>window.stolen=4</script>",
        metrics={HOSTILE: made.metric(HOSTILE, "REGRESSION")},
        params={"op": HOSTILE, "dtype": "float32"},
        notes={"reproduce": {"code": f"</pre>{HOSTILE}"}, "plots": [plot(HOSTILE)]},
    )
    long = made.case(key="s/c[x=" + "k" * 10_000 + "]")
    data = made.document([bad, long])
    data["baseline"] = {"path": HOSTILE, "stack": {}, "changed": {HOSTILE: [HOSTILE, None]}}
    page = open_page(render(parse(data, "results.json")))
    page.click("#rows button.key")
    page.wait_for_timeout(50)
    assert page.evaluate("window.stolen") is None
    assert page.said == []
    assert HOSTILE in page.inner_text("body")
    assert page.locator("script").count() == 2


def plot(title):
    line = {"name": title, "x": [1, 10, 100], "y": [1.0, 2.0, {"nonfinite": "nan"}]}
    return {"title": title, "x": "$position$", "y": "error", "x_log": True, "lines": [line]}


def test_a_plot_comes_with_its_data_and_a_broken_one_is_said(made, open_page):
    good = made.case(key="s/c[n=1]", notes={"plots": [plot("drift"), {"title": "broken", "lines": [{"name": "a"}]}]})
    page = open_page(render(parse(made.document([good]), "results.json")))
    assert page.locator("figure svg").count() == 1
    page.click("figure summary")
    assert "100" in page.inner_text("figure table")
    assert "cannot be drawn" in page.inner_text("body")


def test_five_thousand_variants_are_written_and_filtered(made, open_page):
    cases = [
        made.case(
            key=f"s/c[n={n}]",
            verdict="REGRESSION" if n % 500 == 0 else "PASS",
            metrics={"time": made.metric(1.0 + n, baseline=1.0, change=float(n))},
        )
        for n in range(5000)
    ]
    begin = time.perf_counter()
    html = render(parse(made.document(cases), "results.json"))
    took = time.perf_counter() - begin
    page = open_page(html)
    page.fill("#search", "n=4321")
    shows(page, "1 of 5000 variants shown")
    page.select_option("#verdict", "REGRESSION")
    page.fill("#search", "")
    shows(page, "10 of 5000 variants shown")
    print(f"written in {took:.2f} s, {len(html) / 1e6:.1f} MB")


def test_it_prints_without_its_filters(shown, open_page):
    page = open_page(render(read(shown.path / "results.json")))
    page.emulate_media(media="print")
    assert not page.is_visible(".filters")
    assert page.is_visible(".answer")


def test_without_a_network_address_in_it(shown):
    page = render(read(shown.path / "results.json"))
    addresses = [part.split('"')[0] for part in page.split('src="')[1:]]
    assert addresses == []
    assert "@import" not in page
    assert 'rel="stylesheet"' not in page
    assert os.environ.get("HOME", "/nonexistent-home") not in page.replace(str(shown.path), "")
