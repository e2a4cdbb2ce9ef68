"""``pytest-accel lint-ops``: what is wrong with a file that replaces operators."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_CONFIG

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    lint = commands.add_parser(
        "lint-ops", help="check a file of operator replacements, and write the suite that tests them"
    )
    lint.add_argument(
        "file", metavar="FILE", help="YAML or JSON: exclude_ops, replace_ops, fallback_policy, precision_override"
    )
    lint.add_argument("--suite", metavar="OUT", help="write a suite that runs every replacement; ends in .accel.yaml")
    lint.set_defaults(run=_lint)


def _lint(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.errors import ConfigError, Problem
    from pytest_accel.files import write_whole
    from pytest_accel.workloads.replacement_file import read_operator_file
    from pytest_accel.workloads.replacement_lint import known_operators, lint
    from pytest_accel.workloads.replacement_suite import suite_text

    if arguments.suite and not arguments.suite.endswith((".accel.yaml", ".accel.yml")):
        what = f"--suite {arguments.suite}: pytest collects suites by their name"
        raise ConfigError(Problem(what, "let it end in .accel.yaml"))
    file = read_operator_file(Path(arguments.file))
    known = known_operators()
    found = lint(file, known)
    for finding in found:
        print(finding)
    if known is None:
        print("torch is not installed here: whether the operators exist was not checked", file=sys.stderr)
    errors = sum(finding.severity == "error" for finding in found)
    print(f"{arguments.file}: {errors} error(s), {len(found) - errors} warning(s), {len(file.replace)} replacement(s)")
    if arguments.suite:
        if not file.replace:
            raise ConfigError.at(
                file.path, 1, "it replaces nothing, so there is no suite to write", "add `replace_ops`"
            )
        write_whole(arguments.suite, suite_text(file))
    return EXIT_CONFIG if errors else 0
