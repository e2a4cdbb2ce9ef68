"""Did work meant for the device run on the host? Read from Python warnings and from what the process wrote to stderr.

A vendor warns once per operator per process. So the names already seen are kept for the life of the process, and
torch is asked to repeat its own warn-once warnings while a watch is open.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from pytest_accel.stack.types import ErrorKind

_PHRASE = re.compile(r"fall(?:s|ing)?[ -]?back\b[^\n]*\b(?:cpu|host)\b", re.IGNORECASE)
#: A library that falls back to the host for something else (a tokeniser, a transport) is no operator that left the device.
_OF_AN_OPERATOR = re.compile(r"\boperators?\b|\bkernel\b|\b\w+::\w+", re.IGNORECASE)
_OPERATOR = re.compile(r"\b[a-z_]\w*::(\w+)|\bkernel \[(\w+)")

Result = TypeVar("Result")

#: Base names of operators (``isin`` for ``aten::isin.Tensor_Tensor_out``) that warned in this process.
SEEN: dict[str, str] = {}
_READ = [0]  # characters of this process's standard error that were searched already


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

        self._before = self._search_past() if self._stderr_text else 0
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
        others = {}
        for caught in self._caught:
            text = str(caught.message)
            if self.means_fallback(text):
                self._keep(text)
            else:  # recorded at every call: shown once a place
                others[caught.category, text, caught.filename, caught.lineno] = caught.message
        for (category, _, filename, number), message in others.items():
            warnings.warn_explicit(message, category, filename, number)
        if self._stderr_text:
            text = self._stderr_text()
            for line in text[self._before :].splitlines():
                if self.means_fallback(line):
                    self._keep(line.strip())
            _READ[0] = len(text)

    def _search_past(self) -> int:
        """Remember the warnings of work that nobody watched (the set-up, another workload); returns the text's length."""
        assert self._stderr_text is not None
        return remember_past(self._classify, self._stderr_text)

    def means_fallback(self, text: str) -> bool:
        """True for a message which says that an operator runs on the host."""
        return means_fallback(text, self._classify)

    def _keep(self, text: str) -> None:
        self.texts.append(text)
        _remember(text)


def means_fallback(text: str, classify: Callable[[str], str]) -> bool:
    """True for a message which says that an operator runs on the host: the platform's reading, or the usual words."""
    if classify(text) == ErrorKind.FALLBACK:
        return True
    return _PHRASE.search(text) is not None and _OF_AN_OPERATOR.search(text) is not None


def remember_past(classify: Callable[[str], str], stderr_text: Callable[[], str]) -> int:
    """Remember the fall-back warnings written since the last look, so that they count as spent; the text's length so far."""
    text = stderr_text()
    begin = _READ[0] if _READ[0] <= len(text) else 0  # shorter: it was emptied meanwhile
    for line in text[begin:].splitlines():
        if means_fallback(line, classify):
            _remember(line.strip())
    _READ[0] = len(text)
    return len(text)


def _remember(text: str) -> None:
    for names in _OPERATOR.findall(text):
        SEEN.setdefault("".join(names), text)


def dispatched(fn: Callable[[], object]) -> set[str]:
    """Call ``fn`` once; the base names of the operators that it dispatches."""
    return recorded(fn)[1]


def recorded(fn: Callable[[], Result]) -> tuple[Result, set[str]]:
    """Call ``fn`` once; what it returns, and the base names of the operators that it dispatches.

    Every operator takes some microseconds longer meanwhile.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    names: set[str] = set()

    class Record(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Record():
        result = fn()
    return result, names


def on_host(
    fn: Callable[[], object], classify: Callable[[str], str], stderr_text: Callable[[], str] | None = None
) -> str | None:
    """Call ``fn`` (twice, where this process has warned before); the warning that it runs on the host, or None.

    A warning that was spent by an earlier call counts as well. Without torch in the process there is nothing to ask.
    """
    if "torch" not in sys.modules:
        return None
    watch = FallbackWatch(classify, stderr_text)
    with watch:
        fn()
    if watch.texts:
        return watch.texts[0]
    return spent(dispatched(fn)) if SEEN else None


def spent(names: set[str]) -> str | None:
    """The warning of an earlier call in this process that names one of these operators (base names), or None."""
    return next((SEEN[name] for name in sorted(names) if name in SEEN), None)
