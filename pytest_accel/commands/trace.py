"""``pytest-accel trace``: write a suite of the operators that a program really calls."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_CONFIG

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands

SUFFIXES = (".accel.yaml", ".accel.yml")
LIMIT = 300
EXIT_SIGNAL = 128  # a shell's code for a program that a signal ended


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
    trace = commands.add_parser(
        "trace",
        help="write a suite of the operators, shapes and dtypes that a program really calls",
        usage="pytest-accel trace -o FILE [--limit N] -- python my_script.py [ARG ...]",
    )
    trace.add_argument("-o", "--output", required=True, metavar="FILE", help="the suite; its name ends in .accel.yaml")
    trace.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"at most N calls (default: {LIMIT})")
    trace.add_argument("program", nargs=argparse.REMAINDER, help="after --: the program and its arguments")
    trace.set_defaults(run=_trace)


def _trace(arguments: argparse.Namespace) -> int:
    import tempfile

    from pytest_accel.files import write_whole
    from pytest_accel.trace import check, select, write

    output = Path(arguments.output)
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    _refuse(output, arguments.limit, program)
    with tempfile.TemporaryDirectory(prefix="pytest-accel-trace-") as folder:
        code, ended = _run(program, folder)
        seen = select.read(Path(folder))
    if not seen.total:
        _say(f"no operator of torch was seen, so {output} was not written: {_why_nothing(program)}")
        return code or EXIT_CONFIG
    calls = select.choose(seen, arguments.limit)
    failed = check.why_not(calls)
    for place, why in (failed or {}).items():
        seen.leave_out(calls[place].op, why, calls[place].count)
    calls = [call for place, call in enumerate(calls) if place not in (failed or {})]
    if failed is None:
        _say("torch is not installed beside pytest-accel: whether the calls can be made again was not tried")
    for line in write.left_out_lines(seen):
        _say(line)
    if not calls:
        _say(f"no call can stand in a suite, so {output} was not written")
        return code or EXIT_CONFIG
    write_whole(output, write.suite_text(calls, seen, _shown(program), ended))
    operators = len({call.op for call in calls})
    _say(f"{output}: {len(calls)} calls of {operators} operators, of {seen.total} calls that were seen")
    if ended:
        _say(f"the program {ended}; the suite holds what it had called until then")
    return code


def _refuse(output: Path, limit: int, program: list[str]) -> None:
    """Raises ConfigError for what can be known to be wrong before the program runs."""
    from pytest_accel.errors import ConfigError, Problem
    from pytest_accel.trace.write import MARK

    problem = None
    if not program:
        problem = Problem(
            "no program is named", "write it after `--`: pytest-accel trace -o FILE -- python my_script.py"
        )
    elif limit < 1:
        problem = Problem(f"--limit {limit}: a suite of no calls tests nothing", "give a number from 1")
    elif not output.name.endswith(SUFFIXES):
        mend = f"call it {output.stem.partition('.')[0]}.accel.yaml"
        problem = Problem(f"-o {output}: pytest collects suites by their name, which ends in .accel.yaml", mend)
    elif not output.parent.is_dir():
        problem = Problem(f"-o {output}: the folder {output.parent} is not there", "make it first")
    elif output.exists() and not output.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        problem = Problem(f"-o {output}: the file is there, and no trace wrote it", "name another, or remove it")
    if problem is not None:
        raise ConfigError(problem)


def _run(program: list[str], folder: str) -> tuple[int, str]:
    """Run the program with the recorder on its path; its exit code, and how it ended where that is no success."""
    from pytest_accel.errors import ConfigError, Problem

    inject = str(Path(__file__).parents[1] / "trace" / "inject")
    path = os.pathsep.join(part for part in (inject, os.environ.get("PYTHONPATH", "")) if part)
    try:
        child = subprocess.Popen(program, env={**os.environ, "PYTHONPATH": path, "PYTEST_ACCEL_TRACE": folder})
    except OSError as error:
        mend = f"begin with an interpreter: -- python {program[0]}" if program[0].endswith(".py") else "check its name"
        raise ConfigError(Problem(f"{program[0]} cannot be run: {error.strerror or error}", mend)) from None
    while True:
        try:
            code = child.wait()
            break
        except KeyboardInterrupt:
            continue  # the program got it too, and says itself how it ends
    if code < 0:
        return EXIT_SIGNAL - code, f"was ended by signal {-code}"
    return code, f"failed with exit code {code}" if code else ""


def _why_nothing(program: list[str]) -> str:
    odd = [word for word in program[1:] if word in ("-I", "-E", "-S")]
    if odd:
        return f"python {odd[0]} reads no environment, and the recorder comes that way; run it without {odd[0]}"
    return "the program imported no torch, or called nothing of it"


def _shown(program: list[str]) -> str:
    """The program without its arguments, which may hold what is nobody's business."""
    words = [os.path.basename(program[0])]
    for place, word in enumerate(program[1:], 1):
        if word == "-m" and place + 1 < len(program):
            return " ".join([*words, "-m", program[place + 1]])
        if word == "-c":
            return " ".join([*words, "-c"])
        if not word.startswith("-"):
            return " ".join([*words, os.path.basename(word)])
    return words[0]


def _say(text: str) -> None:
    print(f"pytest-accel trace: {text}", file=sys.stderr)
