"""The built-in workloads by name, from one catalogue a family. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.workloads.catalog import llm_operators, memory, operators, precision, throughput
from pytest_accel.workloads.types import Workload

WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for family in (llm_operators, memory, operators, precision, throughput)
    for workload in family.ALL
}
