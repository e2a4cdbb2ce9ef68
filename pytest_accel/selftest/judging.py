"""A measurement, judged by the gate's own judge with the workload's own rules. No torch, no pytest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.verdict.judge import judge
from pytest_accel.verdict.rules import rule_for
from pytest_accel.verdict.types import Accepted, Entry, Judgement, Observation, Rule
from pytest_accel.workloads.registry import WORKLOADS

Metrics = Mapping[str, Any]


def rules_of(
    workload: str, metrics: Metrics, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Rule]:
    """The rule of each metric, as the workload declares it, with ``overrides`` laid over as a suite does."""
    declared = WORKLOADS[workload].metrics
    return {
        name: rule_for(name, declared.get(name), (overrides or {}).get(name), _plain(value))
        for name, value in metrics.items()
    }


def entry_of(sessions: Sequence[Metrics], rules: Mapping[str, Rule]) -> Entry:
    """The baseline entry that recording these sessions would make."""
    from pytest_accel.verdict.reduce import reduction_for, session_value

    accepted = {}
    for name in sorted({name for metrics in sessions for name in metrics}):
        rule = rules.get(name)
        timed = any(isinstance(metrics.get(name), (list, tuple)) for metrics in sessions)
        how = reduction_for(rule) if timed else ""
        values = tuple(session_value(_plain(metrics[name]), rule, how) for metrics in sessions if name in metrics)
        accepted[name] = Accepted(values, reduced=how)
    return Entry(accepted)


def verdict_of(
    sessions: Sequence[Metrics], rules: Mapping[str, Rule], entry: Entry | None, sessions_left: int = 0
) -> Judgement:
    """The gate's verdict of these sessions."""
    observations = [Observation({name: _plain(value) for name, value in metrics.items()}) for metrics in sessions]
    return judge(observations, rules, entry, today=datetime.date(2000, 1, 1), sessions_left=sessions_left)


def _plain(value: Any) -> Any:
    return tuple(float(sample) for sample in value) if isinstance(value, (list, tuple)) else value
