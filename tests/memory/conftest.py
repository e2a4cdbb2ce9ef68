"""A user's project of the gate's tests, and the accelerator of this host."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location("gate_project", Path(__file__).parents[1] / "gate" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules["gate_project"] = _module
_spec.loader.exec_module(_module)


site = _module.site
accepted = _module.accepted


@pytest.fixture
def project(pytester: pytest.Pytester, site: Any, accepted: Any) -> Any:
    made = _module.Project(pytester, site, accepted)
    made.with_torch()
    return made


@pytest.fixture
def accel() -> Any:
    pytest.importorskip("torch")
    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.stack.registry import platform
    from pytest_accel.stack.types import Stack

    return Accelerator(platform("cpu"), 0, Stack("cpu", hardware={"memory_bytes": 8 * 10**9}))
