"""A shipped workload, run with one change in what the device computes. Runs in the measuring process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_accel.workloads import registry

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator


def measure(
    accel: Accelerator, workload: str, params: dict[str, Any], injection: str = "", must_act: bool = True
) -> dict[str, Any]:
    """The metrics of the built-in ``workload`` with ``params``, while ``injection`` acts ("": none).

    Raises RuntimeError where the change never took place although it ``must_act``: then nothing was shown.
    """
    function = registry.resolve(workload)
    if not injection:
        return dict(function(accel, **params))
    from pytest_accel.selftest.injections import injected

    with injected(injection, accel.device) as tally:
        metrics = dict(function(accel, **params))
    if must_act and not tally.fired:
        raise RuntimeError(f"nothing injected: {workload} never called what `{injection}` changes on this device")
    accel.note("injected", tally.fired)
    return metrics
