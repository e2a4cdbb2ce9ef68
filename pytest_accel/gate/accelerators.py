"""The accelerator of Python tests: one a process, made when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_accel.gate.context import gate_of
from pytest_accel.gate.items import AccelFailure

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator

ACCELERATOR = pytest.StashKey["Accelerator"]()


def accelerator_for(item: pytest.Item) -> Accelerator:
    """The accelerator for ``item``, in this process. Fails the test (ENV) on a machine that may not judge."""
    gate = gate_of(item.config)
    if gate.unfit is not None:
        code, reason = gate.unfit
        raise AccelFailure(f"ENV ({code}): {reason}")
    known = item.config.stash.get(ACCELERATOR, None)
    if known is None:
        from pytest_accel.measure.accelerator import Accelerator
        from pytest_accel.stack.loaded import loaded_stack

        gate.close()  # the measuring process has ended by now; a device in exclusive mode must be free
        index = (
            0 if gate.narrowed or not gate.worker_id else gate.worker_number % max(len(gate.machine.probe.devices), 1)
        )
        known = Accelerator(gate.platform, index, loaded_stack(gate.platform, index, gate.devices.probe_part()))
        item.config.stash[ACCELERATOR] = known
    return known


def accelerator_if_any(config: pytest.Config) -> Accelerator | None:
    """The accelerator where a test has asked for it."""
    return config.stash.get(ACCELERATOR, None)
