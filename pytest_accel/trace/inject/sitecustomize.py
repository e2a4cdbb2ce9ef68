"""Python imports this at start where ``pytest-accel trace`` put its folder on PYTHONPATH: it starts the recorder with torch.

It must work in any interpreter, also one without pytest-accel, so it uses the standard library alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _WhenTorchComes:
    """A finder that lets torch load as usual and then starts the recorder."""

    busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of torch the usual spec, whose loader starts the recorder afterwards; of all else nothing."""
        if name != "torch" or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self.busy = False
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            recorder = _load("_accel_trace_recorder", os.path.join(os.path.dirname(HERE), "recorder.py"))
            recorder.start(os.environ["PYTEST_ACCEL_TRACE"])

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _go_on() -> None:
    """Run the sitecustomize that this one stands in front of, where there is one."""
    for folder in sys.path:
        path = os.path.join(folder, "sitecustomize.py")
        if os.path.abspath(folder) != HERE and os.path.isfile(path):
            _load("sitecustomize", path)
            return


if os.environ.get("PYTEST_ACCEL_TRACE"):
    sys.meta_path.insert(0, _WhenTorchComes())
_go_on()
