"""``pytest-accel``: one module a command in ``commands/``, which imports what it needs when it is called."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_accel import __version__
from pytest_accel.commands.types import EXIT_CONFIG
from pytest_accel.errors import ConfigError

COMMANDS = (
    "doctor",
    "compare",
    "promote",
    "report",
    "coverage",
    "history",
    "scorecard",
    "trace",
    "lint_ops",
    "selftest",
)


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

    for name in COMMANDS:
        importlib.import_module(f"pytest_accel.commands.{name}").add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
