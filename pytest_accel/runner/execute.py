"""One variant in the measuring process: find the workload, check its arguments, call it, say what came of it."""

from __future__ import annotations

import importlib
import inspect
import random
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError
from pytest_accel.runner.metrics import BadReturn, metrics_of
from pytest_accel.runner.protocol import Result
from pytest_accel.runner.types import Outcome, Request

if TYPE_CHECKING:
    from pytest_accel.stack.platform import Platform
    from pytest_accel.stack.types import Stack, Telemetry

SEED = 20_240_229  # any fixed number: the same data in every session of a variant
DETAIL_LIMIT = 16_000
REASON_LIMIT = 240


class Bench:
    """The state of one measuring process: its device, what was set up, and the settings it started with."""

    def __init__(
        self,
        platform: Platform,
        index: int,
        stack: Stack,
        *,
        with_torch: bool,
        watch: Callable[[], Telemetry] | None = None,
        stderr_text: Callable[[], str] | None = None,
        crumb: Callable[[str], None] | None = None,
    ) -> None:
        self.platform = platform
        self.index = index
        self.stack = stack
        self.with_torch = with_torch
        self.watch = watch
        self.stderr_text = stderr_text
        self.crumb = crumb
        self._at_rest = self._settings()
        self._called: set[str] = set()
        self._fresh = True
        self._may_fall_back = with_torch and platform.device_type != "cpu"
        if self._may_fall_back and stderr_text is not None:
            # The device's check may have spent warnings already: they are given once a process.
            from pytest_accel.measure.fallback import remember_past

            remember_past(platform.classify, stderr_text)

    def _pinnable(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a workload might leave changed for the next one (not those that the machine moves by itself)."""
        return {name: value for name, value in settings.items() if name in self.platform.settings_allowed}

    def _settings(self) -> dict[str, Any]:
        return dict(self.platform.settings()) if self.with_torch else {}

    def set_up(self, name: str) -> Result:
        """Call the set-up function ``package.module:function``."""
        module, _, attribute = name.partition(":")
        try:
            function = getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:
            return self._not_found(error, f"setup {name}")
        try:
            function()
        except BaseException as error:
            return self._raised(error, f"setup {name}: ")
        self._at_rest = self._settings()
        return Result({"outcome": "measured"})

    def measure(self, request: Request) -> Result:
        """Measure one variant; every way in which it can end is a result, except the death of the process."""
        if self.crumb is not None:
            self.crumb("")
        from pytest_accel.measure.accelerator import Accelerator
        from pytest_accel.workloads.registry import resolve

        fresh, self._fresh = self._fresh, False
        try:
            function = resolve(request.workload)
        except ConfigError as error:
            return _config(str(error))
        except (Exception, SystemExit) as error:
            return self._not_found(error, f"workload {request.workload}")
        watched = self._may_fall_back and not _tells_fallback(request)
        if watched and not fresh and (spent := _spent_warnings()):
            # An error that spoils the process: the variant is tried again in a fresh one, where the warning is not spent.
            reason = f"not measured in this process, where the fall-back warning of {spent} was given already"
            return Result({"outcome": "error", "code": "fallback", "reason": reason}, spoiled=True)
        try:
            with self._pinned(request.settings):
                seen = request.workload in self._called  # importing its module may have changed settings
                settings = self._at_rest if seen and not request.settings else self._settings()
                self._called.add(request.workload)
                stack = replace(self.stack, settings={**self.stack.settings, **settings})
                accel = Accelerator(
                    self.platform,
                    self.index,
                    stack,
                    watch=self.watch,
                    stderr_text=self.stderr_text,
                    crumb=self.crumb,
                )
                try:
                    inspect.signature(function).bind(accel, **request.params)
                except TypeError as error:
                    return _config(f"workload {request.workload} refuses the case's params: {error}")
                work = _work(request, function)
                self._seed()
                begin = time.perf_counter()
                call = self._watched if watched else self._finished
                returned = call(lambda: function(accel, **request.params))
                seconds = time.perf_counter() - begin
                metrics = metrics_of(returned)
            now = self._settings()
            changed = self._pinnable(now) != self._pinnable(self._at_rest)
            if not changed:
                self._at_rest = (
                    now  # reading the settings costs more than a small workload, so it is done once a variant
                )
        except BadReturn as error:
            return _config(f"workload {request.workload}: {error}")
        except BaseException as error:
            return self._raised(error)
        fields = {
            "outcome": "measured",
            "metrics": metrics,
            "seconds": seconds,
            "stack": {"settings": dict(stack.settings)},
            "notes": accel.notes,
            **work,
        }
        return Result(fields, spoiled=changed)

    def _finished(self, work: Callable[[], Any]) -> Any:
        """The workload's result once its work is done."""
        returned = work()
        if self.with_torch:
            # Device errors are asynchronous: waiting here charges them to the variant that made them.
            self.platform.synchronize(self.index)
        return returned

    def _watched(self, work: Callable[[], Any]) -> Any:
        """The same. Raises RanOnHost where an operator of it fell back to the host: its figures are none of the device's.

        Where warnings were spent before anything was measured (by the device's check, by the set-up), the operators that are
        dispatched are held against them, which costs some microseconds an operator.
        """
        from pytest_accel.measure import fallback
        from pytest_accel.measure.types import RanOnHost

        names: set[str] = set()
        watch = fallback.FallbackWatch(self.platform.classify, self.stderr_text)
        with watch:
            if fallback.SEEN:
                returned, names = fallback.recorded(lambda: self._finished(work))
            else:
                returned = self._finished(work)
        warned = watch.texts[0] if watch.texts else fallback.spent(names)
        if warned is not None:
            raise RanOnHost(f"work meant for the device ran on the host: {warned}")
        return returned

    def _pinned(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        if not settings:
            return nullcontext()
        if self.with_torch:
            return self.platform.pinned(settings)
        raise RuntimeError(f"torch is not installed, so these settings cannot be pinned: {', '.join(settings)}")

    def _seed(self) -> None:
        if self.with_torch:
            self.platform.seed(SEED)
        else:
            random.seed(SEED)

    def _not_found(self, error: BaseException, what: str) -> Result:
        # Code that fails otherwise than by a missing name may have failed because of what ran before it.
        plain = isinstance(error, (ImportError, AttributeError, TypeError))
        reason = f"{what} cannot be imported: {sentence(error)}"
        return Result({"outcome": "import-failed", "reason": reason, "detail": _trace(error)}, spoiled=not plain)

    def _raised(self, error: BaseException, where: str = "") -> Result:
        """The outcome of an exception. One that is the workload's own word leaves the process as good as it was."""
        from pytest_accel.measure.types import BadArguments, RanOnHost, TooNoisy, Unfit, Unmeasured

        reason = where + sentence(error)
        if isinstance(error, Unfit):
            return Result({"outcome": "unfit", "code": error.code, "reason": error.reason})
        if isinstance(error, TooNoisy):
            return Result({"outcome": "noisy", "code": "too-noisy", "reason": where + str(error)})
        if isinstance(error, (BadArguments, ConfigError)):
            return _config(where + str(error))
        if isinstance(error, Unmeasured) or _is_skip(error):
            reason = where + (str(error) or "the workload skipped itself")
            return Result({"outcome": "skipped", "code": "skipped", "reason": reason})
        if isinstance(error, RanOnHost):  # the process is as good as before
            return Result({"outcome": "error", "code": "fallback", "reason": reason, "detail": _trace(error)})
        code = self.platform.classify(f"{type(error).__name__}: {error_text(error)}")
        detail = _trace(error)
        lost = self._poisoned()
        if lost:
            code = "poisoned"
            reason += f"; afterwards the device failed a check in this process: {sentence(lost)}"
            detail += f"\nThe device's check afterwards:\n{_trace(lost)}"
        outcome: Outcome = "error"
        return Result({"outcome": outcome, "code": code, "reason": reason, "detail": detail}, spoiled=True)

    def _poisoned(self) -> Exception | None:
        """What the device's check raises in this process; None where it is well, or nobody can ask."""
        if not self.with_torch:
            return None
        try:
            self.platform.check(self.index)
        except Exception as error:
            return error
        return None


def _tells_fallback(request: Request) -> bool:
    """True for a workload that says by itself which work fell back to the host."""
    from pytest_accel.workloads.registry import lookup

    built_in = lookup(request.workload)
    return built_in is not None and built_in.tells_fallback


def _spent_warnings() -> str:
    """The operators whose fall-back warning was given in this process, in words."""
    from pytest_accel.measure.fallback import SEEN

    return ", ".join(f"aten::{name}" for name in sorted(SEEN))


def _work(request: Request, function: Callable[..., Any]) -> dict[str, Any]:
    """Version, digest of the arguments, and declared metrics of a workload."""
    from pytest_accel.workloads.declare import declaration
    from pytest_accel.workloads.registry import digest, lookup

    built_in = lookup(request.workload)
    said = declaration(function)
    version = built_in.version if built_in else said.version if said else 1
    return {
        "work_version": version,
        "digest": digest(function, request.params),
        "declared": said.as_json() if said else {},
    }


def _config(reason: str) -> Result:
    return Result({"outcome": "config", "code": "config", "reason": reason})


def _is_skip(error: BaseException) -> bool:
    """pytest's and unittest's skip, known by name: neither is imported here."""
    return any(kind.__name__ in ("Skipped", "SkipTest") for kind in type(error).__mro__)


def error_text(error: BaseException) -> str:
    """``str(error)``, or what can be said of an error whose own text fails."""
    try:
        return str(error)
    except Exception as failure:
        return f"<its text raised {type(failure).__name__}>"


def sentence(error: BaseException) -> str:
    """An error in one line: its type, and the first line of its text (the next one too where it ends in a colon).

    Drivers and torch add paragraphs of advice. The whole text stands in the traceback that goes beside the reason.
    """
    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()]
    said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    if len(said) > REASON_LIMIT:
        said = said[: REASON_LIMIT - 1] + "…"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _trace(error: BaseException) -> str:
    """The traceback from the first frame that is not this file's, its middle left out where it is long."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    if len(text) > DETAIL_LIMIT:
        half = DETAIL_LIMIT // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    return text
