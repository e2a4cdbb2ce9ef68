"""The self-test from start to end: measure each workload unchanged and changed, judge, and the same for timings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_accel.runner.types import Measurement, Request
from pytest_accel.selftest.judging import Metrics, entry_of, rules_of, verdict_of
from pytest_accel.selftest.types import Check, Outcome
from pytest_accel.verdict.types import Verdict

Measure = Callable[[Request, bool], Measurement]

SESSIONS = 3  # what --accel-sessions allows a suspect timing by default
RECORDED = 2  # sessions of the timing baseline
_INJECT = "pytest_accel.selftest.inject:measure"
_GOOD = (Verdict.PASS, Verdict.IMPROVED)


class Unfit(Exception):
    """The device cannot be measured at all; the code and the reason say why."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def run_checks(checks: Sequence[Check], measure: Measure) -> Iterator[Outcome]:
    """The outcome of each check. A workload with the same params is measured unchanged once. Raises Unfit."""
    clean: dict[str, Measurement] = {}
    for check in checks:
        begin = time.perf_counter()
        key = f"{check.workload} {json.dumps(check.params, sort_keys=True)}"
        if key not in clean:
            clean[key] = _measured(measure, check, {}, "")
        yield _outcome(check, clean[key], measure, begin)


def _outcome(check: Check, clean: Measurement, measure: Measure, begin: float) -> Outcome:
    def said(word: str, verdict: str = "", alone: str = "", reason: str = "") -> Outcome:
        seconds = round(time.perf_counter() - begin, 3)
        return Outcome(check.name, check.kind, check.says, check.workload, word, verdict, alone, reason, seconds)

    if clean.outcome != "measured":
        return said("FAILED", reason=f"unchanged, it could not be measured: {clean.reason}")
    base: Metrics = clean.metrics
    rules = rules_of(check.workload, base)
    own = verdict_of([base], rules, None)
    if own.verdict is Verdict.REGRESSION:
        return said("FAILED", own.verdict.value, reason=f"unchanged, it breaks a limit on this device: {own.reason}")
    for name, word in check.needs.items():
        if base.get(name) != word:
            return said("not here", reason=f"{name} is `{base.get(name)}` on this device already, unchanged")
    changed = _measured(measure, check, check.altered, check.injection)
    if changed.outcome != "measured":
        return said("FAILED", reason=changed.reason)
    rules |= rules_of(check.workload, changed.metrics)
    judged = verdict_of([changed.metrics], rules, entry_of([base], rules))
    alone = verdict_of([changed.metrics], rules, None).verdict
    caught = judged.verdict is Verdict.REGRESSION
    if check.kind == "benign":
        word = "passed" if judged.verdict in _GOOD else "FALSE ALARM"
    elif check.blind:
        word = "CAUGHT AFTER ALL" if caught else "blind, as said"
    else:
        word = "caught" if caught else "MISSED"
    return said(word, judged.verdict.value, "REGRESSION" if alone is Verdict.REGRESSION else "", judged.reason)


def _measured(measure: Measure, check: Check, altered: Any, injection: str) -> Measurement:
    request = Request(
        key=check.name,
        workload=_INJECT,
        params={
            "workload": check.workload,
            "params": {**check.params, **altered},
            "injection": injection,
            "must_act": not check.blind,
        },
        settings={},
        timeout=check.timeout,
    )
    found = measure(request, False)
    if found.outcome in ("device-lost", "device-stuck", "unfit"):
        raise Unfit(found.code, found.reason)
    return found


def run_timings(measure: Measure, on_host: bool, pairs: int) -> Iterator[Outcome]:
    """A/A pairs (the same work against itself, in fresh processes) and work that is known to be slower. Raises Unfit."""
    params: dict[str, Any] = {"m": 512, "n": 512, "k": 512} if on_host else {"m": 4096, "n": 4096, "k": 4096}
    params["dtype"] = "float32" if on_host else "bfloat16"
    slower = {**params, "k": params["k"] * 2} if on_host else {**params, "k": 4608}
    overrides = {"time": {"worse_by": "50%"}} if on_host else None
    tolerance = "50 %" if on_host else "3 %"
    baseline = [_session(measure, params) for _ in range(RECORDED)]
    rules = rules_of("gemm", baseline[0], overrides)
    entry = entry_of(baseline, rules)
    plan: list[tuple[str, str, str, dict[str, Any]]] = [
        (f"timing_pair_{i + 1}", "benign", f"a product timed twice, tolerance {tolerance}", params)
        for i in range(pairs)
    ]
    slow = "twice" if on_host else "12.5 % more"
    plan.append(("timing_slower", "fault", f"a product of {slow} the terms, tolerance {tolerance}", slower))
    for name, kind, says, chosen in plan:
        begin = time.perf_counter()
        sessions = [_session(measure, chosen)]
        judged = verdict_of(sessions, rules, entry, SESSIONS - 1)
        while judged.suspects and len(sessions) < SESSIONS:
            sessions.append(_session(measure, chosen))
            judged = verdict_of(sessions, rules, entry, SESSIONS - len(sessions))
        if kind == "benign":
            word = "passed" if judged.verdict in _GOOD else "FALSE ALARM"
        else:
            word = "caught" if judged.verdict is Verdict.REGRESSION else "MISSED"
        seconds = round(time.perf_counter() - begin, 3)
        yield Outcome(name, kind, says, "gemm", word, judged.verdict.value, "", judged.reason, seconds)


def _session(measure: Measure, params: dict[str, Any]) -> Metrics:
    request = Request(key="timing", workload="gemm", params=params, settings={}, timeout=120.0)
    found = measure(request, True)
    if found.outcome != "measured":
        raise Unfit(found.code or found.outcome, found.reason)
    return found.metrics
