"""From what a traced program's processes wrote down to the calls that make a suite, and to what is left out and why."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_DEVICE = re.compile(r"@([a-z]+)\d*$")
#: Calls that compute nothing on the device: memory without values, and reads of one number.
NOTHING_COMPUTED = frozenset(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_ set_ lift_fresh
    lift_fresh_copy _local_scalar_dense record_stream is_same_size _pin_memory is_pinned detach alias""".split()  # noqa: SIM905
)


@dataclass
class Call:
    """One operator with one set of arguments, as a suite holds it; ``count``: how often the program called it."""

    op: str
    arguments: list[Any]
    count: int = 0

    @property
    def key(self) -> str:
        """Equal for calls that differ in real numbers only."""
        return f"{self.op} {json.dumps(_without_reals(self.arguments), sort_keys=True)}"

    @property
    def work(self) -> str:
        """What a reader tells calls of one operator apart by."""
        return json.dumps(self.arguments)


@dataclass
class Seen:
    """What a program called: ``calls`` that can stand in a suite, and ``left_out``: (operator, why) -> how many calls."""

    calls: list[Call] = field(default_factory=list)
    left_out: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    total: int = 0
    processes: int = 0
    on_device: bool = False

    def leave_out(self, op: str, why: str, count: int) -> None:
        """Say that ``count`` calls of ``op`` are not in the suite."""
        self.left_out[op, why] += count


def read(folder: Path) -> Seen:
    """Everything that the processes recorded in ``folder``, equal calls of several processes together."""
    seen = Seen()
    records: list[tuple[Mapping[str, Any], int]] = []
    for path in sorted(folder.glob("*.jsonl")):
        seen.processes += 1
        records += _records(path, seen)
    seen.on_device = any(_devices(record["call"]) - {"cpu", "meta"} for record, _ in records)
    merged: dict[str, Call] = {}
    for record, count in records:
        seen.total += count
        why = _why_not(record, seen.on_device)
        if why:
            seen.leave_out(record["op"], why, count)
            continue
        call = Call(record["op"], _settled(record["call"], seen.on_device))
        merged.setdefault(call.key, call).count += count
    seen.calls = list(merged.values())
    return seen


def _records(path: Path, seen: Seen) -> Iterable[tuple[Mapping[str, Any], int]]:
    lines: list[Mapping[str, Any]] = []
    counts: list[int] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a process that was killed while it wrote
        if "counts" in record:
            counts = record["counts"]
            for op, count in record["more"].items():
                seen.total += count
                seen.leave_out(op, "too many different calls of it to keep", count)
        else:
            lines.append(record)
    return [(record, counts[i] if i < len(counts) else 1) for i, record in enumerate(lines)]


def _why_not(record: Mapping[str, Any], on_device: bool) -> str:
    op = str(record["op"])
    namespace, _, name = op.partition(".")
    if namespace != "aten":
        return f"not torch's own ({namespace}): declare it as a fused kernel or an extension"
    if record["view"]:
        return "a view: no work on the device"
    if name.partition(".")[0] in NOTHING_COMPUTED:
        return "nothing is computed"
    if record["why"]:
        return str(record["why"])
    devices = _devices(record["call"])
    if "meta" in devices:
        return "a tensor is on no device (meta)"
    return "it ran on the host, beside the device" if on_device and devices == {"cpu"} else ""


def _devices(tree: Any) -> set[str]:
    if isinstance(tree, str):
        if tree.startswith("text:"):
            return set()
        found = _DEVICE.search(tree)
        return {found[1]} if found else {tree[7:]} if tree.startswith("device:") else set()
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return {device for part in parts for device in _devices(part)}


def _settled(tree: Any, on_device: bool) -> Any:
    """Device names as a suite holds them: none for the device under test, ``host`` for a host beside it."""
    if isinstance(tree, str) and not tree.startswith("text:"):
        if tree.startswith("device:"):
            return "device:host" if on_device and tree == "device:cpu" else "device:accel"
        found = _DEVICE.search(tree)
        if found is None:
            return tree
        return tree[: found.start()] + ("@host" if on_device and found[1] == "cpu" else "")
    if isinstance(tree, dict):
        kept = {name: value for name, value in tree.items() if not (name == "pin_memory" and not value)}
        return {name: _settled(value, on_device) for name, value in kept.items()}
    if isinstance(tree, list):
        made = [_settled(part, on_device) for part in tree]
        return made[:-1] if made and made[-1] == {} else made
    return tree


def choose(seen: Seen, limit: int) -> list[Call]:
    """At most ``limit`` calls: of every operator its most frequent one first, then the next of each, and so on.

    What does not fit is added to ``seen.left_out``. The result is in the order of operators and arguments, so that two
    traces of one program give one text.
    """
    by_operator: dict[str, list[Call]] = defaultdict(list)
    for call in sorted(seen.calls, key=lambda call: (-call.count, call.work)):
        by_operator[call.op].append(call)
    ranked = sorted(
        ((place, -call.count, call.op, call) for calls in by_operator.values() for place, call in enumerate(calls)),
        key=lambda item: item[:3],
    )
    for _, _, op, call in ranked[limit:]:
        seen.leave_out(op, f"beyond the limit of {limit} calls", call.count)
    return sorted((item[3] for item in ranked[:limit]), key=lambda call: (call.op, call.work))


def _without_reals(tree: Any) -> Any:
    if isinstance(tree, float):
        return "real"
    if isinstance(tree, dict):
        return {name: _without_reals(value) for name, value in tree.items()}
    return [_without_reals(value) for value in tree] if isinstance(tree, list) else tree
