"""Did work meant for the device run on the host? Read from Python warnings and from what the process wrote to stderr.

A vendor warns once per operator per process. So the names already seen are kept for the life of the process, and
torch is asked to repeat its own warn-once warnings while a watch is open.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import TracebackType

from pytest_accel.stack.types import ErrorKind

_PHRASE = re.compile(r"fall(?:s|ing)?[ -]?back\b[^\n]*\b(?:cpu|host)\b", re.IGNORECASE)
_OPERATOR = re.compile(r"aten::(\w+)")

#: Base names of operators (``isin`` for ``aten::isin.Tensor_Tensor_out``) that warned in this process.
SEEN: dict[str, str] = {}


class FallbackWatch:
    """Context manager: ``texts`` holds the fall-back warnings between begin and end.

    ``stderr_text`` returns everything that was written to file descriptor 2 so far, or is None; ``classify`` is the
    platform's reading of a message. Other warnings are shown again on leaving, so that nothing is swallowed.
    """

    def __init__(self, classify: Callable[[str], str], stderr_text: Callable[[], str] | None = None) -> None:
        self._classify = classify
        self._stderr_text = stderr_text
        self._catch = warnings.catch_warnings(record=True)
        self.texts: list[str] = []

    def __enter__(self) -> FallbackWatch:
        import torch

        self._before = len(self._stderr_text()) if self._stderr_text else 0
        self._always = torch.is_warn_always_enabled()
        torch.set_warn_always(True)
        caught = self._catch.__enter__()
        self._caught = [] if caught is None else caught
        warnings.simplefilter("always")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        self._catch.__exit__(kind, error, trace)
        torch.set_warn_always(self._always)
        for caught in self._caught:
            text = str(caught.message)
            if self.means_fallback(text):
                self._keep(text)
            else:
                warnings.warn_explicit(caught.message, caught.category, caught.filename, caught.lineno)
        if self._stderr_text:
            for line in self._stderr_text()[self._before :].splitlines():
                if self.means_fallback(line):
                    self._keep(line.strip())

    def means_fallback(self, text: str) -> bool:
        """True for a message which says that an operator runs on the host."""
        return self._classify(text) == ErrorKind.FALLBACK or _PHRASE.search(text) is not None

    def _keep(self, text: str) -> None:
        self.texts.append(text)
        for name in _OPERATOR.findall(text):
            SEEN.setdefault(name, text)


def spent(names: set[str]) -> str | None:
    """The warning of an earlier call in this process that names one of these operators (base names), or None."""
    return next((SEEN[name] for name in sorted(names) if name in SEEN), None)
