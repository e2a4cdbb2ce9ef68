"""Is this the machine that the baselines know? A device that moved to another folder, or an accelerator that went."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_accel.gate.options import Options
from pytest_accel.stack.types import Machine


def misplaced(machine: Machine, options: Options, folders: Iterable[Path]) -> tuple[str, str] | None:
    """ENV ``hardware-renamed`` or ``accelerator-gone`` as (code, sentence); None where nothing speaks against the machine.

    A device whose hashed id stands in another hardware's folder was renamed by its driver or its table: its baseline would
    silently not be found. A machine whose sessions stand in an accelerator's folder, on which ``auto`` finds only the
    host's own CPU, has lost its accelerator.
    """
    from pytest_accel.baseline.match import find_device, find_machine

    slug = machine.probe.slug
    on_host = machine.platform == "cpu"
    for folder in folders:
        if not folder.is_dir():
            continue
        if not on_host:
            for device in machine.probe.devices:
                elsewhere = [name for name in find_device(folder, device.identity) if name != slug]
                if device.identity and elsewhere:
                    return (
                        "hardware-renamed",
                        f"this device calls itself {slug} now, but its sessions stand in {folder / elsewhere[0]}: its name or "
                        "partition changed, so the baseline would not be found; restore the partition, or rename the folder",
                    )
        elif options.accel == "auto" and machine.machine_id:
            known = [name for name in find_machine(folder, machine.machine_id) if not name.startswith("cpu-")]
            if known:
                return (
                    "accelerator-gone",
                    f"sessions of this machine stand in {folder / known[0]}, but no accelerator is found now ({machine.why}); "
                    "run `pytest-accel doctor`, or say --accel=cpu if it was taken out on purpose",
                )
    return None
