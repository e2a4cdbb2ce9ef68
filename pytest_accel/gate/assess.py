"""From measured sessions to a judged result: lays suite rules over declarations, finds the entry, asks the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError
from pytest_accel.gate.context import Gate
from pytest_accel.gate.waivers import refuse_unmeasured
from pytest_accel.report.types import OTHER_DEVICE, CaseResult
from pytest_accel.runner.types import Measurement
from pytest_accel.verdict.types import Entry, Judgement, MetricVerdict, Observation, Rule, Verdict, WaiverRule

if TYPE_CHECKING:
    from pytest_accel.baseline.types import StoredEntry
    from pytest_accel.gate.items import AccelItem, GhostItem

ENV_OUTCOMES = {"unfit", "device-lost", "device-stuck"}
PASSING = {
    "throttled",
    "shared",
    "clocks-moved",
    "timing-not-credible",
}  # what spoils one session and may be gone in the next
SESSION = "(session)"  # stands among the suspects for a session that is to be had again
SOUND_ENOUGH = 2  # sound sessions that may be judged although another was spoilt


@dataclass(frozen=True)
class Assessment:
    """A judgement with what belongs to its item: output, detail of a failure, and the sessions that may be recorded."""

    judgement: Judgement
    measurements: Sequence[Measurement] = ()
    rules: Mapping[str, Rule] = field(default_factory=dict)
    own_skip: bool = False
    detail: str = ""
    out: str = ""
    err: str = ""
    known_bad: bool = False
    reduced: Mapping[str, str] = field(default_factory=dict)
    other_device: bool = False

    @property
    def suspects(self) -> tuple[str, ...]:
        """Timings that need another fresh process."""
        return self.judgement.suspects

    def result(self, gate: Gate, item: AccelItem) -> CaseResult:
        """The variant's line in the results, as plain data."""
        variant = item.variant
        measured = any(m.outcome == "measured" for m in self.measurements)
        notes: dict[str, Any] = {}
        for measurement in self.measurements:
            notes.update(measurement.notes)
        if self.other_device:
            notes["baseline_device"] = OTHER_DEVICE
        return CaseResult(
            key=item.key,
            nodeid=item.nodeid,
            suite=item.suite.name,
            case=variant.case if variant else item.entry.case if hasattr(item, "entry") else "",
            params={**variant.params, **variant.settings} if variant else {},
            tier=item.tier,
            path=item.stored_path,
            verdict=self.judgement.verdict.value,
            code=self.judgement.code,
            reason=self.judgement.reason,
            seconds=round(sum(m.seconds for m in self.measurements), 6),
            worker=gate.worker_id,
            device=gate.device_name(),
            metrics={name: metric_json(metric) for name, metric in self.judgement.metrics.items()},
            measured=measured,
            judged=measured and self.judgement.judged and self.judgement.verdict is not Verdict.NEW,
            known_bad=self.known_bad,
            workload=variant.workload if variant else "",
            rules=rules_json(self.rules, self.reduced),
            sessions=[
                session_json(gate, m, self.rules, self.reduced) for m in self.measurements if m.outcome == "measured"
            ],
            notes=notes,
            baselines=str(item.suite.baselines),
        )


def rule_json(rule: Rule) -> dict[str, Any]:
    """How a metric was judged, as the results file stores it: what a later comparison needs to judge alike."""
    said = {name: value for name, value in vars(rule).items() if value not in (None, ())}
    return {**said, **({"order": list(rule.order)} if rule.order else {})}


def metric_json(metric: MetricVerdict) -> dict[str, Any]:
    """One judged metric as the results file writes it."""
    return {
        "value": metric.value,
        "unit": metric.unit,
        "better": metric.better,
        "baseline": metric.baseline,
        "change": metric.change,
        "limit": metric.limit,
        "verdict": metric.verdict.value if metric.verdict else None,
        "code": metric.code,
        "reason": metric.reason,
    }


def rules_json(rules: Mapping[str, Rule], reduced: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What recording needs of each rule, and how samples were reduced where that is not by their median."""
    return {
        name: rule_json(rule) | ({"reduced": reduced[name]} if reduced.get(name) else {})
        for name, rule in rules.items()
    }


def reductions(rules: Mapping[str, Rule], values: Mapping[str, Any], entry: Entry | None) -> dict[str, str]:
    """How the samples of each metric become one value: as the baseline's did, else as new ones do."""
    from pytest_accel.verdict.reduce import reduction_for

    found = {}
    for name, value in values.items():
        accepted = entry.metrics.get(name) if entry else None
        if accepted is not None and accepted.values:
            found[name] = accepted.reduced
        elif isinstance(value, (list, tuple)):
            found[name] = reduction_for(rules.get(name))
    return found


def session_json(
    gate: Gate, measurement: Measurement, rules: Mapping[str, Rule], reduced: Mapping[str, str]
) -> dict[str, Any]:
    """One session as recording stores it: every metric reduced to one number or word, with where it was measured."""
    from pytest_accel.verdict.reduce import session_value

    return {
        "metrics": {
            n: session_value(as_value(v), rules.get(n), reduced.get(n, "")) for n, v in measurement.metrics.items()
        },
        "work_version": measurement.work_version,
        "digest": measurement.digest,
        "stack": gate.stack_id(measurement.stack),
        "machine": gate.machine.machine_id,
        "device": gate.device_identity(),
        "cpu": list(gate.cpu_model) if gate.cpu_model else None,
    }


def as_value(value: Any) -> Any:
    """Lists of samples as tuples, which the judge takes; everything else as it is."""
    return tuple(float(sample) for sample in value) if isinstance(value, (list, tuple)) else value


def not_judged(verdict: str, code: str, reason: str, **more: Any) -> Assessment:
    """An assessment of something that was not measured."""
    return Assessment(Judgement(Verdict(verdict), code, reason), **more)


def refused(reason: str, **more: Any) -> Assessment:
    """CONFIG found after collection: the item fails, the run ends with code 4, nothing is recorded."""
    return not_judged("UNMEASURED", "config", reason, **more)


def missing(gate: Gate, item: GhostItem) -> Assessment:
    """MISSING, saying whether the variant went from its suite or is no longer for this machine."""
    why = item.suite.elsewhere.get(item.key)
    if why is not None:
        return not_judged(
            "MISSING",
            "no-longer-here",
            f"measured on this hardware before ({item.stored_path}), and not for this machine now: {why}; mend the machine, or "
            f"retire the entry with `pytest-accel promote … --retire '{item.key}'`",
        )
    if item.key in item.suite.gone:
        return not_judged(
            "MISSING",
            "removed",
            f"the baseline holds an entry for {item.key}, but: {item.suite.gone[item.key]}; where that is meant, retire the "
            f"entry with `pytest-accel promote … --retire '{item.key}'`",
        )
    gone = "its suite file is gone" if not item.path.exists() else "no variant of its suite has this key"
    return not_judged(
        "MISSING",
        "no-variant",
        f"the baseline holds an entry for {item.key} ({item.stored_path}), but {gone}; restore it, or retire the entry with "
        f"`pytest-accel promote … --retire '{item.key}'`",
    )


def assess(gate: Gate, item: AccelItem, sessions: Sequence[Measurement], sessions_left: int) -> Assessment:
    """Judge the sessions of one variant. Raises ConfigError for what only a measurement can show to be wrong in the suite."""
    from pytest_accel.verdict.judge import judge
    from pytest_accel.verdict.kernels import explained

    variant = item.variant
    assert variant is not None
    last = sessions[-1]
    out, err = _joined(sessions, "out"), _joined(sessions, "err")
    more: dict[str, Any] = {"measurements": sessions, "detail": last.detail, "out": out, "err": err}
    stored = gate.baseline(item.suite.baselines, item.suite.name)
    stored_entry = stored.entries.get(item.key) if stored is not None else None
    if stored_entry is not None and stored_entry.tombstone is not None:
        stored_entry = None
    if is_spoilt(last):
        sound = [m for m in sessions if m.outcome == "measured"]
        if sessions_left > 0:
            reason = f"{last.reason}; wants a fresh process"
            return Assessment(Judgement(Verdict.ENV, last.code, reason, suspects=(SESSION,)), **more)
        if len(sound) < SOUND_ENOUGH:
            tries = f" (in the last of {len(sessions)} fresh processes)" if len(sessions) > 1 else ""
            return not_judged("ENV", last.code, f"{last.reason}{tries}", **more)
        last = sound[-1]
    if last.outcome != "measured":
        return _not_measured(gate, item, last, gate.entry_view(stored, stored_entry, {}), more)

    rules, waivers = rules_of(item, last), waivers_of(gate, item)
    refuse_unmeasured(variant, waivers, last)
    entry = gate.entry_view(stored, stored_entry, rules)
    observations = [
        Observation(
            metrics={name: as_value(value) for name, value in m.metrics.items()},
            settings=m.stack.get("settings", {}),
            work_version=m.work_version,
            digest=m.digest,
        )
        for m in sessions
        if m.outcome == "measured"
    ]
    judged_by, other_inputs = by_limits_alone(variant.workload, rules, last, stored_entry)
    judgement = judge(
        observations,
        judged_by,
        entry,
        settings_now=last.stack.get("settings", {}),
        sessions_left=sessions_left,
        waivers=waivers,
        today=gate.run.date,
        device=gate.device_identity(),
    )
    judgement = explained(judgement, [session.metrics for session in stored_entry.sessions] if stored_entry else [])
    first_failure = next((m for m in sessions if m.outcome != "measured"), None)
    if first_failure is not None and not judgement.suspects:
        more["detail"] = first_failure.detail
    retried = " ".join(m.retried for m in sessions if m.retried)
    if retried:
        judgement = replace(judgement, reason=f"passed on retry ({retried}). {judgement.reason}".strip())
    if other_inputs:
        judgement = replace(judgement, reason="; ".join(filter(None, [judgement.reason, other_inputs])))
    reduced = reductions(rules, last.metrics, entry)
    known_bad = judgement.code == "known-bad"
    other = on_other_device(rules, entry, gate.device_identity())
    return Assessment(judgement, rules=rules, known_bad=known_bad, reduced=reduced, other_device=other, **more)


def by_limits_alone(
    workload: str, rules: Mapping[str, Rule], last: Measurement, entry: StoredEntry | None
) -> tuple[Mapping[str, Rule], str]:
    """The rules, and why numbers are not compared with the baseline's where the workload measured other inputs than it holds."""
    from pytest_accel.workloads.registry import WORKLOADS

    known = WORKLOADS.get(workload)
    name = known.inputs if known is not None else ""
    accepted = [session.metrics[name] for session in entry.sessions if name in session.metrics] if entry else []
    if not accepted or accepted[-1] == last.metrics.get(name):
        return rules, ""
    loose = {n: replace(r, worse_by=math.inf) if r.kind == "exact" and not r.order else r for n, r in rules.items()}
    return loose, "the inputs are not those of the baseline, so that numbers are judged by their limits alone"


def on_other_device(rules: Mapping[str, Rule], entry: Entry | None, device: str) -> bool:
    """True where a timing has accepted sessions, and none of them is of the run's physical device."""
    for name, accepted in entry.metrics.items() if entry else ():
        known = set(accepted.devices) - {""}
        if name in rules and rules[name].kind == "timing" and known and device not in known:
            return True
    return False


def is_spoilt(measurement: Measurement) -> bool:
    """True where the machine spoilt this session only, so that another, in a fresh process, may be sound."""
    return measurement.outcome == "unfit" and measurement.code in PASSING


def rules_of(item: AccelItem, measurement: Measurement) -> dict[str, Rule]:
    """A rule for every metric that was measured: the workload's declaration with the suite's overrides laid over it.

    The same for all variants of a case that measure the same metrics, so it is made once.
    """
    from pytest_accel.verdict.rules import rule_for
    from pytest_accel.workloads.registry import WORKLOADS
    from pytest_accel.workloads.types import MetricSpec

    variant = item.variant
    assert variant is not None
    built_in = WORKLOADS.get(variant.workload)
    declared: Mapping[str, Any] = (
        built_in.metrics if built_in else {name: MetricSpec(**spec) for name, spec in measurement.declared.items()}
    )
    unmeasured = [name for name in variant.metrics if name not in measurement.metrics]
    for name in unmeasured:
        if variant.metrics[name] and name not in declared:
            returned = ", ".join(sorted(measurement.metrics))
            raise ConfigError.at(
                variant.path,
                variant.line,
                f"case `{variant.case}` sets a rule for `{name}`, but the workload measures no such metric",
                f"it measures {returned}",
            )
    shape = (variant.workload, id(variant.metrics), tuple((n, type(v)) for n, v in measurement.metrics.items()))
    known = item.suite.rules.get(shape) if not measurement.declared else None
    if known is not None:
        return known
    rules = {}
    for name, value in measurement.metrics.items():
        try:
            rules[name] = rule_for(name, declared.get(name), variant.metrics.get(name), as_value(value))
        except ConfigError as error:
            raise ConfigError.at(variant.path, variant.line, f"case `{variant.case}`: {error}") from None
    item.suite.rules[shape] = rules
    return rules


def waivers_of(gate: Gate, item: AccelItem) -> list[WaiverRule]:
    """The variant's waivers that are for this platform."""
    variant = item.variant
    assert variant is not None
    return [
        WaiverRule(
            up_to={name: (t.amount, t.relative) for name, t in waiver.metrics.items()},
            status=waiver.status,
            reason=waiver.reason,
            issue=waiver.issue,
            expires=waiver.expires,
        )
        for waiver in variant.waivers
        if not waiver.platforms or gate.machine.platform in waiver.platforms
    ]


def _not_measured(
    gate: Gate, item: AccelItem, last: Measurement, entry: Entry | None, more: dict[str, Any]
) -> Assessment:
    from pytest_accel.verdict.judge import judge_fault

    if last.outcome == "skipped":
        return not_judged("UNMEASURED", last.code or "skipped", last.reason, own_skip=True, **more)
    if last.outcome in ENV_OUTCOMES:
        return not_judged("ENV", last.code or last.outcome, last.reason, **more)
    if last.outcome == "noisy":
        return not_judged("INCONCLUSIVE", last.code, last.reason, **more)
    variant = item.variant
    assert variant is not None
    if last.outcome == "config" or (last.outcome == "import-failed" and entry is None):
        gate.problems_later.append(f"{variant.path}:{variant.line}: case `{variant.case}`: {last.reason}")
        return refused(last.reason, **more)
    code = last.code if last.outcome == "error" and last.code not in ("", "other") else last.outcome
    both = "; the same on retry in a fresh process" if last.retried == last.reason else f" (first try: {last.retried})"
    reason = last.reason + (both if last.retried else "")
    accepted = entry.metrics.get("status") if entry is not None else None
    if accepted is not None and accepted.values:  # for the coverage report: what the fault took away
        last = replace(last, notes={**last.notes, "was": accepted.values[-1]})
        more = {**more, "measurements": [*more["measurements"][:-1], last]}
    judgement = judge_fault(code, reason, entry, waivers=waivers_of(gate, item), today=gate.run.date)
    return Assessment(judgement, known_bad=judgement.code == "known-bad", **more)


def _joined(sessions: Sequence[Measurement], name: str) -> str:
    return "".join(getattr(m, name) for m in sessions)
