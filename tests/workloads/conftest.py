"""An accelerator for the workloads: the CPU behind the fake platform of tests/measure, whose clock and texts a test sets."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.stack.types import Stack

_spec = importlib.util.spec_from_file_location("fake_platform", Path(__file__).parents[1] / "measure" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules["fake_platform"] = _module
_spec.loader.exec_module(_module)


@pytest.fixture
def fake_platform() -> Any:
    return _module.FakePlatform()


@pytest.fixture
def accelerator(fake_platform: Any) -> Accelerator:
    return Accelerator(fake_platform, 0, Stack("fake"))


@pytest.fixture
def measured(accelerator: Accelerator) -> Callable[..., dict[str, Any]]:
    """Run a built-in workload by name."""
    from pytest_accel.workloads import registry

    return lambda name, **params: registry.resolve(name)(accelerator, **params)
