"""Python tests that use the accelerator: markers, checks, keys, and their verdict at the end of each test."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.gate.context import Gate, gate_of, relative_to_root
from pytest_accel.gate.python_keys import key_values
from pytest_accel.report.types import CaseResult
from pytest_accel.verdict.types import Judgement, Observation, Rule, Verdict, WaiverRule

if TYPE_CHECKING:
    from pytest_accel.measure.accelerator import Accelerator

SUITE = "py"
FIXTURES = {"accel", "accel_device", "accel_check"}
CHECK_WORDS = ("unit", "better", "worse_by", "floor", "min", "max")
MARK_WORDS = {"devices", "memory", "capability"}
CHECKS = pytest.StashKey["Checks"]()


@dataclass(frozen=True)
class CheckRule:
    """What one ``accel_check`` call says of its metric (the shape that ``verdict.rules`` takes)."""

    unit: str | None = None
    better: Any = None
    worse_by: Any = None
    floor: float | None = None
    min: float | None = None
    max: float | None = None
    equals: Any = None


@dataclass
class Checks:
    """The checks of one test, over all its tries."""

    values: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, CheckRule] = field(default_factory=dict)
    worst: CaseResult | None = None
    tries: int = 0

    def begin(self) -> None:
        """A new try: the values start anew, the worst verdict so far stays."""
        self.values.clear()
        self.rules.clear()
        self.tries += 1


def uses_accel(item: pytest.Item) -> bool:
    """True for a Python test that asks for one of the accelerator fixtures or carries the marker."""
    return isinstance(item, pytest.Function) and bool(
        FIXTURES & set(item.fixturenames) or item.get_closest_marker("accel") or item.get_closest_marker("accel_waive")
    )


def key_of(gate: Gate, item: pytest.Item) -> str:
    """``py:<path>::Class::test[name=value,…]``, from the parameters' names and values (the id where a value is no scalar)."""
    from pytest_accel.suite.keys import make_key

    assert isinstance(item, pytest.Function)
    path = relative_to_root(item.path, gate.baselines_for(item.path))
    inner = item.nodeid.partition("::")[2].partition("[")[0]
    return f"{SUITE}:{path}::{inner}" + make_key("x", "x", key_values(item)).removeprefix("x/x")


# --- markers -------------------------------------------------------------------------------------------------------------
def marker_problems(item: pytest.Item) -> list[Problem]:
    """What is wrong with the item's ``accel`` and ``accel_waive`` markers: an unknown platform or keyword, a missing part."""
    from pytest_accel.stack.registry import names

    problems: list[Problem] = []
    path, line, _ = item.reportinfo()

    def complain(what: str, mend: str) -> None:
        problems.append(Problem(what=what, mend=mend, path=str(path), line=(line or 0) + 1))

    for mark in item.iter_markers("accel"):
        known = names()
        for platform in mark.args:
            if platform not in known:
                complain(f"marker accel: `{platform}` is no platform", f"use {', '.join(known)}")
        for word in sorted(set(mark.kwargs) - MARK_WORDS):
            complain(f"marker accel: unknown keyword `{word}`", f"use {', '.join(sorted(MARK_WORDS))}")
        devices = mark.kwargs.get("devices", 1)
        if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
            complain(f"marker accel: devices={devices!r} is not a whole number from 1", "write devices=1 or more")
    for mark in item.iter_markers("accel_waive"):
        try:
            waiver_of(mark)
        except ConfigError as error:
            complain(
                f"marker accel_waive: {error}", "write accel_waive(reason, issue, expires='2027-01-31', time='8%')"
            )
    return problems


def waiver_of(mark: pytest.Mark) -> WaiverRule:
    """The waiver of an ``accel_waive(reason, issue, expires, **metrics)`` marker. Raises ConfigError."""
    names = ("reason", "issue", "expires")
    given = dict(zip(names, mark.args, strict=False))
    given.update({name: mark.kwargs[name] for name in names if name in mark.kwargs})
    absent = [name for name in names if not given.get(name)]
    if absent:
        raise ConfigError(Problem(f"`{absent[0]}` is missing"))
    expires = given["expires"]
    try:
        date = expires if isinstance(expires, datetime.date) else datetime.date.fromisoformat(str(expires))
    except ValueError:
        raise ConfigError(Problem(f"expires={expires!r} is not a date")) from None
    metrics = {name: value for name, value in mark.kwargs.items() if name not in names}
    if not metrics:
        raise ConfigError(Problem("it names no metric"))
    return WaiverRule(
        up_to={name: tolerance(value) for name, value in metrics.items()},
        status=(),
        reason=str(given["reason"]),
        issue=str(given["issue"]),
        expires=date,
    )


def tolerance(value: Any) -> tuple[float, bool]:
    """``"3%"`` as (0.03, True), a number as (number, False). Raises ConfigError for anything else."""
    text = str(value).strip()
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = math.nan
    if isinstance(value, bool) or not math.isfinite(amount) or amount < 0:
        raise ConfigError(Problem(f"{value!r} is no tolerance", "write '3%' or an absolute number"))
    return (amount / 100, True) if text.endswith("%") else (amount, False)


def not_here(gate: Gate, item: pytest.Item) -> str | None:
    """Why the test is not for this machine, or None."""
    from pytest_accel.suite.suitability import not_for
    from pytest_accel.suite.types import Requires, Variant

    platform = gate.machine.platform
    for mark in item.iter_markers("accel"):
        if mark.args and platform not in mark.args:
            return f"not for {platform}"
        memory = mark.kwargs.get("memory")
        requires = Requires(
            memory=_bytes(memory) if memory is not None else None,
            devices=mark.kwargs.get("devices", 1),
            capability=mark.kwargs.get("capability"),
        )
        devices = gate.machine.probe.devices
        reason = not_for(
            Variant(key="", suite=SUITE, case="", path="", line=1, workload="", requires=requires),
            platform=platform,
            device_count=max(len(devices), 1),
            memory_bytes=devices[0].memory_bytes if devices else None,
            capability=devices[0].capability if devices else None,
            has_package=lambda name: True,
        )
        if reason:
            return reason
    return None


def _bytes(value: Any) -> int:
    from pytest_accel.suite.units import size_in_bytes

    return size_in_bytes(value)


# --- before and after a test -----------------------------------------------------------------------------------------------
def before(item: pytest.Item) -> None:
    """Skip a test that is for other machines; fail it (ENV) where the machine may not judge. Called at its setup."""
    gate = gate_of(item.config)
    reason = not_here(gate, item)
    if reason is not None:
        pytest.skip(reason)
    if gate.unfit is not None:
        from pytest_accel.gate.items import AccelFailure

        code, why = gate.unfit
        raise AccelFailure(f"ENV ({code}): {why}")
    item.stash.setdefault(CHECKS, Checks()).begin()


def check(item: pytest.Item, name: str, value: Any, words: Mapping[str, Any]) -> None:
    """Book one ``accel_check`` call. Raises ConfigError for an unknown keyword, a second check of one name, a value of no use."""
    checks = item.stash.setdefault(CHECKS, Checks())
    unknown = sorted(set(words) - set(CHECK_WORDS))
    if unknown:
        raise ConfigError(
            Problem(f"accel_check({name!r}): unknown keyword `{unknown[0]}`", f"use {', '.join(CHECK_WORDS)}")
        )
    if not isinstance(name, str) or not name:
        raise ConfigError(Problem(f"accel_check: {name!r} is no name", "give the metric a name"))
    if name in checks.values:
        raise ConfigError(
            Problem(f"accel_check({name!r}): this test has checked `{name}` already", "give each check its own name")
        )
    better = words.get("better")
    if better not in (None, "lower", "higher", "equal"):
        raise ConfigError(Problem(f"accel_check({name!r}): better={better!r}", "use lower, higher or equal"))
    from pytest_accel.suite.types import Tolerance

    worse_by = None
    if words.get("worse_by") is not None:
        amount, relative = tolerance(words["worse_by"])
        worse_by = Tolerance(amount, relative)
    rest = {word: words[word] for word in ("unit", "better", "floor", "min", "max") if words.get(word) is not None}
    checks.values[name] = plain(name, value)
    checks.rules[name] = CheckRule(worse_by=worse_by, **rest)


def plain(name: str, value: Any) -> Any:
    """A checked value as plain data: a number, a word, or a tuple of samples. Raises ConfigError."""
    if hasattr(value, "tolist") and not isinstance(value, (str, bytes)):
        value = value.tolist()
    if isinstance(value, (int, float, str)):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float)) for v in value):
        return tuple(float(v) for v in value)
    raise ConfigError(
        Problem(f"accel_check({name!r}): {value!r:.60} is neither a number, a word nor samples", "pass one of them")
    )


def judge_item(item: pytest.Item, report: pytest.TestReport, accelerator: Accelerator | None) -> CaseResult | None:
    """The verdict of a test's checks after its call phase; None where it checked nothing and no entry expects it to."""
    gate = gate_of(item.config)
    checks = item.stash.setdefault(CHECKS, Checks())
    folder = gate.baselines_for(item.path)
    key = key_of(gate, item)
    stored = gate.baseline(folder, SUITE)
    entry = stored.entries.get(key) if stored is not None else None
    if entry is not None and entry.tombstone is not None:
        entry = None
    if not checks.values and entry is None:
        return None
    own_failure = report.failed
    if not own_failure:  # else it may have ended before the check that is waived
        from pytest_accel.gate.waivers import refuse_unchecked

        refuse_unchecked([waiver_of(mark) for mark in item.own_markers if mark.name == "accel_waive"], checks.values)
    stack = accelerator.stack if accelerator is not None else None
    parts: dict[str, Mapping[str, Any]] = {"hardware": {}, "settings": {}, "versions": {}}
    if stack is not None:
        parts = {"hardware": dict(stack.hardware), "settings": dict(stack.settings), "versions": dict(stack.versions)}
    from pytest_accel.verdict.rules import rule_for

    rules: dict[str, Rule] = {
        name: rule_for(name, None, rule if rule != CheckRule() else None, checks.values[name])
        for name, rule in checks.rules.items()
    }
    view = gate.entry_view(stored, entry, rules)
    judgement = _judgement(gate, item, checks, rules, view, parts)
    if own_failure and judgement.verdict is not Verdict.REGRESSION:
        why = "the test itself failed, so that its checks prove nothing"
        judgement = Judgement(Verdict.UNMEASURED, "test-failed", why, judgement.metrics)
    result = _result(gate, item, key, judgement, rules, view, checks, parts, folder, report.duration)
    if checks.worst is not None and Verdict(checks.worst.verdict).badness > Verdict(result.verdict).badness:
        from dataclasses import replace

        result = replace(
            checks.worst, reason=f"{checks.worst.reason} (try 1 of {checks.tries}; a later try was better)"
        )
    checks.worst = result
    return result


def _judgement(gate: Gate, item: pytest.Item, checks: Checks, rules: Any, entry: Any, parts: Any) -> Judgement:
    from pytest_accel.verdict.judge import judge

    observation = Observation(metrics=dict(checks.values), settings=parts["settings"])
    return judge(
        [observation],
        rules,
        entry,
        settings_now=parts["settings"],
        waivers=[waiver_of(mark) for mark in item.iter_markers("accel_waive")],
        today=gate.run.date,
        in_process=True,
        device=gate.device_identity(),
    )


def _result(
    gate: Gate,
    item: pytest.Item,
    key: str,
    judgement: Judgement,
    rules: Mapping[str, Rule],
    entry: Any,
    checks: Checks,
    parts: Mapping[str, Any],
    folder: Path,
    seconds: float,
) -> CaseResult:
    from pytest_accel.gate.assess import metric_json, reductions, rules_json
    from pytest_accel.verdict.reduce import session_value

    reduced = reductions(rules, checks.values, entry)
    session = {
        "metrics": {
            name: session_value(value, rules.get(name), reduced.get(name, "")) for name, value in checks.values.items()
        },
        "work_version": 1,
        "digest": "",
        "stack": gate.stack_id(parts),
        "machine": gate.machine.machine_id,
        "device": gate.device_identity(),
        "cpu": list(gate.cpu_model) if gate.cpu_model else None,
    }
    return CaseResult(
        key=key,
        nodeid=item.nodeid,
        suite=SUITE,
        case=getattr(item, "originalname", item.name),
        params=key_values(item) if isinstance(item, pytest.Function) else {},
        tier="gate",
        path=relative_to_root(item.path, folder),
        verdict=judgement.verdict.value,
        code=judgement.code,
        reason=judgement.reason,
        seconds=round(seconds, 6),
        worker=gate.worker_id,
        device=gate.device_name(),
        metrics={name: metric_json(metric) for name, metric in judgement.metrics.items()},
        measured=bool(checks.values),
        judged=bool(checks.values) and judgement.judged and judgement.verdict is not Verdict.NEW,
        rules=rules_json(rules, reduced),
        sessions=[session] if checks.values else [],
        baselines=str(folder),
    )
