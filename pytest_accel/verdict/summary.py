"""A run as a whole: its worst verdict, its exit code, its headline."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.verdict.types import Verdict

RECORDED_ONLY = "RECORDED ONLY"
NOTHING_ASKED = "NOTHING ASKED"
INCOMPLETE = frozenset({Verdict.MISSING, Verdict.UNMEASURED, Verdict.INCONCLUSIVE, Verdict.NEW})


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The worst verdict, None where there is none."""
    return max(verdicts, key=lambda verdict: verdict.badness, default=None)


def exit_code(
    verdicts: Iterable[tuple[Verdict, bool]],
    *,
    asked: int,
    ordinary_failed: bool = False,
    config: bool = False,
    internal: bool = False,
    interrupted: bool = False,
) -> int:
    """The exit code of a run, by the interface's table, top down.

    ``verdicts``: of each variant asked for, with True where it is NEW and was recorded or allowed. ``asked``: how many
    variants were asked for; one without a verdict makes the run incomplete.
    """
    judged = list(verdicts)
    found = {verdict for verdict, accepted in judged if not (accepted and verdict is Verdict.NEW)}
    rules = (
        (internal, 3),
        (interrupted, 2),
        (config, 4),
        (ordinary_failed or Verdict.REGRESSION in found, 1),
        (Verdict.ENV in found, 10),
        (bool(found & INCOMPLETE) or len(judged) < asked, 11),
        (not judged and not asked, 5),
    )
    return next((code for applies, code in rules if applies), 0)


def headline(verdicts: Iterable[Verdict], *, judged: int, accepted_new: bool = False, recording: bool = False) -> str:
    """The word of a run's summary: its worst verdict, NEW left out where it is accepted (recorded, or allowed).

    ``judged``: how many variants were held against a baseline or a limit. Where none was and nothing is wrong, the word
    is RECORDED ONLY (or NEW, where nothing was recorded either), never PASS.
    """
    every = list(verdicts)
    if not every:
        return NOTHING_ASKED
    word = worst(verdict for verdict in every if not (accepted_new and verdict is Verdict.NEW))
    if judged == 0 and word in (None, Verdict.PASS, Verdict.IMPROVED):
        return RECORDED_ONLY if recording else Verdict.NEW.value
    return Verdict.PASS.value if word is None else word.value
