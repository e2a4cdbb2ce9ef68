"""Built-in workloads by name, and how any workload is found, checked and digested. No torch here."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.workloads.builtin import WORKLOADS
from pytest_accel.workloads.types import Workload

__all__ = ["WORKLOADS", "digest", "lookup", "resolve", "signature_problem"]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "list[int]": (list,),
}


def lookup(name: str) -> Workload | None:
    """The built-in workload of this name, or None where ``name`` is a user's ``package.module:function``.

    Raises ConfigError for a name that is neither.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    module, colon, function = name.partition(":")
    if colon and function.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return None
    near = difflib.get_close_matches(name, WORKLOADS, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ConfigError(
        Problem(
            f"no workload is named '{name}'",
            f"{hint}built in: {', '.join(sorted(WORKLOADS))}; or package.module:function",
        )
    )


def resolve(name: str) -> Callable[..., Any]:
    """Import the workload ``name``, built in or ``package.module:function``, and return its function.

    Raises ConfigError for a name that is neither, ImportError where the module cannot be imported, and AttributeError
    or TypeError where it holds no such function.
    """
    known = lookup(name)
    module, _, attribute = (known.function if known else name).partition(":")
    function = getattr(importlib.import_module(module), attribute)
    if not callable(function):
        raise TypeError(f"{name} is not a function but {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def signature_problem(workload: Workload, params: Mapping[str, Any]) -> str | None:
    """What is wrong with ``params`` for a built-in workload, in words, or None. Imports no torch."""
    function = resolve(workload.name)
    known = _parameters(function)
    for name, value in params.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            return f"workload '{workload.name}' takes no parameter '{name}'{hint} (it takes {', '.join(known)})"
        wanted = _TYPES.get(str(known[name].annotation))
        right = isinstance(value, wanted) if wanted else True
        if right and isinstance(value, bool) and wanted is not None and bool not in wanted:
            right = False
        if not right:
            return f"workload '{workload.name}': {name} must be {known[name].annotation}, not {value!r}"
    missing = [name for name, parameter in known.items() if parameter.default is parameter.empty and name not in params]
    if missing:
        return f"workload '{workload.name}' needs the parameter{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    return None


def digest(function: Callable[..., Any], params: Mapping[str, Any]) -> str:
    """sha256[:16] of the canonical JSON of the arguments with the function's defaults filled in.

    A parameter that ``**params`` swallows is included as given. Raises TypeError for arguments that do not fit.
    """
    bound = inspect.signature(function).bind(None, **params)
    bound.apply_defaults()
    names = iter(bound.arguments.items())
    next(names)  # the accelerator
    arguments: dict[str, Any] = {}
    for name, value in names:
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            arguments[name] = value
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(function).parameters.items())[1:])
