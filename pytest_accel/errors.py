"""The one way in which a user's mistake is told: where, what, how to mend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One mistake of the user's.

    ``path`` and ``line`` say where (line numbers start at 1), ``what`` is a sentence, ``mend`` what to do about it.
    """

    what: str
    mend: str = ""
    path: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = self.path + (f":{self.line}" if self.path and self.line else "")
        text = f"{where}: {self.what}" if where else self.what
        return f"{text} ({self.mend})" if self.mend else text


class ConfigError(Exception):
    """A suite, baseline, option, marker or argument is wrong (verdict CONFIG, exit code 4)."""

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def at(cls, path: str | Path, line: int | None, what: str, mend: str = "") -> ConfigError:
        """Make an error of one problem found at ``path:line``."""
        return cls(Problem(what=what, mend=mend, path=str(path), line=line))
