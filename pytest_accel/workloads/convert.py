"""A model before and after its conversion to another engine, on the same inputs. torch is imported inside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import accuracy
from pytest_accel.measure.tolerances_precision import CONVERTED
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads.catalog.shared import STATUS
from pytest_accel.workloads.rope_apply import loaded

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator


def convert_check(accel: Accelerator, before: str, after: str, inputs: str = "") -> dict[str, float | int | str]:
    """Run ``before`` and ``after`` on the device with the same inputs and compare all their outputs.

    Each is ``package.module:callable`` or the path of an exported (``.pt2``) or scripted (``.pt``, ``.ts``) model. ``inputs``
    is ``package.module:function``, which returns a tuple of CPU tensors; an exported model's own example inputs serve where
    it is not given. Golden is ``before`` in float64 on the host where it can be computed so, else ``before``'s own result on
    the device (``golden`` says which). Metrics: ``status`` by the accuracy rule, ``max_abs`` (the largest absolute difference
    between the two on the device; its limit of 1e-3 is set by the suite), ``max_ulp``, ``rms_ulp``, ``nonfinite``,
    ``cosine``, ``max_relative``. Raises BadArguments for what cannot be loaded or gives other outputs.
    """
    first, examples = _model(before)
    second, _ = _model(after)
    given = _inputs(inputs, examples)
    on_device = [_moved(item, accel) for item in given]
    old = _outputs(_placed(first, accel), on_device)
    new = _outputs(_placed(second, accel), on_device)
    accel.synchronize()
    if len(old) != len(new):
        raise BadArguments(f"before gives {len(old)} outputs, after gives {len(new)}: nothing can be compared")
    golden = _golden(first, given)
    word, metrics = "supported", {"max_abs": 0.0, "max_ulp": 0.0, "rms_ulp": 0.0, "nonfinite": 0}
    cosine, relative = 1.0, 0.0
    for i, (a, b) in enumerate(zip(old, new, strict=True)):
        if a.shape != b.shape:
            raise BadArguments(f"output {i}: before gives shape {list(a.shape)}, after gives {list(b.shape)}")
        a, b = a.cpu(), b.cpu()
        exact = golden[i] if golden else a.double() if a.is_floating_point() else a
        found = accuracy.compare(b, exact, a if a.is_floating_point() else None, rule=CONVERTED)
        if STATUS.index(found.word) > STATUS.index(word):
            word = found.word
            accel.note("worst", {"output": i, "reason": found.reason, "element": found.worst})
        difference = (a.double() - b.double()).abs().nan_to_num(nan=0.0)
        metrics["max_abs"] = max(metrics["max_abs"], float(difference.max()) if difference.numel() else 0.0)
        metrics["max_ulp"] = max(metrics["max_ulp"], found.max_ulp)
        metrics["rms_ulp"] = max(metrics["rms_ulp"], found.rms_ulp)
        metrics["nonfinite"] += found.nonfinite + found.saturated
        if b.is_floating_point():
            near, far = accuracy.for_readers(b, exact)
            cosine, relative = min(cosine, near), max(relative, far)
    extra = {"cosine": cosine, "max_relative": relative, "golden": "float64" if golden else "before"}
    return {"status": word, **metrics, **extra}


def _model(name: str) -> tuple[Callable[..., Any], Sequence[Any] | None]:
    """The callable, and an exported model's example inputs."""
    import torch

    path = Path(name)
    if path.suffix not in (".pt2", ".pt", ".ts"):
        return loaded(name), None
    if not path.is_file():
        raise BadArguments(f"'{name}': no such file (paths are relative to where pytest was called)")
    if path.suffix == ".pt2":
        program = torch.export.load(name)
        examples = program.example_inputs
        return program.module(), examples[0] if examples else None
    return torch.jit.load(name, map_location="cpu"), None


def _inputs(name: str, examples: Sequence[Any] | None) -> Sequence[Any]:
    if name:
        made = loaded(name)()
        if not isinstance(made, (tuple, list)) or not made:
            raise BadArguments(f"inputs: '{name}' must return a tuple of tensors, not {type(made).__name__}")
        return made
    if examples is None:
        raise BadArguments("inputs: give package.module:function, which returns a tuple of tensors")
    return examples


def _moved(item: Any, accel: Accelerator) -> Any:
    return item.detach().to(accel.device) if hasattr(item, "detach") else item


def _placed(model: Any, accel: Accelerator) -> Callable[..., Any]:
    """A copy of a module on the device; a function as it is."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return model  # type: ignore[no-any-return]
    return copy.deepcopy(model).to(accel.device)  # type: ignore[no-any-return]


def _outputs(model: Callable[..., Any], inputs: Sequence[Any]) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        found = model(*inputs)
    return [leaf.detach() for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]


def _golden(model: Any, inputs: Sequence[Any]) -> list[torch.Tensor] | None:
    """``before`` in float64 on the host; None where it does not compute in float64."""
    import torch

    wide = [
        item.double() if hasattr(item, "is_floating_point") and item.is_floating_point() else item for item in inputs
    ]
    if isinstance(model, torch.nn.Module):
        model = copy.deepcopy(model).double()
    try:
        found = accuracy.twice(lambda: _outputs(model, wide))
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # an engine of fixed dtypes: its own result is the reference then, and `golden` says so
    usable = all(t.dtype == torch.float64 or not t.is_floating_point() for t in found)
    return found if usable else None
