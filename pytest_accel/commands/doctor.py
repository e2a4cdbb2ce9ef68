"""``pytest-accel doctor``: what is installed, what is wrong, how to mend it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pytest_accel.commands.types import EXIT_UNFIT

if TYPE_CHECKING:
    from pytest_accel.commands.types import Commands


def add(commands: Commands) -> None:
    """Declare the command's arguments."""
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


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_accel.report.doctor import as_json, as_text, examine

    report = examine(arguments.accel, arguments.rootfs, arguments.policy, arguments.userland)
    print(as_json(report) if arguments.json else as_text(report))
    return 0 if report["fit"] else EXIT_UNFIT
