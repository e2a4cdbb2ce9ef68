"""How often the advisory change points of the trend page speak without cause, and how often they see a real change.

Unchanged series of 90 nights are made in three ways: nights drawn from the recorded sessions of one device (each night one
session's low quantile of one case), normal noise, and heavy-tailed noise that remembers the night before. Changed series have a
step at a random night between the 20th and the 70th.

    python benchmarks/change_points.py [--series 2000]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from sessions_file import read

from pytest_accel.history.changes import SHORTEST, change_points

NIGHTS = 90
DATA = Path(__file__).parent / "data" / "h200-sessions.json"
Draw = Callable[[np.random.Generator], Any]


def recorded() -> Draw:
    """Nights resampled from the unchanged sessions of the recorded device, a random case a series."""
    recording = read([DATA])
    base = [session for session in recording.sessions if session.mode == "base"]
    table = {case: np.array([np.quantile(s.device[case], 0.05) for s in base]) for case in recording.cases}
    names = sorted(table)

    def draw(random: np.random.Generator) -> Any:
        return random.choice(table[names[random.integers(len(names))]], NIGHTS)

    return draw


def normal(random: np.random.Generator) -> Any:
    """Independent normal nights with 1 % of spread."""
    return 100.0 * (1 + 0.01 * random.standard_normal(NIGHTS))


def heavy(random: np.random.Generator) -> Any:
    """Student's t with 3 degrees of freedom, correlation 0.3 with the night before, 3 % of the nights 5 % slow."""
    raw = random.standard_t(3, NIGHTS)
    for night in range(1, NIGHTS):
        raw[night] = 0.3 * raw[night - 1] + raw[night]
    return 100.0 * (1 + 0.005 * raw + 0.05 * (random.random(NIGHTS) < 0.03))


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z = 1.96
    share, spread = hits / of, z * np.sqrt(hits / of * (1 - hits / of) / of + z * z / (4 * of * of))
    middle, scale = share + z * z / (2 * of), 1 + z * z / of
    return float((middle - spread) / scale), float((middle + spread) / scale)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=2000)
    asked = parser.parse_args()
    kinds: dict[str, Draw] = {"recorded sessions": recorded(), "normal 1 %": normal, "heavy, correlated": heavy}
    print(f"{asked.series} series of {NIGHTS} nights a row; [95 % interval]")
    for name, draw in kinds.items():
        for step in (0.0, 0.02, 0.05):
            random = np.random.default_rng(7)
            hits = 0
            for _ in range(asked.series):
                nights, place = draw(random), int(random.integers(20, 70))
                nights[place:] *= 1 + step
                found = change_points(nights.tolist())
                near = [each for each in found if abs(each.place - place) <= SHORTEST]
                hits += bool(near if step else found)
            low, high = interval(hits, asked.series)
            what = f"step of {step:.0%} found within {SHORTEST} nights" if step else "false alarm, unchanged series"
            print(f"{name:20} {what:40} {hits / asked.series:8.2%} [{low:.2%}, {high:.2%}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
