"""Which kernels a piece of work runs on the device, as one word for results and baselines.

Where torch's profiler sees the device, the names are those of its kernels, in the order in which they first ran. Elsewhere
(a CPU, a vendor without a profiler in torch) they are torch's operators as dispatched below autograd, which still tell one
back end of an operator from another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any

LONGEST = 1000  # a metric's word holds no more
NAME = 160  # template arguments tell tiles and dtypes; what is longer ends in a hash of the whole
UNSEEN = "(none seen)"
_ANONYMOUS = "(anonymous namespace)::"
_NO_WORK = ("_record_function", "_unsafe_view", "_local_scalar_dense")  # dispatched, and computing nothing


def kernels_of(fn: Callable[[], object], device_type: str, synchronize: Callable[[], None]) -> str:
    """Call ``fn`` once (it should be warm); the names of what it ran, at most ``LONGEST`` characters.

    ``UNSEEN`` where the profiler is there and saw no kernel (a container may forbid it).
    """
    if _profiler_sees(device_type):
        return joined(_profiled(fn, device_type, synchronize)) or UNSEEN
    return joined(_dispatched(fn)) or UNSEEN


def _profiler_sees(device_type: str) -> bool:
    """A device that an extension registered in torch's spare place is seen by that extension's own profiler at best."""
    import torch.profiler

    if device_type in ("cpu", torch._C._get_privateuse1_backend_name()):
        return False
    return bool(set(torch.profiler.supported_activities()) - {torch.profiler.ProfilerActivity.CPU})


def _profiled(fn: Callable[[], object], device_type: str, synchronize: Callable[[], None]) -> list[str]:
    import torch
    from torch.autograd.profiler import profile  # torch.profiler's own loads the compiler's modules first: 2 s

    synchronize()
    with profile(use_device=device_type, use_kineto=True) as seen:
        fn()
        synchronize()
    host = torch.autograd.DeviceType.CPU
    events: list[Any] = [event for event in seen.function_events or () if event.device_type != host]
    return [shortened(str(event.name)) for event in sorted(events, key=lambda event: event.time_range.start)]


def _dispatched(fn: Callable[[], object]) -> list[str]:
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Record(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else torch imports its compiler here, 2 to 4 s once a process, to tell it to stay out

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            if not func.is_view and not name.startswith(_NO_WORK):
                names.append(f"aten::{name}")
            return func(*args, **(kwargs or {}))

    with Record():
        fn()
    return names


def shortened(name: str) -> str:
    """A kernel's demangled name without result type and argument list, at most ``NAME`` characters."""
    short = re.sub(r"^void ", "", name.replace(_ANONYMOUS, "").strip())
    depth = 0
    for place, letter in enumerate(short):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0 and place and not short[place - 1].isspace():
            short = short[:place]
            break
    if len(short) > NAME:
        short = f"{short[: NAME - 9]}~{hashlib.sha256(short.encode()).hexdigest()[:8]}"
    return short


def joined(names: Iterable[str]) -> str:
    """Each name once, in the order of first appearance, with how often it ran, within ``LONGEST`` characters."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    word = ""
    for name, count in counts.items():
        part = f"{'; ' if word else ''}{name}{f' x{count}' if count > 1 else ''}"
        if len(word) + len(part) > LONGEST - 3:
            return f"{word}; …"
        word += part
    return word
