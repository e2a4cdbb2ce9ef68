"""The device under test: chosen as the gate chooses it, locked as the gate locks it, measured in the gate's own processes."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.locks import DeviceLock
from pytest_accel.runner.runner import Runner
from pytest_accel.runner.types import Measurement, Request
from pytest_accel.selftest.run import Unfit
from pytest_accel.stack.choose import choose
from pytest_accel.stack.host import Host
from pytest_accel.stack.registry import HOST_PLATFORM, names

if TYPE_CHECKING:
    from typing_extensions import Self


class Bench:
    """A context manager that holds one device. Raises Unfit where there is none that may be judged, ConfigError for a name."""

    def __init__(self, accel: str, lock_wait: float) -> None:
        if accel not in ("auto", *names()):
            raise ConfigError(Problem(f"--accel: `{accel}` is not one of auto, {', '.join(names())}"))
        machine = choose(accel, Host(), None)
        if machine.unfit is not None:
            raise Unfit(*machine.unfit)
        probe = machine.probe
        device = probe.devices[0]
        self.on_host = machine.platform == HOST_PLATFORM
        self._lock_wait = lock_wait
        self._name = device.identity or machine.machine_id
        self._held: DeviceLock | None = None
        self._exclusive = False
        parts = {"hardware": dict(probe.hardware), "settings": dict(probe.settings), "versions": dict(probe.versions)}
        self._runner = Runner(machine.platform, 0, probe_part=parts, device=None if self.on_host else device)
        self.where = {"platform": machine.platform, "device": device.name, "torch": "", "driver": ""}

    def measure(self, request: Request, fresh: bool) -> Measurement:
        """Measure with a shared lock on the device."""
        return self._measure(request, fresh, exclusive=False)

    def timed(self, request: Request, fresh: bool) -> Measurement:
        """Measure with the device to itself."""
        return self._measure(request, fresh, exclusive=True)

    def _measure(self, request: Request, fresh: bool, exclusive: bool) -> Measurement:
        if self._held is None or self._exclusive != exclusive:
            self._release()
            lock = DeviceLock(self._name)
            if not lock.acquire(exclusive=exclusive, timeout=self._lock_wait):
                raise Unfit("device-busy", f"another run held the device for more than {self._lock_wait:g} s")
            self._held, self._exclusive = lock, exclusive
        found = self._runner.measure(request, fresh=fresh)
        versions = found.stack.get("versions", {})
        self.where["torch"] = str(versions.get("torch") or self.where["torch"])
        self.where["driver"] = str(versions.get("driver") or self.where["driver"])
        return found

    def _release(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()
        self._release()
