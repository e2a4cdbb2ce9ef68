"""Makes a manifest of torch's operator database; run as a process of its own, since collection imports no torch.

``python -m pytest_accel.workloads.opcover.census [--samples] FILE``: with ``--samples``, as the shipped manifests are, the
samples of each operator and dtype are drawn and counted, which takes some minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.files import write_whole
from pytest_accel.workloads import opinfo
from pytest_accel.workloads.opcover.manifest import Entry, as_text

if TYPE_CHECKING:
    import torch


def take(count_samples: bool) -> list[Entry]:
    """Every operator of the installed torch with its dtypes; samples are counted up to ``opinfo.ENOUGH``, 0 is not counted."""
    entries = []
    for record in opinfo.database():
        operator = opinfo.operator_of(record)
        forward: dict[str, int] = {}
        for dtype in operator.declared():
            forward[str(dtype).removeprefix("torch.")] = _count(operator, dtype) if count_samples else 0
        backward = frozenset(str(dtype).removeprefix("torch.") for dtype in operator.declared(backward=True))
        entries.append(Entry(operator.name, operator.variant, forward, backward))
    return entries


def _count(operator: opinfo.Operator, dtype: torch.dtype) -> int:
    try:
        return sum(1 for _ in operator.samples(dtype, 0))
    except Exception:  # the database's own code refuses a dtype on the host that it declares for another device
        return 0


def main() -> None:
    """Write the manifest of the installed torch."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", action="store_true", help="count the samples of each operator and dtype")
    parser.add_argument("file", metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    write_whole(Path(arguments.file), as_text(str(torch.__version__), take(arguments.samples)))


if __name__ == "__main__":
    main()
