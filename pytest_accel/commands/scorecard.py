"""``pytest-accel scorecard``: platforms held against each other for a choice, every figure with its source."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    scorecard = commands.add_parser("scorecard", help="choose a platform: performance, compatibility, cost, compliance")
    scorecard.add_argument("card", metavar="CARD", help="a YAML file: platforms with results files, costs, weights")
    scorecard.add_argument("-o", "--output", metavar="FILE", help="write the Markdown there (default: print it)")
    scorecard.set_defaults(run=_scorecard)


def _scorecard(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.errors import ConfigError
    from pytest_accel.files import write_whole
    from pytest_accel.scorecard.compute import score
    from pytest_accel.scorecard.render import render
    from pytest_accel.scorecard.types import read

    path = Path(arguments.card)
    card, source = read(path)
    page = render(score(card, source, path))
    if not arguments.output:
        print(page, end="")
        return 0
    target = Path(arguments.output)
    try:
        write_whole(target, page)
    except OSError as error:
        raise ConfigError.at(
            target, None, f"cannot be written: {error.strerror or error}", "name another file"
        ) from error
    print(target)
    return 0
