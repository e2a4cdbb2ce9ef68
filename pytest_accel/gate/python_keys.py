"""The parameters of a Python test as its baseline key has them: never by position, for a position moves."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from pytest_accel.errors import ConfigError, Problem

_LONGEST = 200
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def key_values(item: pytest.Function) -> dict[str, Any]:
    """Name and value of each parameter; where a value is no finite scalar, pytest's id of the parameter set.

    Where pytest made that id by counting (``dtype0``), the value's own text stands in its place. Raises ConfigError where
    that text is an address, or long: such a test needs ids.
    """
    spec = getattr(item, "callspec", None)
    if spec is None:
        return {}
    return {name: _value(item, spec, name, value) for name, value in spec.params.items()}


def _value(item: pytest.Function, spec: Any, name: str, value: Any) -> Any:
    if isinstance(value, (str, int, float, type(None))) and not (isinstance(value, float) and not math.isfinite(value)):
        return value
    if not re.search(rf"(?:^|-){re.escape(name)}\d+(?:-|$)", spec.id):
        return spec.id
    text = str(value)
    if _ADDRESS.search(text) or len(text) > _LONGEST or not text:
        path, line, _ = item.reportinfo()
        what = f"{item.nodeid}: parameter `{name}` has no id and no short text, so that its baseline key would be its position"
        mend = "give its values ids: pytest.param(…, id=…), or ids=… of parametrize"
        raise ConfigError(Problem(what, mend, str(path), (line or 0) + 1))
    return text
