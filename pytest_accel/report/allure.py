"""Allure results of the suites' variants, written by the process that keeps the run's books.

allure-pytest listens to pytest's hooks in each worker: a variant whose worker died, or whose verdict came late, would be
missing or wrong there. So variants are written from the finished results, through allure's own model and writer.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.report.page.build import reproducer
from pytest_accel.report.results import Case, Results

STATUS = {"PASS": "passed", "IMPROVED": "passed", "REGRESSION": "failed", "WAIVED": "skipped"}  # every other: broken
SEVERITY = {"smoke": "critical", "gate": "normal", "full": "minor"}
CATEGORIES = (
    ("Regressions", "REGRESSION", "failed"),
    ("Machine unfit to judge", "ENV", "broken"),
    ("Not measured", "UNMEASURED", "broken"),
    ("Too noisy to judge", "INCONCLUSIVE", "broken"),
    ("Expected by the baseline, gone", "MISSING", "broken"),
    ("Without an accepted value", "NEW", "broken"),
    ("Waived", "WAIVED", "skipped"),
)


def write(results: Results, folder: Path, *, accepted_new: bool = False) -> int:
    """Write one result a variant, ``environment.properties`` and ``categories.json``; returns how many results.

    ``accepted_new``: NEW was recorded or allowed, and counts as passed. Needs allure-pytest. Raises OSError where the
    folder cannot be written to.
    """
    from allure_commons.logger import AllureFileLogger

    logger: Any = AllureFileLogger(str(folder))
    clock = _start_of(results)
    count = 0
    for case in results.cases:
        if case.suite == "py" and case.code not in ("crash", "worker-died", "stopped-early"):
            continue  # a Python test: allure-pytest wrote it
        stop = clock + int(case.seconds * 1000)
        logger.report_result(_result(case, logger, clock, stop, accepted_new))
        clock = stop
        count += 1
    (folder / "environment.properties").write_text(_environment(results), encoding="utf-8")
    (folder / "categories.json").write_text(json.dumps(_categories(), indent=1) + "\n", encoding="utf-8")
    return count


def _result(case: Case, logger: Any, start: int, stop: int, accepted_new: bool) -> Any:
    from allure_commons import model2

    passed = accepted_new and case.verdict == "NEW"
    code = f" ({case.code})" if case.code else ""
    mark = hashlib.md5(case.key.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    labels = {
        "framework": "pytest-accel",
        "language": "python",
        "host": socket.gethostname(),
        "thread": case.worker or "main",
        "parentSuite": "accelerator gate",
        "suite": case.suite,
        "subSuite": case.case,
        "epic": "accelerator gate",
        "feature": case.family,
        "severity": SEVERITY.get(case.tier, "normal"),
    }
    tags = [case.verdict, *([case.code] if case.code else [])]
    return model2.TestResult(
        uuid=str(uuid.uuid4()),
        historyId=mark,
        testCaseId=mark,
        fullName=case.key,
        name=case.key,
        titlePath=[case.suite, case.case],
        status="passed" if passed else STATUS.get(case.verdict, "broken"),
        statusDetails=None
        if passed or case.verdict in ("PASS", "IMPROVED")
        else model2.StatusDetails(message=f"{case.verdict}{code}: {case.reason}"),
        stage="finished",
        description=case.reason,
        labels=[model2.Label(name=name, value=value) for name, value in labels.items()]
        + [model2.Label(name="tag", value=tag) for tag in tags],
        links=[model2.Link(type="issue", url=url, name=url) for url in _issues(case)],
        parameters=[model2.Parameter(name=str(n), value=json.dumps(v, sort_keys=True)) for n, v in case.params.items()],
        attachments=_attachments(case, logger),
        start=start,
        stop=stop,
    )


def _attachments(case: Case, logger: Any) -> list[Any]:
    found: list[tuple[str, str, str, str]] = []
    if case.metrics:
        text = json.dumps(case.metrics, indent=1, sort_keys=True, default=str)
        found.append(("metrics", text, "application/json", "json"))
    code = reproducer(case.notes)
    if code:
        found.append(("reproducer", code, "text/plain", "py"))
    if case.notes.get("plots"):
        from pytest_accel.report.page import plots

        drawn = plots.series_of(case.notes)[0] if plots.available() else []
        found += [(plot.title, plot.svg, "image/svg+xml", "svg") for plot in drawn]
    return [_attach(logger, *each) for each in found]


def _attach(logger: Any, name: str, text: str, kind: str, suffix: str) -> Any:
    from allure_commons import model2

    source = model2.ATTACHMENT_PATTERN.format(prefix=uuid.uuid4(), ext=suffix)
    logger.report_attached_data(text.encode("utf-8", "replace"), source)
    return model2.Attachment(name=name, source=source, type=kind)


def _issues(case: Case) -> list[str]:
    said: Any = case.notes.get("waiver_issues")
    listed: Sequence[Any] = said if isinstance(said, (list, tuple)) else ()
    return [url for url in listed if isinstance(url, str) and url.startswith(("https://", "http://"))]


def _start_of(results: Results) -> int:
    """The run's start in milliseconds of the epoch. A variant's own start is not stored: they follow one another from here."""
    try:
        when = datetime.datetime.fromisoformat(str(results.run.get("started")))
    except ValueError:
        when = datetime.datetime.now(datetime.timezone.utc)
    return int(when.timestamp() * 1000)


def _environment(results: Results) -> str:
    facts: dict[str, Any] = {"platform": results.stack.get("platform"), "exit_code": results.exit_code}
    for part in ("hardware", "versions", "settings"):
        said: Mapping[str, Any] = results.stack.get(part) or {}
        facts.update({f"{part}.{name}": value for name, value in said.items() if value is not None})
    return "".join(f"{_property(name)}={_property(value)}\n" for name, value in facts.items())


def _property(value: object) -> str:
    """A key or a value of a Java properties file, on one line."""
    flat = " ".join(str(value).split())
    return flat.replace("\\", "\\\\").replace("=", "\\=").replace(":", "\\:").replace("#", "\\#").replace("!", "\\!")


def _categories() -> list[dict[str, Any]]:
    return [
        {"name": name, "messageRegex": rf"(?s)^{verdict}\b.*", "matchedStatuses": [status]}
        for name, verdict, status in CATEGORIES
    ]
