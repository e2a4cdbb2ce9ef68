"""The last accepted stack: what to roll back to when the new one may not go live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.report.results import Results

NAMED = ("driver", "firmware", "toolkit", "torch", "torch_npu", "triton")


def last_accepted(results: Results) -> Mapping[str, Any] | None:
    """The versions of the baseline's stack that a person installs: those that differ first; None where none is known."""
    accepted = (results.baseline.get("stack") or {}).get("versions") or {}
    moved = [name.partition(".")[2] for name in results.changed if name.startswith("versions.")]
    names = [name for name in dict.fromkeys([*moved, *NAMED]) if accepted.get(name) is not None]
    return {name: accepted[name] for name in names} or None
