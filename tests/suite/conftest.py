"""One way to load a suite from its text, and to hear what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.suite.expand import expand
from pytest_accel.suite.load import load_suite

HEAD = "schema: pytest-accel/suite/1\ncases:\n"
PLATFORMS = ("cuda", "rocm", "ascend", "cpu")
SETTINGS: dict[str, type] = {"allow_tf32": bool, "overflow_mode": str, "power_limit": float, "threads": int}


class Suites:
    """Writes suite files into a folder and loads them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s.accel.yaml"

    def load(self, text: str | bytes) -> Any:
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return load_suite(self.path, platforms=PLATFORMS, settings_known=SETTINGS)

    def variants(self, cases: str, platform: str = "cpu") -> list[Any]:
        return expand(self.load(HEAD + cases), platform)

    def params(self, params: str) -> dict[str, Any]:
        (variant,) = self.variants(f"- name: a\n  workload: w\n  params: {params}\n")
        return dict(variant.params)

    def wrong(self, text: str | bytes) -> list[str]:
        """The problems of a whole file, without its folder."""
        with pytest.raises(ConfigError) as caught:
            expand(self.load(text), "cpu")
        assert all(problem.mend for problem in caught.value.problems), "every message says how to mend it"
        return [str(problem).replace(str(self.path.parent) + "/", "") for problem in caught.value.problems]

    def wrong_cases(self, cases: str) -> list[str]:
        return self.wrong(HEAD + cases)


@pytest.fixture
def suites(tmp_path: Path) -> Suites:
    return Suites(tmp_path)


@pytest.fixture
def one_problem(suites: Suites) -> Callable[[str], str]:
    """The only problem of a file with these cases."""

    def ask(cases: str) -> str:
        (problem,) = suites.wrong_cases(cases)
        return problem

    return ask
