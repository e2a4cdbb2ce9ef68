"""``pytest-accel coverage``: which operators are supported, in which dtypes, and what changed, from a results file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_CONFIG

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    coverage = commands.add_parser("coverage", help="operators by family and dtype: supported, lost, won")
    coverage.add_argument("results", nargs="+", metavar="RESULTS", help="results files of --accel-report")
    form = coverage.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    coverage.set_defaults(run=_coverage)


def _coverage(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.files import dump_json
    from pytest_accel.report import coverage
    from pytest_accel.report.results import read

    cells = [cell for path in arguments.results for cell in coverage.cells_of_cases(map(vars, read(Path(path)).cases))]
    if not cells:
        print("pytest-accel: no operator variant stands in these results", file=sys.stderr)
        return EXIT_CONFIG
    if arguments.json:
        sys.stdout.write(dump_json(coverage.as_json(cells)))
    elif arguments.markdown:
        sys.stdout.write(coverage.as_markdown(cells))
    else:
        print("\n".join(coverage.lines(cells)))
    return 0
