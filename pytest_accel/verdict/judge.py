"""One variant, judged: its sessions' values against limits and the baseline entry, metric by metric.

Pure: no clock, no files, no torch. Every input gives exactly one verdict, with a sentence that a stranger can act on.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_accel.verdict import waive
from pytest_accel.verdict.bounds import allowance
from pytest_accel.verdict.metric import Asked, judge_metric, reduce_sessions, vanished
from pytest_accel.verdict.text import as_number, differing_settings, show
from pytest_accel.verdict.timing import beyond, worsening
from pytest_accel.verdict.types import (
    OUTCOME,
    Entry,
    Judgement,
    MetricVerdict,
    Observation,
    Rule,
    Verdict,
    WaiverRule,
    Word,
)

_SHOWN = 4  # sentences in a variant's reason; each metric keeps its own
SESSIONS_NEEDED = 6  # the knee of the simulated false-alarm rate over the number of baseline sessions


def judge(
    observations: Sequence[Observation],
    rules: Mapping[str, Rule],
    entry: Entry | None,
    *,
    today: datetime.date,
    settings_now: Mapping[str, Word | None] | None = None,
    sessions_left: int = 0,
    waivers: Sequence[WaiverRule] = (),
    baseline_sessions_needed: int = SESSIONS_NEEDED,
    in_process: bool = False,
    device: str = "",
) -> Judgement:
    """Judge a variant from the sessions measured so far.

    ``sessions_left``: how many more fresh processes may be asked for; while ``Judgement.suspects`` is not empty,
    measure once more and judge again. ``waivers`` are those of this platform; ``today`` is the run's UTC start date.
    ``settings_now``: those of the run, under each observation's own.
    ``in_process``: no fresh process can confirm (Python tests). ``device``: the physical device of the run (hashed).
    Raises nothing.
    """
    if not observations:
        return Judgement(Verdict.UNMEASURED, "not-measured", "it was not measured")
    asked = Asked(
        entry=entry,
        changed_work=_changed_work(observations, entry),
        changed_settings=_changed_settings(observations, settings_now or {}, entry),
        sessions_left=0 if in_process else sessions_left,
        needed=baseline_sessions_needed,
        in_process=in_process,
        device=device,
    )
    names = sorted({name for observation in observations for name in observation.metrics})
    verdicts: dict[str, MetricVerdict] = {}
    suspects: list[str] = []
    for name in names:
        rule = rules.get(name) or Rule(declared=False)
        seen = reduce_sessions(name, observations, rule, asked.reduction(name, rule))
        finding, verdict = judge_metric(name, rule, seen, asked)
        verdicts[name] = _waived(name, rule, verdict, waivers, today)
        if finding.suspect:
            suspects.append(name)
    for name in entry.metrics if entry else ():
        if entry and name not in verdicts and name != OUTCOME:
            verdicts[name] = vanished(name, entry, rules.get(name))
    return _variant(verdicts, tuple(suspects), entry, waivers, today)


def judge_fault(
    code: str,
    reason: str,
    entry: Entry | None,
    *,
    waivers: Sequence[WaiverRule] = (),
    today: datetime.date,
) -> Judgement:
    """Judge a variant that gave no metrics by its own fault (crash, timeout, import-failed, unsupported, wrong, …).

    REGRESSION; WAIVED where a waiver's status names the code; PASS where the entry holds that very fault as known.
    """
    if entry and OUTCOME in entry.known_bad and entry.metrics[OUTCOME].values[-1:] == (code,):
        return Judgement(Verdict.PASS, "known-bad", f"{reason}; a known fault ({code}), unchanged", judged=True)
    verdict, said = waive.status_waiver(code, waivers, today)
    return Judgement(verdict, code, reason + said, judged=True)


def _changed_work(observations: Sequence[Observation], entry: Entry | None) -> str:
    for observation in observations if entry else ():
        assert entry is not None
        if observation.work_version != entry.work_version:
            return f"the workload's version was {entry.work_version}, now {observation.work_version}; promote to accept"
        if observation.digest != entry.digest:
            return (
                f"the workload's resolved arguments changed (digest {entry.digest or 'none'}, "
                f"now {observation.digest or 'none'}); promote to accept"
            )
    return ""


def _changed_settings(
    observations: Sequence[Observation], settings_now: Mapping[str, Word | None], entry: Entry | None
) -> str:
    for observation in observations if entry else ():
        assert entry is not None
        found = differing_settings(entry.settings, {**settings_now, **observation.settings})
        if found:
            return "settings differ: " + "; ".join(found)
    return ""


def _waived(
    name: str, rule: Rule, verdict: MetricVerdict, waivers: Sequence[WaiverRule], today: datetime.date
) -> MetricVerdict:
    if verdict.verdict is not Verdict.REGRESSION:
        return verdict
    start = verdict.limit if verdict.code == "limit" or verdict.baseline is None else verdict.baseline
    became, said = waive.apply(name, verdict.code, verdict.value, start, rule, waivers, today)
    if verdict.code == "limit" and became is Verdict.WAIVED and _worse_than_baseline(rule, verdict):
        # what is waived against the limit must be waived against the baseline too, else more slowness would be waived than less
        became, said = waive.apply(name, verdict.code, verdict.value, verdict.baseline, rule, waivers, today)
    return replace(verdict, verdict=became, reason=verdict.reason + said)


def _worse_than_baseline(rule: Rule, verdict: MetricVerdict) -> bool:
    """True where a number that broke its limit is also worse than its baseline allows."""
    new, old = as_number(verdict.value), as_number(verdict.baseline)
    return new is not None and old is not None and beyond(worsening(rule, new, old), allowance(rule, old), old)


def _variant(
    metrics: Mapping[str, MetricVerdict],
    suspects: tuple[str, ...],
    entry: Entry | None,
    waivers: Sequence[WaiverRule],
    today: datetime.date,
) -> Judgement:
    """The worst of the metrics, with the reasons of all that are as bad as it."""
    found = {name: metric for name, metric in sorted(metrics.items()) if metric.verdict is not None}
    if not metrics:
        return Judgement(Verdict.UNMEASURED, "no-metrics", "the workload gave no metrics")
    compared = [m for m in found.values() if _was_judged(m)]
    gone = entry is not None and OUTCOME in entry.known_bad
    if not found:
        new = entry is None
        why = "only facts were measured, which are stored and not judged"
        worst, code, reasons = (Verdict.NEW, "new", [why]) if new else (Verdict.PASS, "", [why])
    else:
        worst = max((m.verdict for m in found.values() if m.verdict), key=lambda v: v.badness)
        worst_ones = sorted((m for m in found.values() if m.verdict is worst), key=lambda m: not m.code)
        code = worst_ones[0].code
        reasons = [m.reason for m in worst_ones[:_SHOWN]]
        if len(worst_ones) > _SHOWN:
            reasons.append(f"and {len(worst_ones) - _SHOWN} metrics more")
    if gone and worst is Verdict.PASS:
        assert entry is not None
        worst, code = Verdict.IMPROVED, "fault-gone"
        reasons = [f"it is measured again; the known fault was {show(entry.metrics[OUTCOME].values[-1])}", *reasons]
    if worst in (Verdict.PASS, Verdict.IMPROVED):
        reasons += [f"the waiver {w.issue} is needed no longer: it passes" for w in waivers if today <= w.expires]
    return Judgement(worst, code, "; ".join(reasons), metrics, suspects, judged=bool(compared))


def _was_judged(metric: MetricVerdict) -> bool:
    """True where the metric was held against a baseline or a limit."""
    return metric.verdict in (Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.WAIVED, Verdict.IMPROVED, Verdict.PASS)
