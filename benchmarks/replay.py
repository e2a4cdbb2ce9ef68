"""Recorded sessions through the shipped verdict code: a baseline of some, a run of others, judged as a gate would."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sessions_file import Recording, Session

from pytest_accel.baseline.match import entry_view, timing_family
from pytest_accel.baseline.types import BaselineFile, StoredEntry, StoredMetric, StoredSession
from pytest_accel.verdict.judge import SESSIONS_NEEDED, judge
from pytest_accel.verdict.reduce import reduction_for, session_value
from pytest_accel.verdict.rules import rule_for
from pytest_accel.verdict.types import Entry, Observation, Rule
from pytest_accel.workloads.catalog.throughput import TIME
from pytest_accel.workloads.registry import WORKLOADS

SESSIONS_OF_A_RUN = 3  # the default of --accel-sessions
DAY = datetime.date(2026, 1, 1)


@dataclass(frozen=True)
class Suite:
    """One replayed suite: the sessions of its baseline and those that its run could have, and each case's verdict."""

    baseline: tuple[Session, ...]
    run: tuple[Session, ...]
    verdicts: Mapping[str, str]
    measured: int

    def red(self, cases: Sequence[str]) -> list[str]:
        """The cases among ``cases`` that were called a REGRESSION."""
        return [case for case in cases if self.verdicts[case] == "REGRESSION"]


class Gate:
    """Replays of one recording. ``needed``: how many sessions a baseline has."""

    def __init__(
        self, recording: Recording, needed: int = SESSIONS_NEEDED, rules: Mapping[str, Rule] | None = None
    ) -> None:
        self.recording = recording
        self.needed = needed
        self.rules = rules or {case: rule_of(recording, case) for case in recording.cases}
        self._views: dict[tuple[int, ...], dict[str, Entry]] = {}
        self._known: dict[tuple[object, ...], tuple[str, bool]] = {}

    def suites(self, base_gpus: Sequence[str], run_gpu: str, mode: str, count: int, seed: int) -> list[Suite]:
        """At most ``count`` different suites: a baseline of ``needed`` unchanged sessions of ``base_gpus`` (evenly), and a run
        on ``run_gpu`` of up to three other sessions of ``mode``. All that there are where these are fewer."""
        draw = random.Random(seed)
        share = [len(part) for part in _parts(self.needed, len(base_gpus))]
        pools = [self.recording.of(gpu, "base") for gpu in base_gpus]
        if any(len(pool) < size for pool, size in zip(pools, share, strict=True)):
            return []
        chosen: dict[tuple[int, ...], tuple[tuple[Session, ...], tuple[Session, ...]]] = {}
        for _ in range(count * 4):
            baseline = tuple(s for pool, size in zip(pools, share, strict=True) for s in draw.sample(pool, size))
            left = [s for s in self.recording.of(run_gpu, mode) if s not in baseline]
            if not left:
                continue
            run = tuple(draw.sample(left, min(SESSIONS_OF_A_RUN, len(left))))
            chosen[(*sorted(map(id, baseline)), *map(id, run))] = baseline, run
            if len(chosen) >= count:
                break
        return [self.replay(baseline, run) for baseline, run in chosen.values()]

    def replay(self, baseline: Sequence[Session], run: Sequence[Session]) -> Suite:
        """The verdict of each case: one session, and fresh ones of the run while any case is suspect."""
        baseline = tuple(sorted(baseline, key=id))
        verdicts: dict[str, str] = {}
        measured = 1
        for case in self.recording.cases:
            for count in range(1, len(run) + 1):
                verdicts[case], again = self._judge(case, baseline, run, count)
                measured = max(measured, count)
                if not again:
                    break
        return Suite(baseline, tuple(run), verdicts, measured)

    def _judge(self, case: str, baseline: tuple[Session, ...], run: Sequence[Session], count: int) -> tuple[str, bool]:
        key = (case, *map(id, baseline), *map(id, run[:count]), len(run))
        if key not in self._known:
            judged = judge(
                [Observation({"time": session.device[case]}) for session in run[:count]],
                {"time": self.rules[case]},
                self._entries(baseline)[case],
                today=DAY,
                sessions_left=len(run) - count,
                baseline_sessions_needed=self.needed,
                device=run[0].gpu,
            )
            self._known[key] = judged.verdict.value, bool(judged.suspects)
        return self._known[key]

    def _entries(self, baseline: tuple[Session, ...]) -> dict[str, Entry]:
        """The baseline's entries as a gate reads them from a file of these sessions."""
        key = tuple(map(id, baseline))
        if key not in self._views:
            stored = {case: self._stored(case, baseline) for case in self.recording.cases}
            file = BaselineFile("replayed", "replayed", {"stack": {"settings": {}}}, stored)
            family = timing_family(file)
            views = {case: entry_view(file, entry, family=family) for case, entry in stored.items()}
            self._views[key] = {case: view for case, view in views.items() if view is not None}
        return self._views[key]

    def _stored(self, case: str, baseline: Sequence[Session]) -> StoredEntry:
        rule = self.rules[case]
        how = reduction_for(rule)
        sessions = [
            StoredSession(
                run=session.name,
                started="",
                machine="",
                device=session.gpu,
                stack="stack",
                metrics={"time": session_value(session.device[case], rule, how)},
            )
            for session in baseline
        ]
        metric = StoredMetric(rule.unit, rule.better, rule.kind, reduced=how)
        return StoredEntry("", "gate", case, "", metrics={"time": metric}, sessions=tuple(sessions))


def rule_of(recording: Recording, case: str) -> Rule:
    """The tolerance that the shipped catalogue gives the case, with the recorded clock's resolution as its floor."""
    workload = WORKLOADS.get(recording.workload_of(case))
    declared = workload.metrics.get("time", TIME) if workload is not None else TIME
    rule = rule_for("time", declared)
    return replace(rule, floor=max(rule.floor, recording.resolution_us))


def _parts(total: int, parts: int) -> list[range]:
    """``total`` things dealt out to ``parts``, the first ones getting one more."""
    sizes = [total // parts + (index < total % parts) for index in range(parts)]
    return [range(size) for size in sizes]


def weights(suites: Sequence[Suite], draw: random.Random, by_gpu: bool) -> list[float]:
    """How often each suite counts when the sessions of runs (and, with ``by_gpu``, the devices) are drawn anew."""
    clusters = sorted({(s.gpu, s.mode, s.order, id(s)) for suite in suites for s in suite.run})
    times: dict[object, int] = dict.fromkeys((key[3] for key in clusters), 0)
    for _, group in itertools.groupby(clusters, key=lambda key: key[:2]):
        members = [key[3] for key in group]
        for key in draw.choices(members, k=len(members)):
            times[key] += 1
    gpus = sorted({suite.run[0].gpu for suite in suites})
    of_gpu = dict.fromkeys(gpus, 1)
    if by_gpu:
        of_gpu = dict.fromkeys(gpus, 0)
        for gpu in draw.choices(gpus, k=len(gpus)):
            of_gpu[gpu] += 1
    found = []
    for suite in suites:
        weight = float(of_gpu[suite.run[0].gpu])
        for session in suite.run[: suite.measured]:
            weight *= times[id(session)]
        found.append(weight)
    return found
