"""The messages between pytest and a measuring process: one JSON object a line, over two pipes that carry nothing else.

Non-finite floats cross as Python's own ``NaN`` and ``Infinity``; files for users are written elsewhere, and strictly.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.runner.types import Request

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Start:
    """The first message to a new process: where to import from, and which device to measure on.

    ``parent`` is pytest's process id; ``follow_parent`` says that the kernel may tie the process to pytest's main thread.
    ``device`` holds the fields of a ``stack.types.Device`` where telemetry is wanted.
    """

    sys_path: Sequence[str]
    platform: str
    index: int
    probe_part: Mapping[str, Any]
    parent: int
    follow_parent: bool = True
    dont_write_bytecode: bool = False
    device: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Hello:
    """The process is up. ``torch`` is its version, or None where it is not installed; ``problem`` why it cannot measure."""

    pid: int
    torch: str | None = None
    stack: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    code: str = ""
    detail: str = ""


@dataclass(frozen=True)
class SetUp:
    """Call ``package.module:function`` before the first workload of this process."""

    function: str


@dataclass(frozen=True)
class Result:
    """What came of a ``SetUp`` or a ``Request``: the fields of a ``Measurement`` that the process itself knows.

    ``spoiled`` says that nothing else should be measured in this process.
    """

    fields: Mapping[str, Any]
    spoiled: bool = False


@dataclass(frozen=True)
class Quit:
    """End in an orderly way."""


Message = Start | Hello | SetUp | Request | Result | Quit
_KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (Start, Hello, SetUp, Request, Result, Quit)}


def encode(message: Message) -> bytes:
    """One line of JSON. Raises TypeError or ValueError for contents that JSON cannot hold."""
    kind = type(message).__name__
    return json.dumps([kind, vars(message)], separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line. Raises ValueError for anything else."""
    kind, fields = json.loads(line)
    if kind not in _KINDS:
        raise ValueError(f"unknown message {kind!r}")
    message: Message = _KINDS[kind](**fields)
    return message


class Closed(Exception):
    """The other end of the pipe is gone."""


class Late(Exception):
    """The deadline passed first."""


class Channel:
    """Both directions of a conversation. ``death`` is a descriptor that becomes readable when the other process has died.

    Its descriptor matters where that process left copies of its pipe ends in children of its own: no end of file comes then.
    """

    def __init__(self, reading: int, writing: int, death: int | None = None) -> None:
        self.reading, self.writing, self.death = reading, writing, death
        self._rest = b""
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)

    def send(self, message: Message, deadline: float | None = None) -> None:
        """Write a message whole. Raises Closed, Late (``deadline`` by time.monotonic), TypeError or ValueError."""
        data = memoryview(encode(message))
        while data:
            try:
                data = data[os.write(self.writing, data) :]
            except BlockingIOError:
                self._wait(self.writing, select.POLLOUT, deadline)
            except BrokenPipeError:
                raise Closed from None

    def receive(self, deadline: float | None = None) -> Message:
        """The next message. Raises Closed (also for a line that is no message: who writes such is not to be trusted) or Late."""
        while b"\n" not in self._rest:
            try:
                data = os.read(self.reading, _CHUNK)
            except BlockingIOError:
                self._wait(self.reading, select.POLLIN, deadline)
                continue
            if not data:
                raise Closed
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return decode(line)
        except (ValueError, TypeError) as error:
            raise Closed from error

    def _wait(self, descriptor: int, event: int, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if self.death is not None:
            poll.register(self.death, select.POLLIN)
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
        ready = dict(poll.poll(left))
        if descriptor in ready:
            return
        if ready:
            raise Closed
        raise Late

    def close(self) -> None:
        """Close both ends that are held here. The second call does nothing."""
        for descriptor in (self.reading, self.writing):
            if descriptor >= 0:
                os.close(descriptor)
        self.reading = self.writing = -1
