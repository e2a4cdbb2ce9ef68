"""The accelerator as a workload or a Python test sees it: device, clock, memory, seeds, notes (torch is imported late)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pytest_accel.measure.clock import Clock, Plan
from pytest_accel.measure.fallback import on_host
from pytest_accel.measure.host import first_call, launch_us
from pytest_accel.measure.kernels import kernels_of
from pytest_accel.measure.types import RanOnHost, Unfit, Unmeasured
from pytest_accel.measure.watch import Watch
from pytest_accel.stack.platform import DeviceEvent, Platform
from pytest_accel.stack.types import Device, Roof, Stack, Telemetry

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
ABOVE_ROOF = 1.10  # boost clocks may pass a data sheet by some per cent; 10 % above is a broken clock or missing work
FLUSH_CACHES = 2  # the flush writes twice the last-level cache, so that a hashed cache is replaced as well
FLUSH_LIMIT = 512 * 2**20
CACHE_BOUND = 4  # bytes that are fewer than 4 caches may be absorbed by the cache: no bandwidth can be told from them


class Accelerator:
    """One device of one platform. The first argument of every workload, and the fixture ``accel`` of Python tests.

    ``platform`` is the platform's word, ``stack`` the stack as in force, ``notes`` facts for reports. ``watch``
    returns the device's telemetry, taken before, during and after each timing; ``stderr_text`` returns all that this process
    has written to its standard error so far (None where nobody keeps it).
    """

    def __init__(
        self,
        platform: Platform,
        index: int,
        stack: Stack,
        *,
        roof: Roof | None = None,
        watch: Callable[[], Telemetry] | None = None,
        stderr_text: Callable[[], str] | None = None,
        crumb: Callable[[str], None] | None = None,
    ) -> None:
        self._platform = platform
        self._crumb = crumb
        self.index = index
        self.stack = stack
        self.watch = Watch(watch) if watch is not None else None
        self.stderr_text = stderr_text
        self._roof = roof
        self._device: torch.device | None = None
        self._flush: torch.Tensor | None = None
        self.notes: dict[str, Any] = {}

    @property
    def platform(self) -> str:
        """The platform's word: ``cuda``, ``rocm``, …"""
        return self._platform.name

    @property
    def device(self) -> torch.device:
        """The torch device; torch is imported on first use."""
        if self._device is None:
            self._device = self._platform.torch_device(self.index)
        return self._device

    @property
    def roof(self) -> Roof | None:
        """The most the device can do, or None where no table knows it."""
        if self._roof is None:
            words = {key: self.stack.hardware.get(key) for key in ("name", "architecture", "partition")}
            name, architecture, partition = (None if value is None else str(value) for value in words.values())
            self._roof = self._platform.roof(
                Device(self.index, name or "", architecture=architecture, partition=partition)
            )
        return self._roof

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        self._platform.synchronize(self.index)

    def seed(self, value: int) -> None:
        """Seed the host's and the device's generators."""
        self._platform.seed(value)

    def memory(self) -> dict[str, int]:
        """Bytes: ``allocated``, ``peak_allocated``, ``reserved``, ``peak_reserved``; empty where torch counts none."""
        return self._platform.memory(self.index)

    def reset_peak_memory(self) -> None:
        """Start the peak counts anew."""
        self._platform.reset_peak_memory(self.index)

    def time(
        self,
        fn: Callable[[], object],
        *,
        flops: float | None = None,
        bytes: float | None = None,
        dtype: str | None = None,
        min_time: float = 0.3,
        min_samples: int = 15,
        max_time: float = 4.0,
        flush_cache: bool = True,
    ) -> list[float]:
        """Time finished device work: microseconds a call, one number a sample (at least 3, usually ``min_samples``).

        ``flops`` and ``bytes`` are the work of one call, ``dtype`` names the arithmetic (``float16``): where they
        imply more than 110 % of the device's roof the clock is not to be believed. ``min_time`` and ``max_time`` are
        in seconds. A call shorter than 10 clock steps is timed several at a time, the cache being flushed before each
        sample only. Samples are taken in short bursts with pauses, below the device's power limit, and the host queues
        them ahead. Raises Unfit: ``timing-not-credible``, ``throttled`` or ``shared``, and RanOnHost where the work falls
        back to the host (a fast host is no record of the device).
        """
        warned = on_host(fn, self.classify, self.stderr_text)
        if warned is not None:
            raise RanOnHost(f"work to be timed runs on the host: {warned}")
        watch, flush = self.watch, self.flusher()
        if watch is not None:
            watch.before()
        clock = Clock(
            self._platform.event,
            self.synchronize,
            flush if flush_cache else None,
            hold=flush,
            meanwhile=watch.during if watch is not None else None,
        )
        samples = clock.sample(fn, Plan(min_time=min_time, min_samples=min_samples, max_time=max(max_time, min_time)))
        if watch is not None:
            watch.after()
            seen = watch.summary()
            if seen:
                self.note("telemetry", seen)
        self._check_credible(sorted(samples)[len(samples) // 2], flops, bytes, dtype)
        return samples

    def first(self, fn: Callable[[], T]) -> tuple[T, float]:
        """What ``fn`` returns, and the microseconds of this call to its end: cold, where nothing called it before."""
        return first_call(fn, self.synchronize)

    def launch_us(self, fn: Callable[[], object], call_us: float) -> float | None:
        """Microseconds that the host takes to launch ``fn`` (warm, ``call_us`` on the device).

        None where the host is the device: launching the work is doing it.
        """
        return None if self.device.type == "cpu" else launch_us(fn, self.synchronize, call_us)

    def kernels(self, fn: Callable[[], object]) -> str:
        """The names of the kernels that ``fn`` runs (operators where no profiler sees the device), as one word."""
        return kernels_of(fn, self.device.type, self.synchronize)

    def graph(self, fn: Callable[[], object]) -> Callable[[], object] | None:
        """Capture ``fn`` and return what replays it in one launch; None where the platform has no graphs.

        Raises RuntimeError where its work cannot be captured.
        """
        return self._platform.graph(self.index, fn)

    def devices(self) -> list[torch.device]:
        """All devices of this kind that the process sees, this one among them."""
        import torch

        count = 1 if self.device.type == "cpu" else int(torch.get_device_module(self.device.type).device_count())
        return [torch.device(self.device.type, index) for index in range(count)] if count > 1 else [self.device]

    def event(self) -> DeviceEvent:
        """An event of the device's clock."""
        return self._platform.event()

    def flusher(self) -> Callable[[], object] | None:
        """What empties the device's cache; None on a host, whose caches are not to be emptied so."""
        size = min(FLUSH_CACHES * self._platform.cache_bytes(self.index), FLUSH_LIMIT)
        if size <= 0:
            return None
        import torch

        if self._flush is None or self._flush.numel() != size:
            self._flush = torch.empty(size, dtype=torch.int8, device=self.device)
        buffer = self._flush
        return lambda: buffer.fill_(1)

    def roof_tflops(self, dtype: str | None) -> float | None:
        """Dense TFLOP/s that the device can reach in ``dtype`` (in any, where None), or None where not known."""
        roof = self.roof
        if roof is None or not roof.tflops:
            return None
        if dtype is None:
            return max(roof.tflops.values())
        # float32 work may lawfully run as TF32 where the settings allow it.
        known = [
            roof.tflops[name] for name in ((dtype, "tf32") if dtype == "float32" else (dtype,)) if name in roof.tflops
        ]
        return max(known) if known else None

    def _check_credible(self, us: float, flops: float | None, moved: float | None, dtype: str | None) -> None:
        limit = self.roof_tflops(dtype)
        if flops and limit:
            reached = flops / us * 1e-6
            if reached > ABOVE_ROOF * limit:
                raise Unfit(
                    "timing-not-credible",
                    f"{us:.3g} us would be {reached:.4g} TFLOP/s, the device can do {limit:.4g} in {dtype or 'any dtype'}",
                )
        if moved and self.roof is not None and self.roof.gbps:
            cache = self._platform.cache_bytes(self.index)
            reached = moved / us * 1e-3
            if moved >= CACHE_BOUND * cache and reached > ABOVE_ROOF * self.roof.gbps:
                raise Unfit(
                    "timing-not-credible",
                    f"{us:.3g} us would be {reached:.4g} GB/s; the device's memory can do {self.roof.gbps:.4g}",
                )

    def note(self, name: str, value: Any) -> None:
        """Keep a fact for reports. Raises TypeError where it cannot be written as JSON."""
        json.dumps(value)
        self.notes[name] = value

    def breadcrumb(self, text: str, reproducer: str = "") -> None:
        """Say what is measured next, with plain code that does the same: both are told should this process die or hang."""
        if self._crumb is not None:
            self._crumb(json.dumps({"at": text, "reproducer": reproducer, "tools": list(self.debug_commands)}))

    @property
    def debug_commands(self) -> tuple[str, ...]:
        """The vendor's profiler and sanitizer as commands for a file ``reproduce.py``; empty where none is known."""
        return tuple(getattr(self._platform, "debug_commands", ()))

    def unfit(self, code: str, reason: str) -> NoReturn:
        """Say that the machine is unfit to judge (ENV with this code)."""
        raise Unfit(code, reason)

    def skip(self, reason: str) -> NoReturn:
        """Say that this cannot be measured here (UNMEASURED, shown as skipped)."""
        raise Unmeasured(reason)

    def may_vary(self, operator: str) -> bool:
        """True where two calls on one input may lawfully differ: such results are held to accuracy, not to equal bits.

        ``operator`` is its name in torch's operator database. None may where ``deterministic_algorithms`` is in force.
        """
        return operator in self._platform.may_vary and not self.stack.settings.get("deterministic_algorithms")

    def classify(self, error: BaseException | str) -> str:
        """The ``ErrorKind`` word that an error, or its text, means on this platform."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return self._platform.classify(text)
