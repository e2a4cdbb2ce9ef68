"""The one place that touches torch's private operator database. What it gives is plain: names, calls and samples."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.measure.types import BadArguments, Unmeasured
from pytest_accel.workloads.samples import Sample

if TYPE_CHECKING:
    import torch

SEED_BASE = 20000  # far from 0, which models' own code likes to use
ENOUGH = 60  # samples drawn at most before choosing: some entries have hundreds, and drawing is the costly part


@dataclass(frozen=True)
class Operator:
    """One entry of the database: ``call`` takes a sample's arguments; ``dtypes`` those that it declares for the CPU.

    ``plain`` is the second route to the same operator, as a program would write it (``x.add(y)`` for ``torch.add(x,
    y)``); None where there is only one.
    """

    name: str
    variant: str
    call: Callable[..., Any]
    dtypes: frozenset[torch.dtype]
    _entry: Any
    plain: Callable[..., Any] | None = None

    @property
    def full_name(self) -> str:
        """The name with its variant after a point, as the database writes it."""
        return f"{self.name}.{self.variant}" if self.variant else self.name

    def declared(self, backward: bool = False) -> frozenset[torch.dtype]:
        """The dtypes declared for any device that is named there; for gradients where ``backward`` is true."""
        entry = self._entry
        if backward and not entry.supports_autograd:
            return frozenset()
        base = "backward_dtypes" if backward else "dtypes"
        found = set(getattr(entry, base) or ())
        for name, value in vars(entry).items():
            if name.startswith(base + "If"):
                for kinds in value.values() if isinstance(value, dict) else (value,):
                    found |= set(kinds or ())
        if backward:
            found = {kind for kind in found if kind.is_floating_point or kind.is_complex}
        return frozenset(found)

    def samples(self, dtype: torch.dtype, seed: int, *, gradients: bool = False) -> Iterator[Sample]:
        """Sample inputs made on the CPU, each after its own seed, so that inserting one moves no other.

        With ``gradients`` those tensors require one that the database wants one for.
        """
        made = iter(self._entry.sample_inputs("cpu", dtype, requires_grad=gradients))
        for index in range(ENOUGH):
            seed_all(SEED_BASE + seed * ENOUGH + index)
            sample = next(made, None)
            if sample is None:
                return
            arguments = (sample.input, *sample.args), dict(sample.kwargs)
            if gradients:
                yield Sample(index, self.variant, *arguments, finish=sample.output_process_fn_grad)
            else:
                yield Sample(index, self.variant, *arguments)


def seed_all(value: int) -> None:
    """Seed every generator that the database draws from."""
    import torch

    random.seed(value)
    torch.manual_seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value)


def find(name: str, variant: str) -> list[Operator]:
    """The entries of operator ``name``: the one of this variant; where none is named, the plain one, else all variants.

    Raises Unmeasured where torch's testing package cannot be imported, BadArguments for a name that it does not hold.
    """
    entries = [entry for entry in database() if entry.name == name]
    if not entries:
        raise BadArguments(
            f"op: torch's operator database holds no '{name}'; names are as in op_db ('nn.functional.silu')"
        )
    chosen = [entry for entry in entries if entry.variant_test_name == variant]
    if not chosen and variant:
        known = ", ".join(sorted(repr(entry.variant_test_name) for entry in entries))
        raise BadArguments(f"variant: '{name}' has no variant '{variant}'; it has {known}")
    return [operator_of(entry) for entry in chosen or entries]


def operator_of(entry: Any) -> Operator:
    """An entry of the database as this package sees it."""
    plain = entry.method_variant
    if plain is entry.op:
        plain = None
    return Operator(entry.name, entry.variant_test_name, entry.op, frozenset(entry.dtypes), entry, plain)


def database() -> Sequence[Any]:
    """All entries of torch's operator database. Raises Unmeasured where torch's testing package cannot be imported."""
    import torch

    # Importing torch's test helpers freezes the flags of torch.backends for the whole process, and the variants that
    # are measured after this one could no longer pin their settings.
    freeze = torch.backends.disable_global_flags
    torch.backends.disable_global_flags = lambda: None
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        missing = error.name or "a module"
        raise Unmeasured(
            f"torch's operator database cannot be imported, {missing} is missing: pip install 'pytest-accel[operators]'"
        ) from error
    finally:
        torch.backends.disable_global_flags = freeze
    return op_db  # type: ignore[no-any-return]
