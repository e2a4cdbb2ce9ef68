"""Which machine is this, and which device? An id that outlives reboots and driver upgrades, and that clones do not share.

``/etc/machine-id`` alone is not enough: it is baked into many images of virtual machines, so that every clone has it. The
second ingredient is one that every user of the machine can read, since an id that root sees differently would lose the
machine's own sessions: the lowest permanent address of its network cards, else the hypervisor's UUID. The board's UUID and
serial, which mostly root alone may read, are asked for only where there is neither (containers see no card of their host).
"""

from __future__ import annotations

import re

from pytest_accel.stack.common import hashed
from pytest_accel.stack.host import Host

_NICS = "/sys/class/net"
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_OWN = ("", "0")  # addr_assign_type NET_ADDR_PERM, and kernels that do not tell
_SECOND = ("/sys/hypervisor/uuid", "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/board_serial")
_NO_ID = {"", "uninitialized", "none", "0", "not specified", "default string", "to be filled by o.e.m."}


def machine_mark(host: Host) -> str:
    """The text that tells machines apart: machine-id and the second ingredient, either of them where there is but one, or ""."""
    own = _known(host.read("/etc/machine-id"))
    second = network_address(host) or next((found for path in _SECOND if (found := _known(host.read(path)))), "")
    return " ".join(part for part in (own, second) if part)


def machine_id(host: Host) -> str:
    """A hash by which baselines know this machine; of its host name where it has no id at all."""
    mark = machine_mark(host)
    return hashed(f"pytest-accel machine {mark}" if mark else f"pytest-accel host {host.hostname()}")


def device_identity(host: Host, unique: str | None, place: str | None) -> str:
    """The hash by which baselines and locks know a device: of its own id, else of its place in this machine; "" without both.

    A PCI address alone would make one device of all that sit in the same slot of different machines.
    """
    if unique:
        return hashed(unique)
    return hashed(f"{machine_mark(host)} {place}") if place else ""


def network_address(host: Host) -> str:
    """The lowest permanent address of the network cards on a bus; "" without one.

    Those that a maker gave count before those that a hypervisor or administrator made up. Virtual interfaces, cards on USB
    (a board's management port has one, with an address that may change), random addresses and InfiniBand's are none.
    """
    found = []
    for name in host.listdir(_NICS):
        base = f"{_NICS}/{name}"
        if host.read(f"{base}/device/vendor") is None:
            continue
        assigned = (host.read(f"{base}/addr_assign_type") or "").strip()
        lent = host.read(f"{base}/bonding_slave/perm_hwaddr")  # a bond gives all its cards one address
        text = (lent or (host.read(f"{base}/address") if assigned in _OWN else "") or "").strip().lower()
        if _MAC.fullmatch(text) and set(text) - set("0:"):
            found.append((bool(int(text[:2], 16) & 2), text))
    return min(found)[1] if found else ""


def _known(text: str | None) -> str:
    stripped = (text or "").strip()
    return "" if stripped.lower() in _NO_ID else stripped
