"""pytest-accel: may this driver, toolkit or framework upgrade go live?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_accel.workloads.declare import workload
    from pytest_accel.workloads.types import MetricSpec

__version__ = "0.1.0"
__all__ = ["MetricSpec", "__version__", "workload"]


def __getattr__(name: str) -> Any:
    """Import the public names when they are asked for: pytest loads this package in every run."""
    if name == "workload":
        from pytest_accel.workloads.declare import workload

        return workload
    if name == "MetricSpec":
        from pytest_accel.workloads.types import MetricSpec

        return MetricSpec
    raise AttributeError(f"module 'pytest_accel' has no attribute '{name}'")
