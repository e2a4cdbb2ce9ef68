"""One metric, judged: its values of this run's sessions against its limits and its accepted values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_accel.verdict.bounds import allowance
from pytest_accel.verdict.family import Family
from pytest_accel.verdict.promise import held_to
from pytest_accel.verdict.reduce import reduction_for, session_value
from pytest_accel.verdict.text import as_number, middle, relative_change, share, show
from pytest_accel.verdict.timing import (
    Finding,
    beyond,
    judge_timing,
    limit_of,
    undecided,
    worsening,
)
from pytest_accel.verdict.types import Entry, MetricVerdict, Observation, Rule, Verdict, Word

_UNDECLARED = "it is held equal because nothing says how to judge it: give it `better` and `worse_by`, or a limit"


@dataclass(frozen=True)
class Seen:
    """One metric as the sessions of this run saw it: one value a session, and the samples where there were any."""

    values: tuple[Word, ...]
    samples: tuple[tuple[float, ...], ...]
    nonfinite: str  # "" or a phrase: how many, and which

    @property
    def numbers(self) -> list[float]:
        """The values that are numbers, one a session."""
        found = [as_number(value) for value in self.values]
        return [number for number in found if number is not None]


@dataclass(frozen=True)
class Asked:
    """What the judging of each metric needs to know of the whole variant."""

    entry: Entry | None
    changed_work: str
    changed_settings: str
    sessions_left: int
    needed: int
    in_process: bool
    device: str = ""

    @property
    def family(self) -> Family:
        """What the timings of the baseline file share."""
        return self.entry.family if self.entry else Family()

    def reduction(self, name: str, rule: Rule) -> str:
        """How samples of a metric become one value: as the baseline's did, else as new ones do."""
        accepted = self.entry.metrics.get(name) if self.entry else None
        return accepted.reduced if accepted and accepted.values else reduction_for(rule)


def reduce_sessions(name: str, observations: Sequence[Observation], rule: Rule, reduction: str) -> Seen:
    """One metric of several sessions: samples become one value, by ``reduction``, or the first non-finite of them."""
    values: list[Word] = []
    samples: list[tuple[float, ...]] = []
    wrong: list[float] = []
    total = 0
    for observation in observations:
        raw = observation.metrics.get(name)
        if raw is None:
            continue
        items: Sequence[object] = raw if isinstance(raw, (tuple, list)) else (raw,)
        numbers = [number for number in map(as_number, items) if number is not None]
        here = [number for number in numbers if not math.isfinite(number)]
        wrong, total = wrong + here, total + max(1, len(numbers))
        if not isinstance(raw, (tuple, list)):
            values.append(raw)
        elif numbers:
            samples.append(tuple(numbers))
            values.append(session_value(numbers, rule, reduction))
    words = ", ".join(sorted({str(number) for number in wrong}))
    return Seen(tuple(values), tuple(samples), f"{len(wrong)} of {total} values non-finite ({words})" if wrong else "")


def judge_metric(name: str, rule: Rule, seen: Seen, asked: Asked) -> tuple[Finding, MetricVerdict]:
    """Judge one metric, before waivers. The order of the questions is that of the interface."""
    accepted = asked.entry.metrics.get(name) if asked.entry else None
    values = accepted.values if accepted else ()
    value = _value(rule, seen)
    base = _baseline(rule, values)
    if rule.kind == "info":
        return Finding(Verdict.PASS, "", ""), MetricVerdict(value, rule.unit, rule.better, base, None, None, None)
    finding = _ask(name, rule, seen, value, base, values, asked)
    base = base if finding.baseline is None else finding.baseline
    if rule.promised is not None:
        left = 0 if asked.in_process else asked.sessions_left
        finding = held_to(name, rule, rule.promised, finding, value, base, left)
    limit: Word | None = finding.limit
    if limit is None and rule.has_limit:
        limit = next(item for item in (rule.equals, rule.max, rule.min) if item is not None)
    change = relative_change(value, base)
    judged = finding.verdict, finding.code, finding.reason
    return finding, MetricVerdict(value, rule.unit, rule.better, base, change, limit, *judged)


def _ask(
    name: str, rule: Rule, seen: Seen, value: Word | None, base: Word | None, values: tuple[Word, ...], asked: Asked
) -> Finding:
    if value is None:
        return Finding(Verdict.UNMEASURED, "no-samples", f"{name}: the session gave no samples")
    if values and asked.entry and name in asked.entry.known_bad:
        return _known(name, rule, seen, value, values[-1], base)
    if seen.nonfinite:
        return Finding(Verdict.REGRESSION, "nonfinite", f"{name}: {seen.nonfinite}{_against(base, rule)}")
    if rule.kind in ("timing", "memory") and isinstance(value, str):
        return Finding(Verdict.REGRESSION, "not-a-number", f"{name}: {show(value)} where a number is measured")
    if rule.kind == "timing" and min(seen.numbers, default=1.0) <= 0:
        why = f"{name}: {show(min(seen.numbers), rule.unit)} cannot be a time or a rate; the clock is not credible"
        return Finding(Verdict.ENV, "not-credible", why)
    broken = _limits(name, rule, seen, asked)
    if broken:
        return broken
    if asked.changed_work and base is not None:
        return Finding(Verdict.ENV, "work-changed", f"{name}: not comparable, {asked.changed_work}")
    if asked.changed_settings and rule.kind in ("timing", "memory"):
        return Finding(Verdict.ENV, "settings-differ", f"{name}: not comparable, {asked.changed_settings}")
    if base is None:
        if rule.has_limit:
            within = f"{show(value, rule.unit)} within {_limit_words(rule)}"
            return Finding(Verdict.PASS, "", f"{name}: {within}; no baseline here yet")
        return Finding(Verdict.NEW, "new", f"{name}: {show(value, rule.unit)}, no baseline here to judge it by")
    if rule.order or isinstance(value, str) or isinstance(base, str):
        return _word(name, rule, value, base)
    if rule.kind == "timing" and asked.entry:
        return judge_timing(
            name,
            rule,
            seen.numbers,
            seen.samples,
            asked.entry.metrics[name],
            family=asked.family,
            device=asked.device,
            sessions_left=asked.sessions_left,
            needed=asked.needed,
            in_process=asked.in_process,
        )
    return _number(name, rule, value, base)


def _value(rule: Rule, seen: Seen) -> Word | None:
    """What stands for the run: the median of the sessions' timings; else the worst, which no rerun cures."""
    if not seen.values:
        return None
    numbers = seen.numbers
    bad = [number for number in numbers if not math.isfinite(number)]
    if bad:
        return bad[0]
    if len(seen.values) == 1:
        return seen.values[0]
    if len(numbers) < len(seen.values):  # words, at least one
        words = [value for value in seen.values if isinstance(value, str)]
        places = [rule.order.index(word) if word in rule.order else len(rule.order) for word in words]
        return words[places.index(max(places))]
    if rule.kind == "timing":
        return middle(numbers)
    if rule.better == "lower":
        return max(numbers)
    if rule.better == "higher":
        return min(numbers)
    return seen.values[-1] if len(set(numbers)) == 1 else max(numbers, key=lambda each: abs(each - numbers[0]))


def _baseline(rule: Rule, values: tuple[Word, ...]) -> Word | None:
    """What stands for the baseline: the newest word, or the median of the sessions' numbers."""
    if not values:
        return None
    numbers = [number for number in map(as_number, values) if number is not None]
    if isinstance(values[-1], (str, bool)) or not numbers:
        return values[-1]
    return values[-1] if len(set(numbers)) == 1 else middle(numbers)


def _known(name: str, rule: Rule, seen: Seen, value: Word, fault: Word, base: Word | None) -> Finding:
    """Judge a metric whose accepted value is a known fault: PASS while it is unchanged."""
    word: Word = str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value
    said = f"{name}: {seen.nonfinite or show(value, rule.unit)}"
    if isinstance(fault, str):
        if word == fault:
            return Finding(Verdict.PASS, "known-bad", f"{said}; a known fault, unchanged")
        if seen.nonfinite:
            return Finding(Verdict.REGRESSION, "nonfinite", f"{said}; the known fault was `{fault}`")
        if fault in ("nan", "inf", "-inf") and not isinstance(word, str):
            number = as_number(word)
            broken = number is not None and _broken(rule, word) is not None
            verdict = Verdict.REGRESSION if broken else Verdict.IMPROVED
            return Finding(verdict, "limit" if broken else "fault-gone", f"{said}; the known fault was `{fault}`")
        finding = _word(name, rule, value, fault)
    elif seen.nonfinite:
        return Finding(Verdict.REGRESSION, "nonfinite", f"{said}; the known fault was {show(fault, rule.unit)}")
    elif isinstance(value, str):
        finding = _word(name, rule, value, fault)
    else:
        finding = _number(name, rule, value, base if base is not None else fault)
    if finding.verdict is Verdict.PASS:
        return replace(finding, code="known-bad", reason=f"{finding.reason}; a known fault, unchanged")
    return finding


def _limits(name: str, rule: Rule, seen: Seen, asked: Asked) -> Finding | None:
    """The finding where a limit is broken (or looks so, in a timing that fresh sessions must confirm), else None."""
    broken = [value for value in seen.values if _broken(rule, value) is not None]
    if not broken:
        return None
    limit = _broken(rule, broken[0])
    why = f"{name}: {show(broken[0], rule.unit)} breaks {_limit_words(rule)}"
    if rule.kind == "timing" and len(seen.numbers) == len(seen.values):
        if undecided(len(broken), len(seen.values), asked.sessions_left):
            why += "; wants a fresh process to confirm it"
            return Finding(Verdict.INCONCLUSIVE, "suspect", why, limit, suspect=True)
        if _broken(rule, middle(seen.numbers)) is None:
            return None  # not reproduced
    return Finding(Verdict.REGRESSION, "limit", why, limit)


def _broken(rule: Rule, value: Word) -> Word | None:
    """The limit that the value breaks, None where it keeps all; a word breaks a limit that is a number."""
    number = as_number(value)
    if rule.equals is not None and (value != rule.equals or isinstance(value, str) != isinstance(rule.equals, str)):
        return rule.equals
    if rule.min is not None and (number is None or number < rule.min):
        return rule.min
    if rule.max is not None and (number is None or number > rule.max):
        return rule.max
    return None


def _limit_words(rule: Rule) -> str:
    words = [
        f"{word} {show(limit, rule.unit)}"
        for word, limit in (("equals", rule.equals), ("min", rule.min), ("max", rule.max))
        if limit is not None
    ]
    return "its limit " + " and ".join(words)


def _number(name: str, rule: Rule, value: Word, base: Word) -> Finding:
    """Judge a number that is no timing: compared as it is."""
    new, old = as_number(value), as_number(base)
    if new is None or old is None:
        return _word(name, rule, value, base)
    allowed = allowance(rule, old)
    limit = limit_of(rule, old, -allowed if rule.better == "equal" and new < old else allowed)
    change = relative_change(new, old)
    by = f" ({share(change)})" if change is not None else ""
    until = f", limit {show(limit, rule.unit)}" if limit is not None and rule.better != "equal" else ""
    said = f"{name}: {show(new, rule.unit)} against {show(old, rule.unit)}{by}{until}"
    worse = worsening(rule, new, old)
    if rule.better == "equal":
        if not beyond(worse, allowed, old):
            return Finding(Verdict.PASS, "", said, limit)
        hold = f"; {_UNDECLARED}" if not rule.declared else f"; it must stay equal{_within(allowed, rule)}"
        return Finding(Verdict.REGRESSION, "changed", said + hold, limit)
    if beyond(worse, allowed, old):
        return Finding(Verdict.REGRESSION, "memory" if rule.kind == "memory" else "worse", said, limit)
    if beyond(-worse, allowed, old):
        return Finding(Verdict.IMPROVED, "improved", f"{said}: better by more than its tolerance", limit)
    return Finding(Verdict.PASS, "", said, limit)


def _word(name: str, rule: Rule, value: Word, base: Word) -> Finding:
    """Judge a word, by the order that its workload declares, best first; without one it must stay equal."""
    said = f"{name}: {show(value)} against {show(base)}"
    order = rule.order
    if order and value not in order:
        return Finding(Verdict.REGRESSION, "unknown-word", f"{said}; not one of {', '.join(order)}")
    if value == base and isinstance(value, str) == isinstance(base, str):
        return Finding(Verdict.PASS, "", said)
    if not order or base not in order:
        hold = f"; {_UNDECLARED}" if not rule.declared else "; it must stay equal"
        return Finding(Verdict.REGRESSION, "changed", said + hold)
    better = order.index(str(value)) < order.index(str(base))
    if better:
        return Finding(Verdict.IMPROVED, "improved", f"{said}: a step up in {' > '.join(order)}")
    return Finding(Verdict.REGRESSION, "worse", f"{said}: a step down in {' > '.join(order)}")


def vanished(name: str, entry: Entry, rule: Rule | None) -> MetricVerdict:
    base = _baseline(rule or Rule(), entry.metrics[name].values)
    shown = f" ({show(base, rule.unit if rule else '')})" if base is not None else ""
    why = f"{name}: the baseline has it{shown}, and it is no longer measured"
    unit, better = (rule.unit, rule.better) if rule else ("", None)
    return MetricVerdict(None, unit, better, base, None, None, Verdict.MISSING, "metric-missing", why)


def _against(base: Word | None, rule: Rule) -> str:
    return f", against {show(base, rule.unit)}" if base is not None else ""


def _within(allowed: float, rule: Rule) -> str:
    return f" within {show(allowed, rule.unit)}" if allowed else ""
