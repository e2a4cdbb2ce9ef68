"""Reading the variables that narrow which devices a process sees, as torch reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?\d+")
_PREFIXES = ("GPU-", "MIG-")


def parse_visible(text: str) -> list[int] | list[str]:
    """The devices that a visibility variable names: indices, or the starts of UUIDs.

    The same reading as ``torch.cuda._parse_visible_devices``: a repeated device empties the list, a negative index or an
    element that is no device ends it, and "0x1" is 0, since only the leading digits count.
    """
    for prefix in _PREFIXES:
        if text.startswith(prefix):
            return _uuids(text, prefix)
    indices: list[int] = []
    for element in text.split(","):
        match = _NUMBER.match(element.strip())
        index = int(match.group()) if match else -1
        if index in indices:
            return []
        if index < 0:
            break
        indices.append(index)
    return indices


def _uuids(text: str, prefix: str) -> list[str]:
    found: list[str] = []
    for element in text.split(","):
        if element in found:
            return []
        if not element.startswith(prefix):
            break
        found.append(element)
    return found


def hides_on_purpose(text: str) -> bool:
    """True for a value that plainly asks for no device: empty, ``-1``, a word such as ``NoDevFiles`` or ``none``."""
    first = text.split(",")[0].strip()
    match = _NUMBER.match(first)
    if match:
        return int(match.group()) < 0
    return not first.startswith(_PREFIXES)


def pick(text: str | None, uuids: Sequence[str]) -> list[int]:
    """Positions in ``uuids`` (a host's devices in order) of the visible ones, in the order that the variable gives.

    All where the variable is unset (None). As the vendor does, the list ends at the first device that is not there or
    that is ambiguous.
    """
    if text is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for wanted in parse_visible(text):
        if isinstance(wanted, int):
            matches = [wanted] if wanted < len(uuids) else []
        else:
            matches = [place for place, uuid in enumerate(uuids) if uuid.startswith(wanted)]
        if len(matches) != 1:
            break
        if matches[0] in chosen:
            return []
        chosen.append(matches[0])
    return chosen
