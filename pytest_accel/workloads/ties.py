"""Results that may lawfully differ: places (sort, topk, argmax), where a tie may be broken either way, and quotients
rounded to whole numbers, where a quotient next to a whole number may be rounded before it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from pytest_accel.workloads.samples import Sample

    Pair = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]

#: Which results are places into the input along ``dim``: (position among the results, default dim; None: flattened).
PLACES: dict[str, tuple[int, int | None]] = {
    "sort": (1, -1),
    "topk": (1, -1),
    "argsort": (0, -1),
    "argmax": (0, None),
    "argmin": (0, None),
    "max": (1, None),
    "min": (1, None),
    "kthvalue": (1, -1),
    "median": (1, None),
    "nanmedian": (1, None),
    "mode": (1, -1),
    "cummax": (1, None),
    "cummin": (1, None),
    "msort": (-1, None),
}
_DIM_POSITION = {
    "sort": 1,
    "argsort": 1,
    "argmax": 1,
    "argmin": 1,
    "max": 1,
    "min": 1,
    "topk": 2,
    "kthvalue": 2,
    "median": 1,
    "nanmedian": 1,
    "mode": 1,
    "cummax": 1,
    "cummin": 1,
}


def comparable(
    name: str,
    sample: Sample,
    result: list[torch.Tensor],
    golden: list[torch.Tensor],
    reference: list[torch.Tensor] | None,
    scale: Sequence[torch.Tensor | None] | None,
) -> list[Pair]:
    """Pair each result (on the CPU) with its golden, reference and magnitude; places become the values at them."""
    pairs: list[Pair] = []
    place, default = PLACES.get(name, (-1, None))
    for i, (y, g) in enumerate(zip(result, golden, strict=False)):
        y = y.cpu()
        if i == place and y.shape == g.shape and not y.is_floating_point():
            y, g = values_at(name, sample, y, default), values_at(name, sample, g, default)
            pairs.append((y, g.double() if g.is_floating_point() else g, None, None))
            continue
        if name in ("div", "floor_divide") and y.is_floating_point():
            y = settled(sample, y, g)
        r = reference[i] if reference is not None and len(reference) == len(result) else None
        s = scale[i] if scale is not None and len(scale) == len(result) else None
        usable = r is not None and r.shape == g.shape
        pairs.append((y, g, r if usable else None, s if s is not None and s.shape == g.shape else None))
    if name == "topk" and len(pairs) == 2 and not _argument(sample, "sorted", 4, True):
        dim = _argument(sample, "dim", 2, -1)
        pairs = [
            (y.sort(dim).values, g.sort(dim).values, None, None) if y.dim() else (y, g, r, s) for y, g, r, s in pairs
        ]
    return pairs


def settled(sample: Sample, y: torch.Tensor, golden: torch.Tensor) -> torch.Tensor:
    """``y`` with the golden value where it is one off and the exact quotient is within an ulp of a whole number."""
    import torch

    if (
        sample.kwargs.get("rounding_mode", "floor") is None
        or len(sample.args) < 2
        or "rounding_mode" not in sample.kwargs
    ):
        return y
    above, below = (torch.as_tensor(part).double() for part in sample.args[:2])
    quotient = above / below
    near = (quotient - quotient.round()).abs() <= torch.finfo(y.dtype).eps * quotient.abs()
    # One whole step, plus the rounding of the whole number itself to the dtype.
    off = (y.double() - golden).abs() <= 1 + torch.finfo(y.dtype).eps * golden.abs()
    return torch.where(near & off & y.isfinite(), golden.to(y.dtype), y)


def values_at(name: str, sample: Sample, places: torch.Tensor, default: int | None) -> torch.Tensor:
    """The input's values at ``places``; a place outside the input gives NaN, which no golden value equals."""
    import torch

    source = sample.args[0].detach().cpu()
    dim = _argument(sample, "dim", _DIM_POSITION.get(name, 1), default)
    if source.dim() == 0:
        return source.expand(places.shape) if bool((places == 0).all()) else torch.full(places.shape, float("nan"))
    if dim is None:
        flat = source.flatten()
        inside = (places >= 0) & (places < flat.numel())
        taken = flat[places.clamp(0, flat.numel() - 1)]
    else:
        index = places if places.dim() == source.dim() else places.unsqueeze(dim)
        inside = (places >= 0) & (places < source.size(dim))
        taken = torch.take_along_dim(source, index.clamp(0, source.size(dim) - 1), dim).reshape(places.shape)
    return taken if bool(inside.all()) else torch.where(inside, taken.float(), torch.tensor(float("nan")))


def _argument(sample: Sample, name: str, position: int, default: Any) -> Any:
    if name in sample.kwargs:
        return sample.kwargs[name]
    return sample.args[position] if len(sample.args) > position else default
