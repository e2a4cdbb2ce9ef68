"""The measuring process of this pytest process, and the locks on the physical devices that it measures on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel.locks import DeviceLock

if TYPE_CHECKING:
    from pytest_accel.gate.context import Gate
    from pytest_accel.gate.items import AccelItem
    from pytest_accel.gate.lanes import Lanes
    from pytest_accel.runner.runner import Runner
    from pytest_accel.runner.types import Request


class Devices:
    """One measuring process at a time: on this worker's device, or, for a variant of several devices, on all of the host's."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._wide = False
        self._held: list[DeviceLock] = []
        self.runner: Runner | None = None
        self.lanes: Lanes | None = None

    def open_lanes(self, items: Sequence[AccelItem], request_of: Callable[[AccelItem], Request]) -> bool:
        """Measure these items in several processes, where that is worth it; False where one process shall do."""
        from pytest_accel.gate.lanes import Lanes, how_many

        count = how_many(self._gate, len(items))
        if count < 2:
            return False
        self.unlock()
        self.lanes = Lanes(
            self._gate, items, [self.start(), *(self._runner(False) for _ in range(count - 1))], request_of
        )
        return True

    def close_lanes(self) -> None:
        """Stop measuring ahead, and end the processes that only the lanes had."""
        if self.lanes is not None:
            lanes, self.lanes = self.lanes, None
            lanes.close()

    def start(self, wide: bool = False) -> Runner:
        """The runner; its measuring process starts now and is awaited at its first variant."""
        if self.runner is not None and wide != self._wide:
            self.runner.close()
            self.runner = None
        if self.runner is None:
            self._wide = wide
            self.runner = self._runner(wide)
            self.runner.prestart()
        return self.runner

    def _runner(self, wide: bool) -> Runner:
        from pytest_accel.gate.workers import device_environment, measuring_environment
        from pytest_accel.runner.runner import Runner
        from pytest_accel.stack.common import RUN_MARK

        gate = self._gate
        return Runner(
            gate.machine.platform,
            0,
            probe_part=self.probe_part(),
            env={RUN_MARK: gate.run.id, **measuring_environment(gate), **({} if wide else device_environment(gate))},
            device=gate.device,
            surroundings=gate.surroundings,
        )

    def probe_part(self) -> dict[str, Mapping[str, Any]]:
        """What the probe knows of the stack, for the measuring process to complete."""
        probe = self._gate.machine.probe
        return {"hardware": dict(probe.hardware), "settings": dict(probe.settings), "versions": dict(probe.versions)}

    def lock(self, *, exclusive: bool, wide: bool = False) -> bool:
        """Lock this worker's device, or all of them, against other runs on this machine; False after ``accel_lock_wait``.

        All are taken in one order, so that two runs that want several cannot wait for each other.
        """
        self.unlock()
        deadline = time.monotonic() + self._gate.options.lock_wait
        for name in self._names(wide):
            lock = DeviceLock(name)
            if not lock.acquire(exclusive=exclusive, timeout=max(deadline - time.monotonic(), 0.0)):
                self.unlock()
                return False
            self._held.append(lock)
        return True

    def _names(self, wide: bool) -> list[str]:
        gate = self._gate
        devices = gate.machine.probe.devices if wide else ()
        return sorted({device.identity for device in devices if device.identity}) or [gate.device_identity()]

    def unlock(self) -> None:
        """Give the locks back."""
        while self._held:
            self._held.pop().release()

    def close(self) -> None:
        """End the measuring processes and give the locks back."""
        self.close_lanes()
        if self.runner is not None:
            self.runner.close()
            self.runner = None
        self.unlock()
