"""What NVML and nvidia-smi both tell of the cards, in one form, and which of them a process sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_accel.stack.common import hashed
from pytest_accel.stack.cuda_text import Failure
from pytest_accel.stack.types import Device, Value
from pytest_accel.stack.visible import parse_visible, pick

#: Power-brake, thermal and other hardware slow-downs make a timing invalid; the ordinary power cap (0x4) does not.
SLOWDOWNS = {
    0x8: "hardware slow-down",
    0x20: "software thermal slow-down",
    0x40: "hardware thermal slow-down",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Part:
    """A MIG device: its UUID, its profile (``1g.10gb``) and its memory; ``legacy`` is its name under drivers before 470."""

    uuid: str
    profile: str | None = None
    memory_bytes: int | None = None
    legacy: str = ""


@dataclass(frozen=True)
class Card:
    """One card; what could not be read is None."""

    name: str
    uuid: str | None = None
    pci: str | None = None
    ids: str | None = None
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None
    mig: bool | None = None
    ecc: bool | None = None
    power_limit_w: float | None = None
    compute_mode: str | None = None
    vbios: str | None = None
    firmware: str | None = None
    parts: tuple[Part, ...] = ()

    def settings(self) -> dict[str, Value]:
        """The driver's settings of this card that change results."""
        return {
            "power_limit_w": self.power_limit_w,
            "ecc": self.ecc,
            "compute_mode": self.compute_mode,
            "mig_mode": self.mig,
        }


@dataclass(frozen=True)
class Answer:
    """What the driver answered: its cards in bus order, or the failure. ``lost`` has the words for cards that are gone.

    ``links`` says how two cards are joined (``NV18``, ``PIX``, ``SYS``), by their positions, the lower first.
    """

    source: str
    cards: tuple[Card, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    failure: Failure | None = None
    lost: tuple[str, ...] = field(default=())
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)


def chip_ids(text: str | int | None) -> str | None:
    """``0x233510DE`` → ``10de:2335``."""
    try:
        packed = text if isinstance(text, int) else int(text or "", 16)
    except ValueError:
        return None
    return f"{packed & 0xFFFF:04x}:{packed >> 16:04x}"


def throttled(mask: int | None) -> tuple[str, ...]:
    """The slow-downs in NVML's mask of clock event reasons."""
    return tuple(word for bit, word in SLOWDOWNS.items() if mask is not None and mask & bit)


def visible(cards: Sequence[Card], variable: str | None) -> list[tuple[Card, Part | None]]:
    """The cards or parts that CUDA shows to a process, in its order (identical cards: bus order).

    A process gets one MIG device at most: the first that the variable names, or the first part of the first card that
    only has parts. A card in MIG mode without a part gives no device.
    """
    if variable is not None and variable.startswith("MIG-"):
        for wanted in parse_visible(variable)[:1]:
            for card in cards:
                for part in card.parts:
                    if part.uuid.startswith(str(wanted)) or part.legacy == wanted:
                        return [(card, part)]
        return []
    chosen = [cards[place] for place in pick(variable, [card.uuid or "" for card in cards])]
    whole: list[tuple[Card, Part | None]] = [(card, None) for card in chosen if not card.mig]
    parts: list[tuple[Card, Part | None]] = [(card, card.parts[0]) for card in chosen if card.mig and card.parts]
    return whole or parts[:1]


def device(index: int, card: Card, part: Part | None) -> Device:
    """The device as it travels. Its identity is a hash of the UUID, or of the PCI address where there is none."""
    uuid = part.uuid if part else card.uuid
    known = uuid or card.pci
    return Device(
        index=index,
        name=f"{card.name} MIG {part.profile}" if part and part.profile and " MIG " not in card.name else card.name,
        uuid=uuid,
        pci=card.pci,
        memory_bytes=part.memory_bytes if part else card.memory_bytes,
        partition=(part.profile or "mig") if part else None,
        architecture="sm_{}{}".format(*card.capability) if card.capability else None,
        capability=card.capability,
        identity=hashed(known) if known else "",
    )
