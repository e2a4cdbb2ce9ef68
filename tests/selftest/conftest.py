"""An accelerator of this process for the self-test's own steps, as tests/workloads has it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.runner.types import Measurement, Request
from pytest_accel.stack.types import Stack

if "fake_platform" not in sys.modules:
    _spec = importlib.util.spec_from_file_location(
        "fake_platform", Path(__file__).parents[1] / "measure" / "conftest.py"
    )
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["fake_platform"] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture
def measure() -> Any:
    """What the measuring process does, here."""
    from pytest_accel.workloads import registry

    def run(request: Request, fresh: bool) -> Measurement:
        accelerator = Accelerator(sys.modules["fake_platform"].FakePlatform(), 0, Stack("fake"))
        module, _, name = request.workload.partition(":")
        try:
            function = getattr(importlib.import_module(module), name) if name else registry.resolve(request.workload)
            return Measurement("measured", metrics=function(accelerator, **request.params))
        except RuntimeError as error:
            return Measurement("error", reason=str(error))

    return run
