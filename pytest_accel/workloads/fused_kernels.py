"""Fused kernels of other packages, each against the plain formula: declared in a suite, nothing of them is known here.

``implementation: package.module:function`` with ``arguments`` in which ``$name`` stands for an input of the formula and all
else for itself. torch is imported inside.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads import fused_formulas
from pytest_accel.workloads.judging import Case, Judged, judge, note_fault

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator


def fused_kernel(
    accel: Accelerator,
    implementation: str,
    formula: str,
    dtype: str,
    arguments: list[Any] | None = None,
    keywords: dict[str, Any] | None = None,
    shape: dict[str, Any] | None = None,
    construct: list[Any] | None = None,
    state: dict[str, str] | None = None,
    result: int | None = None,
    in_place: str = "",
    backward: list[str] | None = None,
    seed: int = 0,
) -> dict[str, float | int | str]:
    """Judge one kernel against ``formula`` in float64.

    ``arguments`` and ``keywords`` are the call's; ``shape`` the formula's sizes and flags. ``result`` picks from a
    tuple; ``in_place: $x`` says that the result is what the call leaves in x. ``construct`` makes an object first
    (``RMSNorm(4096)``), on the device and in ``dtype``, whose parameters ``state`` fills from inputs, and calls it.
    ``backward`` names inputs whose gradients are judged instead.

    A package that is not there is UNMEASURED (give the case ``requires: {package: …}`` where it may be absent); one
    that lacks the function is ``unsupported``; one that cannot be loaded raises ImportError.
    """
    import torch

    plan = fused_formulas.formula(formula, dtype, shape or {}, seed)
    try:
        function = find(implementation)
    except NotImplementedError as error:
        return _told(accel, Judged("unsupported", str(error)), implementation)
    leaves = list(backward or ())
    unknown = [name for name in leaves if not isinstance(plan.inputs.get(name), torch.Tensor)]
    if unknown:
        raise BadArguments(
            f"backward: '{unknown[0]}' is no tensor among the formula's inputs: {', '.join(plan.inputs)}"
        )
    probe = torch.Generator().manual_seed(seed + 99)

    def toward(out: torch.Tensor) -> torch.Tensor:
        probe.manual_seed(seed + 99)
        return torch.randn(out.shape, generator=probe).to(out)

    def finish(out: torch.Tensor, given: Mapping[str, Any]) -> list[torch.Tensor]:
        if not leaves:
            return [out]
        return list(torch.autograd.grad(out, [given[name] for name in leaves], toward(out)))

    def run() -> list[torch.Tensor]:
        given = {name: _there(value, accel, name in leaves) for name, value in plan.inputs.items()}
        call = function
        if construct is not None:
            call = _built(function, _filled(construct, given), state or {}, given, accel, dtype)
        returned = call(*_filled(arguments or [], given), **_filled(keywords or {}, given))
        out = _filled(in_place, given) if in_place else returned if result is None else returned[result]
        if not isinstance(out, torch.Tensor):
            raise BadArguments(f"result: {implementation} gives {type(out).__name__}; say which item with `result: 0`")
        return finish(out, given)

    def cast(kind: torch.dtype) -> dict[str, Any]:
        def one(name: str, value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            return value.to(kind).requires_grad_(name in leaves)

        return {name: one(name, value) for name, value in plan.inputs.items()}

    def compute(kind: torch.dtype) -> list[torch.Tensor]:
        given = cast(kind)
        return finish(plan.compute(given), given)

    rule = replace(plan.rule, condition="peak", kappa=1.0) if leaves else plan.rule
    size = plan.magnitude

    def magnitude() -> Sequence[torch.Tensor | None]:
        return [None] * len(leaves) if leaves else [None if size is None else size(cast(torch.float64))]

    found = judge(accel, Case(run, compute, rule, magnitude, native=bool(leaves), vary=bool(leaves)))
    return _told(accel, found, implementation, dtype=dtype, shape=dict(shape or {}))


def find(implementation: str) -> Any:
    """What ``package.module:name`` names.

    Raises Unmeasured where the package is not installed, NotImplementedError where it has no such module or name, and
    ImportError where it is there and cannot be loaded.
    """
    module, colon, attribute = implementation.partition(":")
    if not colon or not attribute:
        raise BadArguments(f"implementation: must be package.module:function, not '{implementation}'")
    package = module.partition(".")[0]
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == package:
            raise Unmeasured(
                f"the package {package} is not installed; `requires: {{package: {package}}}` says so"
            ) from None
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise NotImplementedError(f"this {package} has no module {error.name}") from None
        raise
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise NotImplementedError(f"this {package} has no {module}:{attribute}")
        found = getattr(found, part)
    return found


def _there(value: Any, accel: Accelerator, leaf: bool) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    # A copy, also where the device is the host: a kernel that writes into its input must not change the golden one.
    return value.detach().clone().to(accel.device).requires_grad_(leaf)


def _filled(tree: Any, given: Mapping[str, Any]) -> Any:
    """``tree`` with each text ``$name`` replaced by that input. Raises BadArguments for one that there is none of."""
    if isinstance(tree, str) and tree.startswith("$"):
        if tree[1:] not in given:
            raise BadArguments(f"'{tree}': the formula has no such input; it has {', '.join(given)}")
        return given[tree[1:]]
    if isinstance(tree, Mapping):
        return {key: _filled(value, given) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_filled(value, given) for value in tree]
    return tree


def _built(
    kind: Any,
    arguments: Sequence[Any],
    state: Mapping[str, str],
    given: Mapping[str, Any],
    accel: Accelerator,
    dtype: str,
) -> Any:
    """An object (a torch module, say) made of ``arguments``, with its parameters filled from inputs."""
    import torch

    from pytest_accel.workloads.inputs import torch_dtype

    made = kind(*arguments).to(device=accel.device, dtype=torch_dtype(dtype))
    with torch.no_grad():
        for name, source in state.items():
            getattr(made, name).copy_(_filled(source, given))
    return made


def _told(accel: Accelerator, found: Judged, implementation: str, **facts: Any) -> dict[str, float | int | str]:
    note_fault(accel, found, implementation=implementation, **facts)
    return found.metrics()
