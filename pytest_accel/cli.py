"""``pytest-accel``: doctor, promote. Each command imports what it needs when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_accel import __version__
from pytest_accel.errors import ConfigError

EXIT_CONFIG = 4
EXIT_UNFIT = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. A user's mistake is one message on stderr and code 4."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        print(f"pytest-accel: {error}", file=sys.stderr)
        return EXIT_CONFIG
    except BrokenPipeError:
        return 0  # the reader of our output has gone, as `| head` does


class _Parser(argparse.ArgumentParser):
    """argparse's parser with the exit code that a wrong argument has everywhere in pytest-accel."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end with code 4."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_CONFIG, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pytest-accel",
        description="May this upgrade go live? The gate itself is pytest: see `pytest --help`, group accel.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-accel {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    doctor = commands.add_parser(
        "doctor", help="what is installed, on which platform, what is wrong and how to mend it"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--accel", default="auto", metavar="PLATFORM", help="judge this platform (default: auto)")
    doctor.add_argument(
        "--rootfs", default="/", metavar="DIR", help="read /proc, /sys, /opt, /usr/local and /etc below DIR"
    )
    doctor.add_argument(
        "--policy",
        default="default",
        metavar="POLICY",
        help="strict: a toolkit newer than the driver, and the like, is an error and not a warning",
    )
    doctor.add_argument(
        "--userland", metavar="DIR", help="judge the image below DIR on the host below --rootfs, asking no device"
    )
    doctor.set_defaults(run=_doctor)

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
    return parser


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_accel.report.doctor import as_json, as_text, examine

    report = examine(arguments.accel, arguments.rootfs, arguments.policy, arguments.userland)
    print(as_json(report) if arguments.json else as_text(report))
    return 0 if report["fit"] else EXIT_UNFIT


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
    for key, why in summary.refused.items():
        print(f"{key}: refused: {why}", file=sys.stderr)
    print(
        f"{len(summary.changes)} value(s) replaced, {len(summary.retired)} entry(ies) retired, {len(summary.refused)} refused"
    )
    return EXIT_CONFIG if summary.refused else 0


if __name__ == "__main__":
    sys.exit(main())
