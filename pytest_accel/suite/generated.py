"""A case whose variants a function names: ``params_from: package.module:function``.

The function takes no arguments, imports no torch (collection calls it), and returns the arguments of each variant: a list of
maps, or ``Generated`` where it also knows variants that there once were. It is called once a process.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.suite.declared import Case, Layer, Suite
from pytest_accel.suite.keys import value_text
from pytest_accel.suite.types import Generated

NONE = Generated(params=({},))


def generated(suite: Suite, case: Case, layer: Layer) -> Generated:
    """The arguments that the case's function gives; one empty map where it names none.

    Raises ConfigError, at the case's line, for a function that cannot be imported, that fails, or that returns something
    else, and for an argument that the case sets by itself too.
    """
    name = layer.params_from
    if name is None:
        return NONE

    def problem(what: str, mend: str) -> ConfigError:
        return ConfigError(Problem(f"case `{case.name}`: params_from `{name}` {what}", mend, suite.path, case.line))

    try:
        found = _called(name)
    except ConfigError as error:
        raise problem(f"says: {error.problems[0].what}", error.problems[0].mend) from None
    except (ImportError, AttributeError) as error:
        raise problem(f"cannot be imported: {error}", "name a function as package.module:function") from None
    except Exception as error:
        raise problem(f"failed: {type(error).__name__}: {error}", "mend the function; it takes no arguments") from error
    shape = "let it return a list of maps, such as [{'op': 'add'}]"
    if not isinstance(found, Generated):
        if not isinstance(found, Iterable) or isinstance(found, (str, bytes, Mapping)):
            raise problem(f"returned {type(found).__name__}, not a list of maps", shape)
        raise problem("returned something else than maps", shape)
    if not found.params:
        raise problem("names no variant, so that nothing would be asked for", "let it return at least one map")
    taken = {*layer.params, *layer.matrix, *layer.settings}
    for params in (*found.params, *(params for params, _ in found.gone)):
        both = sorted(taken & params.keys())
        if both:
            raise problem(
                f"gives `{both[0]}`, which the case sets too", "keep one of them: a name stands once in the key"
            )
        for key, value in params.items():
            try:
                value_text(value)
            except (TypeError, ValueError):
                raise problem(
                    f"gives `{key}` the value {value!r}, which is no JSON", "give a number, a word or a list"
                ) from None
    return found


@functools.lru_cache(maxsize=64)
def _called(name: str) -> object:
    """What the function returns; a list of maps as ``Generated``."""
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute)()
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes, Mapping, Generated)):
        maps = list(found)
        if all(isinstance(each, Mapping) and all(isinstance(key, str) for key in each) for each in maps):
            return Generated(maps)
        return maps
    return found
