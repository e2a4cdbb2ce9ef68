"""``pytest-accel promote``: the only way to replace or remove an accepted value."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_CONFIG

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    promote = commands.add_parser(
        "promote", help="take measured values into the baseline: the only way to replace or remove one"
    )
    promote.add_argument("results", metavar="RESULTS", help="a results file of --accel-report")
    promote.add_argument("--reason", required=True, metavar="TEXT", help="why; stored with the old and the new value")
    promote.add_argument("--case", metavar="GLOB", help="only variants whose key matches")
    promote.add_argument(
        "--known-bad", metavar="FILE", help="keys whose bad value is accepted as a known fault, one a line"
    )
    promote.add_argument(
        "--retire", action="append", default=[], metavar="KEY", help="remove this entry, leaving a tombstone"
    )
    promote.add_argument("--accel-baselines", metavar="DIR", help="the baselines folder (default: the one in RESULTS)")
    promote.set_defaults(run=_promote)


def _promote(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.baseline.promote import promote
    from pytest_accel.baseline.results import baselines_of, read_known_bad

    summary = promote(
        Path(arguments.accel_baselines) if arguments.accel_baselines else baselines_of(Path(arguments.results)),
        Path(arguments.results),
        reason=arguments.reason,
        case=arguments.case,
        known_bad=read_known_bad(Path(arguments.known_bad)) if arguments.known_bad else (),
        retire=arguments.retire,
    )
    for key, metric, old, new in summary.changes:
        print(f"{key}: {metric} {old} -> {new}")
    for key in summary.known_bad:
        print(f"{key}: accepted as a known fault")
    for key in summary.retired:
        print(f"{key}: retired")
    for key in summary.unchanged:
        print(f"{key}: unchanged")
    for key, why in summary.refused.items():
        print(f"{key}: refused: {why}", file=sys.stderr)
    print(
        f"{len(summary.changes)} value(s) replaced, {len(summary.unchanged)} entry(ies) unchanged, "
        f"{len(summary.retired)} retired, {len(summary.refused)} refused"
    )
    return EXIT_CONFIG if summary.refused else 0
