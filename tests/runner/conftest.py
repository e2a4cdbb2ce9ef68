"""Real measuring processes on a made-up device: a platform and a torch of a few lines, so that starting one takes no second."""

from __future__ import annotations

import os
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.runner.runner import Runner
from pytest_accel.runner.types import Request

FAKES = """
import os, sys, types, contextlib
from pathlib import Path

folder = Path(os.environ["FAKE_ACCEL"])
torch = types.ModuleType("torch")
torch.__version__ = "2.0-fake"
torch.poisoned = False
torch.flag = False

class Fake:
    name = device_type = "cpu"
    visible_env = ()
    settings_allowed = {"flag": bool}
    def check(self, index):
        (folder / "checks").open("a").write("x")
        if torch.poisoned or (folder / "lost").exists():
            raise RuntimeError("driver says: no device\\nadvice of the driver's, paragraph upon paragraph" * 9)
        if (folder / "dies").exists():
            os._exit(3)
        if (folder / "slow").exists():
            import time
            time.sleep(60)
    def settings(self):
        return {"flag": torch.flag}
    @contextlib.contextmanager
    def pinned(self, settings):
        before = torch.flag
        torch.flag = settings.get("flag", before)
        try:
            yield
        finally:
            if settings:
                torch.flag = before
    def synchronize(self, index):
        if torch.poisoned == "later":
            raise RuntimeError("asynchronous error")
    def seed(self, value): pass
    def classify(self, text):
        return "unsupported" if "not implemented" in text else "other"

def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made

def loaded_stack(platform, index, part):
    from pytest_accel.stack.types import Stack
    return Stack("cpu", part.get("hardware", {}), {"flag": torch.flag}, {"torch": torch.__version__})

module("pytest_accel.stack.registry", platform=lambda name: Fake())
module("pytest_accel.stack.loaded", loaded_stack=loaded_stack)
if (folder / "no-torch").exists():
    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name == "torch":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")
    sys.meta_path.insert(0, Hidden())
else:
    sys.modules["torch"] = torch
"""


class Bench:
    """Makes workloads and runners, and finds every process that came of them (all carry a mark in their environment)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"accel-test-{uuid.uuid4().hex}"
        (folder / "fakes").mkdir()
        (folder / "fakes" / "sitecustomize.py").write_text(FAKES, encoding="utf-8")
        self.env = {
            "PYTHONPATH": str(folder / "fakes"),
            "FAKE_ACCEL": str(folder),
            "ACCEL_TEST_MARK": self.mark,
        }
        self.runners: list[Runner] = []
        self.module = f"work_{uuid.uuid4().hex[:8]}"

    def work(self, source: str) -> None:
        """Write the module of workloads that ``request`` names."""
        (self.folder / f"{self.module}.py").write_text(textwrap.dedent(source), encoding="utf-8")

    def request(self, name: str, timeout: float = 20.0, setup: str | None = None, **params: Any) -> Request:
        setup = f"{self.module}:{setup}" if setup else None
        return Request(name, f"{self.module}:{name}", params, {}, timeout, setup)

    def runner(self, **more: Any) -> Runner:
        made = Runner("cpu", 0, env={**self.env, **more.pop("env", {})}, **more)
        self.runners.append(made)
        return made

    def processes(self) -> list[int]:
        """Processes (no zombies) that carry the mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def soon_gone(self, seconds: float = 5.0) -> bool:
        return eventually(lambda: not self.processes(), seconds)


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Bench(tmp_path)
    yield made
    for runner in made.runners:
        runner.close()
    assert made.soon_gone(), f"processes left behind: {made.processes()}"
