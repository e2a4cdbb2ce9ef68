"""What a workload may return, checked and made plain: text, numbers, and sequences of numbers by metric name."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.runner.types import Metric

LONGEST_WORD = 1000  # a metric's word is compared and stored; longer texts belong into accel.note


class BadReturn(Exception):
    """The workload returned something else than metrics; the message says what and how to mend."""


def metrics_of(returned: object) -> dict[str, Metric]:
    """The metrics that a workload returned, with NumPy and torch scalars and 1-D arrays as Python numbers.

    Raises BadReturn where it is no mapping, is empty, or holds a name or a value that no metric can have.
    """
    if not isinstance(returned, Mapping):
        raise BadReturn(
            f"the workload returned {_said(returned)}, not its metrics; return a dict such as {{'time': 1.5}}"
        )
    if not returned:
        raise BadReturn("the workload returned no metric: an empty dict measures nothing; return at least one, or skip")
    metrics: dict[str, Metric] = {}
    for name, value in returned.items():
        if not isinstance(name, str) or not name:
            raise BadReturn(f"the workload returned a metric named {name!r}; a name is a text of one character or more")
        metrics[str.__str__(name)] = _metric(name, value)
    return metrics


def _metric(name: str, value: object) -> Metric:
    value = _plain(value)
    if isinstance(value, str):
        if len(value) > LONGEST_WORD:
            raise BadReturn(f"metric '{name}' is a text of {len(value)} characters; a word has at most {LONGEST_WORD}")
        return str.__str__(value)  # not str(): an enum would answer with its own name
    number = _number(value)
    if number is not None:
        return number
    if isinstance(value, (Sequence, array.array)) and not isinstance(value, (bytes, bytearray)):
        samples = [_number(_plain(sample)) for sample in value]
        if not samples:
            raise BadReturn(f"metric '{name}' is an empty sequence; its samples are the numbers of one session")
        wrong = next((position for position, sample in enumerate(samples) if sample is None), None)
        if wrong is not None:
            raise BadReturn(f"metric '{name}': sample {wrong} is {_said(value[wrong])}; samples are numbers")
        return [sample for sample in samples if sample is not None]
    raise BadReturn(f"metric '{name}' is {_said(value)}; a metric is a number, a word, or a sequence of numbers")


def _number(value: object) -> float | int | None:
    if isinstance(value, int):
        return int(value)  # a truth value is 1 or 0
    return float(value) if isinstance(value, float) else None


def _plain(value: Any) -> Any:
    """The Python value of a NumPy or torch scalar or 1-D array (known by ``ndim`` and ``tolist``); others unchanged."""
    dimensions = getattr(value, "ndim", None)
    if isinstance(dimensions, int) and dimensions <= 1 and callable(getattr(value, "tolist", None)):
        return value.tolist()
    return value


def _said(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}" if value is not None else "None"
