"""``pytest-accel history``: runs in SQL, added from results files, pruned, exported."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    history = commands.add_parser("history", help="runs in SQL: add results files, prune old runs, export to Parquet")
    history.add_argument("url", metavar="URL", help="a SQLAlchemy URL, or the path of a SQLite file")
    history.add_argument("--add", nargs="+", default=[], metavar="RESULTS", help="results files to store")
    history.add_argument("--prune", type=int, metavar="DAYS", help="remove runs older than so many days")
    history.add_argument("--export", metavar="FILE", help="write all values to a Parquet file")
    history.set_defaults(run=_history)


def _history(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_accel.baseline.results import read_results
    from pytest_accel.errors import ConfigError, Problem
    from pytest_accel.history import store

    if arguments.prune is not None and arguments.prune < 1:
        raise ConfigError(
            Problem(f"--prune {arguments.prune}: is not a number of days from 1", "give a number such as 365")
        )
    documents = [(given, read_results(Path(given))) for given in arguments.add]  # all are read before one is stored
    for given, document in documents:
        print(f"{given}: " + ("stored" if store.add(arguments.url, document) else "is there already"))
    if arguments.prune is not None:
        print(f"{store.prune(arguments.url, arguments.prune)} run(s) removed")
    if arguments.export:
        print(f"{store.export(arguments.url, Path(arguments.export))} row(s) written to {arguments.export}")
    if not (arguments.add or arguments.prune is not None or arguments.export):
        with store.opened(arguments.url) as engine:
            for run in store.runs(engine, last=20):
                print(f"{run.started}  {run.verdict:<14} exit code {run.exit_code:>2}  {run.hardware}  {run.id}")
    return 0
