"""The fixtures for Python tests: ``accel``, ``accel_device``, ``accel_check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator


@pytest.fixture
def accel(request: pytest.FixtureRequest) -> Accelerator:
    """The accelerator: its platform, torch device and stack; timing, memory, seeds, notes."""
    from pytest_accel.gate.accelerators import accelerator_for

    return accelerator_for(request.node)


@pytest.fixture
def accel_device(accel: Accelerator) -> torch.device:
    """The torch device to put tensors on."""
    return accel.device


@pytest.fixture
def accel_check(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Check a value against the baseline: ``accel_check(name, value, unit=, better=, worse_by=, floor=, min=, max=)``.

    ``value`` is a number, a word, or the samples of one session. The verdict is reached when the test has ended, so a bad
    value does not keep the checks behind it from being made. Raises ConfigError (exit code 4) for an unknown keyword or a
    name checked twice.
    """
    from pytest_accel.gate.accelerators import accelerator_for
    from pytest_accel.gate.python_tests import check

    accelerator_for(request.node)

    def accel_check(name: str, value: Any, **words: Any) -> None:
        check(request.node, name, value, words)

    return accel_check
