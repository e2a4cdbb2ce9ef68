"""``pytest-accel report``: the HTML page, the Markdown summary and the comparison pages of results files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    report = commands.add_parser("report", help="HTML and Markdown pages of results files, and trends of a history")
    report.add_argument("results", metavar="RESULTS", nargs="*", help="results files of --accel-report")
    report.add_argument("-o", "--output", required=True, metavar="DIR", help="where the pages are written")
    report.add_argument("--title", default="", metavar="TEXT", help="the page's title")
    report.add_argument(
        "--trend", metavar="URL", help="a history (SQLAlchemy URL, or a SQLite file): trend pages of it"
    )
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.commands.types import EXIT_CONFIG
    from pytest_accel.errors import ConfigError, Problem

    if not arguments.results and not arguments.trend:
        raise ConfigError(Problem("report: nothing to report on", "name a results file, or --trend URL"))
    folder = Path(arguments.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError.at(
            folder, None, f"cannot be made: {error.strerror or error}", "name another folder"
        ) from error
    names: set[str] = set()
    for given in arguments.results:
        for path in _pages(Path(given), folder, arguments.title, names):
            print(path)
    if arguments.trend:
        from pytest_accel.history.trend import write_trend

        for path in write_trend(arguments.trend, folder):
            print(path)
    return 0 if names or arguments.trend else EXIT_CONFIG


def _pages(given: Path, folder: Path, title: str, names: set[str]) -> list[Path]:
    """The two pages of one results file. A second file of the same name gets a number."""
    from pytest_accel.errors import ConfigError
    from pytest_accel.files import write_whole
    from pytest_accel.report.markdown import summary
    from pytest_accel.report.page.build import render
    from pytest_accel.report.results import read
    from pytest_accel.report.rollback import last_accepted

    results = read(given)
    name = given.stem
    number = 1
    while name in names:
        number += 1
        name = f"{given.stem}-{number}"
    names.add(name)
    back = last_accepted(results)
    written = []
    for suffix, page in (
        (".html", render(results, title=title, rollback=back)),
        (".md", summary(results, rollback=back)),
    ):
        path = folder / f"{name}{suffix}"
        try:
            write_whole(path, page)
        except OSError as error:
            raise ConfigError.at(
                path, None, f"cannot be written: {error.strerror or error}", "name another folder"
            ) from error
        written.append(path)
    return written
