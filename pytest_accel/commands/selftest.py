"""``pytest-accel selftest``: known faults in this device's own results; does the gate fail and pass when it should?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_UNFIT

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands
    from pytest_accel.selftest.types import Outcome

EXIT_MISSED = 1
LOCK_WAIT = 600.0


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    selftest = commands.add_parser(
        "selftest",
        help="injects known faults and A/A pairs on this machine: the gate must fail and pass when it should",
    )
    selftest.add_argument("--accel", default="auto", metavar="PLATFORM", help="the platform to test (default: auto)")
    selftest.add_argument("--json", action="store_true", help="print JSON")
    selftest.add_argument("--quick", action="store_true", help="leave out what takes minutes (6,000 training steps)")
    selftest.add_argument("--only", metavar="TEXT", help="only checks whose name holds TEXT; `timing`: the timings")
    selftest.add_argument("--pairs", type=int, default=3, metavar="N", help="A/A pairs of a timing (default: 3)")
    selftest.set_defaults(run=_selftest)


def _selftest(arguments: argparse.Namespace) -> int:
    from pytest_accel.errors import ConfigError, Problem
    from pytest_accel.selftest.catalogue import CHECKS
    from pytest_accel.selftest.machine import Bench
    from pytest_accel.selftest.run import Unfit, run_checks, run_timings

    checks = [
        check for check in CHECKS if not (arguments.quick and check.slow) and (arguments.only or "") in check.name
    ]
    timings = not arguments.only or "timing" in arguments.only
    if not checks and not timings:
        names = ", ".join(check.name for check in CHECKS)
        raise ConfigError(Problem(f"--only: no check's name holds `{arguments.only}`", f"they are: {names}, timing"))
    if arguments.pairs < 1:
        raise ConfigError(Problem(f"--pairs: must be at least 1, not {arguments.pairs}"))
    outcomes: list[Outcome] = []
    left_out = sorted(check.name for check in CHECKS if arguments.quick and check.slow)
    try:
        with Bench(arguments.accel, LOCK_WAIT) as bench:
            for outcome in run_checks(checks, bench.measure):
                _progress(outcome, arguments.json)
                outcomes.append(outcome)
            if timings:
                for outcome in run_timings(bench.timed, bench.on_host, arguments.pairs):
                    _progress(outcome, arguments.json)
                    outcomes.append(outcome)
            where = bench.where
    except Unfit as problem:
        print(f"pytest-accel selftest: ENV {problem.code}: {problem}", file=sys.stderr)
        return EXIT_UNFIT
    code = 0 if all(outcome.fine for outcome in outcomes) else EXIT_MISSED
    if arguments.json:
        from pytest_accel.files import dump_json

        print(dump_json(_as_json(where, outcomes, left_out, code)), end="")
    else:
        print(_as_text(where, outcomes, left_out))
    return code


def _progress(outcome: Outcome, quiet: bool) -> None:
    if not quiet and sys.stderr.isatty():
        print(f"{outcome.word:15s} {outcome.name} ({outcome.seconds:.1f} s)", file=sys.stderr)


def _as_json(where: dict[str, str], outcomes: list[Outcome], left_out: list[str], code: int) -> dict[str, object]:
    return {
        "schema": "pytest-accel/selftest/1",
        "stack": where,
        "exit_code": code,
        "left_out": left_out,
        "checks": [{**vars(outcome), "fine": outcome.fine} for outcome in outcomes],
    }


def _as_text(where: dict[str, str], outcomes: list[Outcome], left_out: list[str]) -> str:
    name = max(len(outcome.name) for outcome in outcomes)
    lines = [f"selftest on {', '.join(f'{key} {value}' for key, value in where.items() if value)}", ""]
    lines.append(f"{'outcome':15s} {'check':{name}s} {'verdict':11s} {'by limits':10s} what was changed")
    for outcome in outcomes:
        alone = "alone" if outcome.alone else "-"
        lines.append(f"{outcome.word:15s} {outcome.name:{name}s} {outcome.verdict:11s} {alone:10s} {outcome.says}")
    bad = [outcome for outcome in outcomes if not outcome.fine]
    faults = [outcome for outcome in outcomes if outcome.kind == "fault"]
    benign = [outcome for outcome in outcomes if outcome.kind == "benign"]
    lines += ["", *(f"{outcome.word}: {outcome.name}: {outcome.reason}" for outcome in bad)]
    told = [outcome for outcome in outcomes if outcome.word == "not here"]
    lines += [f"not here: {outcome.name}: {outcome.reason}" for outcome in told]
    lines += [f"left out (--quick): {name}" for name in left_out]
    caught = sum(outcome.word == "caught" for outcome in faults)
    blind = sum(outcome.word == "blind, as said" for outcome in faults)
    passed = sum(outcome.word == "passed" for outcome in benign)
    lines.append(
        f"{'FAIL' if bad else 'PASS'}: {caught} of {len(faults) - blind - len(told)} faults caught, {passed} of {len(benign)} "
        f"benign variations passed, {blind} known blind spots shown"
    )
    return "\n".join(lines)
