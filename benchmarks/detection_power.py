"""False alarms and power of the throughput verdicts on recorded sessions, beside what a user would otherwise use.

    python benchmarks/detection_power.py FILE.json [FILE.json ...] [--accept] [--json OUT]

Replays the sessions of the files (``record_sessions.py`` writes them) through the shipped verdict code: a baseline of six
sessions, a run of up to three others, on the same device or on another one. Prints, with 95 % intervals, how often an unchanged
variant and an unchanged suite is called a REGRESSION, and how often a variant whose work did grow is. The peers below judge
pairs of the same sessions. ``--accept`` exits with 1 where the project's acceptance is not met.

Intervals: the sessions of runs are drawn anew (devices too, from three on), since replays share sessions. Where no replay
or every replay is red, the interval is Clopper and Pearson's for as many trials as there are sessions in runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import peers
import replay
from sessions_file import Recording, Session, read

from pytest_accel.verdict.distributions import incomplete_beta

DRAWS = 400
BASE = "base"


@dataclass(frozen=True)
class Rate:
    """A share of events with its 95 % interval; ``trials`` replays of ``clusters`` sessions on ``devices`` devices."""

    share: float
    low: float
    high: float
    trials: int
    clusters: int
    devices: int

    def __str__(self) -> str:
        return f"{self.share:.1%} [{self.low:.1%}, {self.high:.1%}]"


def rate(suites: Sequence[replay.Suite], event: Callable[[replay.Suite], float], seed: int) -> Rate | None:
    """The mean of ``event`` (0 to 1) over the suites, with its interval; None where there is no suite."""
    if not suites:
        return None
    values = [event(suite) for suite in suites]
    share = statistics.fmean(values)
    clusters = len({id(session) for suite in suites for session in suite.run})
    devices = len({suite.run[0].gpu for suite in suites})
    draw = random.Random(seed)
    means = []
    for _ in range(DRAWS if 0 < share < 1 else 0):
        weights = replay.weights(suites, draw, by_gpu=devices > 2)
        if sum(weights):
            means.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    if means:
        means.sort()
        low, high = means[int(0.025 * len(means))], means[int(0.975 * len(means))]
    else:
        low, high = exact(round(share * clusters), clusters)
    return Rate(share, low, high, len(suites), clusters, devices)


def exact(events: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval."""

    def solve(goal: float, a: float, b: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if incomplete_beta(a, b, middle) < goal else (low, middle)
        return low

    low = solve(0.025, events, trials - events + 1) if events else 0.0
    high = solve(0.975, events + 1, trials - events) if events < trials else 1.0
    return low, high


def places(recording: Recording) -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Pairs of (devices of the baseline, device of the run), by what they have in common."""
    gpus = recording.gpus
    found = {"same GPU": [((gpu,), gpu) for gpu in gpus]}
    found["other GPU"] = [((one,), two) for one, two in itertools.permutations(gpus, 2)]
    if len(gpus) > 2:
        found["baseline of two other GPUs"] = [
            (pair, gpu) for gpu in gpus for pair in itertools.combinations([g for g in gpus if g != gpu], 2)
        ]
    return {name: pairs for name, pairs in found.items() if pairs}


def shipped(recording: Recording, count: int, needed: int, seed: int) -> dict[str, dict[str, Any]]:
    """Rates of the shipped verdicts, by place."""
    gate = replay.Gate(recording, needed)
    grown = {mode: recording.grown(mode) for mode in recording.slow_modes()}
    table: dict[str, dict[str, Any]] = {}
    for place, pairs in places(recording).items():
        each = max(1, count // len(pairs))

        def suites(mode: str, pairs: Any = pairs, each: int = each) -> list[replay.Suite]:
            return [suite for base, run in pairs for suite in gate.suites(base, run, mode, each, seed)]

        unchanged = suites(BASE)
        row: dict[str, Any] = {
            "false red per suite": rate(unchanged, lambda s: float(bool(s.red(recording.cases))), seed),
            "false red per variant": rate(
                unchanged, lambda s: len(s.red(recording.cases)) / len(recording.cases), seed
            ),
            "unchanged": by_case(unchanged, recording.cases),
        }
        for mode, asked in recording.slow_modes().items():
            cases = grown[mode]
            slow = suites(mode) if cases else []
            row[f"power at {asked:.0%}"] = rate(slow, lambda s, c=cases: len(s.red(c)) / len(c), seed)  # type: ignore[misc]
            row[mode] = by_case(slow, cases)
        hog = suites("hog")
        row["red under a hog"] = rate(hog, lambda s: len(s.red(recording.cases)) / len(recording.cases), seed)
        table[place] = row
    return table


def by_case(suites: Sequence[replay.Suite], cases: Sequence[str]) -> dict[str, dict[str, float]]:
    """The share of each verdict, by case."""
    found: dict[str, dict[str, float]] = {}
    for case in cases if suites else ():
        said = [suite.verdicts[case] for suite in suites]
        found[case] = {verdict: said.count(verdict) / len(said) for verdict in sorted(set(said))}
    return found


def of_peers(recording: Recording, clock: str) -> dict[str, dict[str, float | None]]:
    """Rates of what a user would otherwise use, over pairs (saved session, new session), timed by ``clock``."""
    table: dict[str, dict[str, float | None]] = {}
    grown = {mode: recording.grown(mode) for mode in recording.slow_modes()}
    for name, slower in peers.rules().items():
        known: dict[tuple[int, int, str], bool] = {}

        def red(pair: tuple[Session, Session], case: str, rule: Any = slower, known: Any = known) -> bool:
            key = (id(pair[0]), id(pair[1]), case)
            if key not in known:
                old, new = (getattr(session, clock)[case] for session in pair)
                known[key] = bool(old and new and rule(old, new))
            return bool(known[key])

        row: dict[str, float | None] = {}
        for place, same in (("same GPU", True), ("other GPU", False)):
            pairs = [
                (old, new)
                for old, new in itertools.product(recording.sessions, repeat=2)
                if old.mode == BASE and old is not new and (old.gpu == new.gpu) is same
            ]
            clean = [pair for pair in pairs if pair[1].mode == BASE]
            rows = [[red(pair, case) for case in recording.cases] for pair in clean]
            row[f"{place}: false red per variant"] = statistics.fmean(map(statistics.fmean, rows)) if rows else None
            row[f"{place}: false red per suite"] = statistics.fmean(map(any, rows)) if rows else None
            for mode, asked in recording.slow_modes().items():
                slow = [red(pair, case) for pair in pairs if pair[1].mode == mode for case in grown[mode]]
                row[f"{place}: power at {asked:.0%}"] = statistics.fmean(slow) if slow else None
        table[name] = row
    return table


def verdict(table: dict[str, dict[str, Any]]) -> list[tuple[str, bool]]:
    """The project's acceptance, line by line; what a recording cannot show is left out."""
    wanted = [
        ("same GPU", "false red per suite", 0.01, False),
        ("other GPU", "false red per suite", 0.01, False),
        ("same GPU", "power at 5%", 0.99, True),
        ("other GPU", "power at 5%", 0.95, True),
        ("same GPU", "power at 2%", 0.85, True),
    ]
    lines = []
    for place, what, bound, at_least in wanted:
        found = table.get(place, {}).get(what)
        if found is not None:
            met = found.share >= bound if at_least else found.share <= bound
            sign = "at least" if at_least else "at most"
            lines.append((f"{place}, {what}: {found.share:.1%}, {sign} {bound:.0%} wanted", met))
    return lines


def show(recording: Recording, table: dict[str, dict[str, Any]], others: dict[str, Any]) -> None:
    """Print everything as Markdown."""
    print(f"{len(recording.sessions)} sessions of {len(recording.cases)} cases on {len(recording.gpus)} device(s)\n")
    for mode in recording.slow_modes():
        shares = ", ".join(f"{case} {recording.growth(case, mode):+.1%}" for case in recording.cases)
        left_out = sorted(set(recording.cases) - set(recording.grown(mode)))
        print(f"{mode}: {shares}. Not grown, left out: {', '.join(left_out) or 'none'}\n")
    for place, row in table.items():
        print(f"## Shipped verdicts, {place}\n")
        for what, found in row.items():
            if isinstance(found, Rate):
                print(
                    f"- {what}: {found} ({found.trials} replays, {found.clusters} sessions, {found.devices} device(s))"
                )
        for what, cases in row.items():
            if isinstance(cases, dict):
                odd = {
                    c: v for c, v in cases.items() if v.get("REGRESSION" if what != "unchanged" else "PASS", 0.0) < 1
                }
                for case, shares in odd.items():
                    print(f"  - {what}, {case}: " + ", ".join(f"{v} {share:.0%}" for v, share in shares.items()))
        print()
    for clock, rows in others.items():
        print(f"## Pairs of single sessions, timed by the {clock} clock\n")
        heads = list(next(iter(rows.values())))
        print("| rule | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
        for name, row in rows.items():
            print(f"| {name} | " + " | ".join("" if row[h] is None else f"{row[h]:.1%}" for h in heads) + " |")
        print()


def main() -> int:
    """Read, replay, print. 0, or with --accept 1 where the acceptance is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--replays", type=int, default=1000, help="at most so many suites a place (default: 1000)")
    parser.add_argument("--baseline-sessions", type=int, default=replay.SESSIONS_NEEDED, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures as JSON as well")
    parser.add_argument("--accept", action="store_true", help="exit with 1 where the acceptance is not met")
    asked = parser.parse_args()
    recording = read(asked.files)
    table = shipped(recording, asked.replays, asked.baseline_sessions, asked.seed)
    others = {clock: of_peers(recording, clock) for clock in ("device", "host")}
    show(recording, table, others)
    lines = verdict(table)
    print("## Acceptance\n")
    for line, met in lines:
        print(f"- {'met' if met else 'NOT MET'}: {line}")
    if asked.json is not None:
        plain = {p: {w: asdict(v) if isinstance(v, Rate) else v for w, v in row.items()} for p, row in table.items()}
        asked.json.write_text(json.dumps({"shipped": plain, "peers": others}, indent=1) + "\n", encoding="utf-8")
    return 1 if asked.accept and not (lines and all(met for _, met in lines)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
