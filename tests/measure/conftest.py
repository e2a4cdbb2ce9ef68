"""A platform of the tests' own: the CPU with a clock that the test sets, so that every fault of a clock can be shown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_accel.measure.accelerator import Accelerator
from pytest_accel.stack.types import Roof, Stack


@dataclass
class FakeEvent:
    read: Callable[[], float]
    at: float = 0.0

    def record(self) -> None:
        self.at = self.read()

    def elapsed_ms(self, later: FakeEvent) -> float:
        return (later.at - self.at) * 1e3


@dataclass
class FakePlatform:
    """``read`` is the clock in seconds; ``cache`` the last-level cache in bytes; ``graphs``: a replay calls the work again."""

    name: str = "fake"
    device_type: str = "cpu"
    visible_env: tuple[str, ...] = ()
    collective_backend: str = "gloo"
    settings_allowed: Mapping[str, type] = field(default_factory=dict)
    read: Callable[[], float] = time.perf_counter
    known_roof: Roof | None = None
    cache: int = 0
    may_vary: frozenset[str] = frozenset()
    graphs: bool = False

    def roof(self, device: Any) -> Roof | None:
        return self.known_roof

    def classify(self, text: str) -> str:
        return "unsupported" if "not implemented for" in text else "oom" if "out of memory" in text else "other"

    def torch_device(self, index: int) -> Any:
        import torch

        return torch.device("cpu")

    def settings(self) -> dict[str, Any]:
        return {}

    @contextlib.contextmanager
    def pinned(self, settings: Mapping[str, Any]) -> Iterator[None]:
        yield

    def synchronize(self, index: int) -> None:
        pass

    def event(self) -> FakeEvent:
        return FakeEvent(self.read)

    def graph(self, index: int, fn: Callable[[], object]) -> Callable[[], object] | None:
        return fn if self.graphs else None

    def memory(self, index: int) -> dict[str, int]:
        return {}

    def reset_peak_memory(self, index: int) -> None:
        pass

    def seed(self, value: int) -> None:
        import torch

        torch.manual_seed(value)

    def cache_bytes(self, index: int) -> int:
        return self.cache


@pytest.fixture
def fake_platform() -> FakePlatform:
    return FakePlatform()


@pytest.fixture
def make_accelerator(fake_platform: FakePlatform) -> Callable[..., Accelerator]:
    def make(**keywords: Any) -> Accelerator:
        return Accelerator(fake_platform, 0, Stack("fake"), **keywords)  # type: ignore[arg-type]

    return make
