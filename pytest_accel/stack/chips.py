"""From chip ids and names to the slug that names a baseline folder.

A driver may rename a product; its PCI ids stay. So ids come first, then the names that the table knows, then the name as
it is, cleaned. Every id was looked up: in the PCI ID repository's list of 2026-05-24 (pci-ids.ucw.cz), and where that lacks
it in the table of NVIDIA/open-gpu-kernel-modules (README.md) or in libdrm's data/amdgpu.ids. A chip whose id is in none of
them is not listed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# slug: (PCI ids, product names as drivers have written them)
_TABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nvidia-v100-sxm2-16gb": (("10de:1db1",), ("Tesla V100-SXM2-16GB",)),
    "nvidia-v100-sxm2-32gb": (("10de:1db5",), ("Tesla V100-SXM2-32GB",)),
    "nvidia-v100-pcie-16gb": (("10de:1db4",), ("Tesla V100-PCIE-16GB",)),
    "nvidia-v100-pcie-32gb": (("10de:1db6",), ("Tesla V100-PCIE-32GB",)),
    "nvidia-t4": (("10de:1eb8",), ("Tesla T4", "T4")),
    "nvidia-a100-sxm4-40gb": (("10de:20b0",), ("A100-SXM4-40GB",)),
    "nvidia-a100-sxm4-80gb": (("10de:20b2",), ("A100-SXM4-80GB",)),
    "nvidia-a100-pcie-40gb": (("10de:20f1",), ("A100-PCIE-40GB",)),
    "nvidia-a100-pcie-80gb": (("10de:20b5",), ("A100 80GB PCIe", "A100-PCIE-80GB")),
    "nvidia-a30": (("10de:20b7",), ("A30",)),
    "nvidia-a40": (("10de:2235",), ("A40",)),
    "nvidia-a10": (("10de:2236",), ("A10",)),
    "nvidia-a10g": (("10de:2237",), ("A10G",)),
    "nvidia-h100": (("10de:2330",), ("H100 80GB HBM3", "H100 SXM5 80GB", "H100")),
    "nvidia-h100-pcie": (("10de:2331",), ("H100 PCIe",)),
    "nvidia-h100-nvl": (("10de:2321",), ("H100 NVL",)),
    "nvidia-h200": (("10de:2335",), ("H200", "H200 SXM 141GB", "H200 141GB HBM3e")),
    "nvidia-h200-nvl": (("10de:233b",), ("H200 NVL",)),
    "nvidia-gh200-120gb": (("10de:2342",), ("GH200 120GB", "GH200 480GB")),
    "nvidia-b200": (("10de:2901",), ("B200",)),
    "nvidia-gb200": (("10de:2941",), ("GB200",)),
    "nvidia-l4": (("10de:27b8",), ("L4",)),
    "nvidia-l40": (("10de:26b5",), ("L40",)),
    "nvidia-l40s": (("10de:26b9",), ("L40S",)),
    "nvidia-rtx-6000-ada": (("10de:26b1",), ("RTX 6000 Ada Generation",)),
    "nvidia-rtx-4000-sff-ada": (("10de:27b0",), ("RTX 4000 SFF Ada Generation",)),
    "nvidia-rtx-a6000": (("10de:2230",), ("RTX A6000",)),
    "nvidia-geforce-rtx-2080-super": (("10de:1e81",), ("GeForce RTX 2080 SUPER",)),
    "nvidia-geforce-rtx-3090": (("10de:2204",), ("GeForce RTX 3090",)),
    "nvidia-geforce-rtx-4090": (("10de:2684",), ("GeForce RTX 4090",)),
    "nvidia-geforce-rtx-5090": (("10de:2b85",), ("GeForce RTX 5090",)),
    "amd-mi100": (("1002:738c",), ("Instinct MI100", "Arcturus GL-XL [Instinct MI100]")),
    "amd-mi210": (("1002:740f",), ("Instinct MI210", "Instinct MI210 VF")),
    # 1002:740c is both of these: the name decides.
    "amd-mi250": ((), ("Instinct MI250", "INSTINCT MI250 (MCM) OAM AC MBA")),
    "amd-mi250x": (("1002:7408",), ("Instinct MI250X", "INSTINCT MI250X (MCM) OAM AC MBA")),
    "amd-mi300a": (("1002:74a0",), ("Instinct MI300A",)),
    "amd-mi300x": (("1002:74a1", "1002:74b5"), ("Instinct MI300X", "Instinct MI300X OAM", "Instinct MI300X VF")),
    "amd-mi300x-hf": (("1002:74a9", "1002:74bd"), ("Instinct MI300X HF",)),
    "amd-mi308x": (("1002:74a2", "1002:74b6"), ("Instinct MI308X",)),
    "amd-mi325x": (("1002:74a5", "1002:74b9"), ("Instinct MI325X", "Instinct MI325X VF")),
    "amd-mi350x": (("1002:75a0", "1002:75b0"), ("Instinct MI350X", "Instinct MI350X VF")),
    "amd-mi355x": (("1002:75a3", "1002:75b3"), ("Instinct MI355X", "Instinct MI355X VF")),
}

_VENDOR_WORDS = {
    "nvidia": ("nvidia-corporation-", "nvidia-"),
    "amd": ("advanced-micro-devices-", "amd-radeon-graphics-", "amd-"),
    "ascend": ("huawei-", "ascend-", "ascend"),
}
_NO_MARKS = re.compile(r"\((?:r|tm|c)\)", re.IGNORECASE)
_NO_WORD = re.compile(r"[^a-z0-9.+]+")


def cleaned(name: str, vendor: str) -> str:
    """``NVIDIA H200 `` → ``nvidia-h200``: lower case, one hyphen between words, the vendor once and in front."""
    text = _NO_WORD.sub("-", _NO_MARKS.sub("", name).lower()).strip("-.")
    for words in _VENDOR_WORDS.get(vendor, ()):
        if text.startswith(words):
            text = text[len(words) :].lstrip("-")
            break
    return f"{vendor}-{text}" if text else f"{vendor}-unknown"


# Ascend's chips are no rows of the table: their exact model (910B3, 910_9391, 310P3) is their name everywhere, and one PCI
# id (19e5:d802) stands for all models of a series.
_BY_ID = {chip: slug for slug, (ids, _) in _TABLE.items() for chip in ids}
_BY_NAME = {cleaned(name, slug.split("-")[0]): slug for slug, (_, names) in _TABLE.items() for name in (*names, slug)}


def slug_of(vendor: str, name: str | None = None, ids: str | None = None, partition: str | None = None) -> str:
    """The slug of a chip. ``ids`` is ``10de:2335``; ``partition`` (``1g.10gb``) is appended, since a part is other hardware."""
    slug = _BY_ID.get((ids or "").lower())
    if slug is None:
        slug = cleaned(name or "", vendor)
        slug = _BY_NAME.get(slug, slug)
    return f"{slug}-{_NO_WORD.sub('-', partition.lower()).strip('-')}" if partition else slug


def name_of(ids: str) -> str | None:
    """A chip's name by its PCI ids where the table knows it, for a card whose driver does not answer."""
    slug = _BY_ID.get(ids.lower())
    return _TABLE[slug][1][0] if slug else None


def nearest(slug: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most like ``slug``, for "no baseline for X; nearest Y"; None where nothing is near."""
    others = sorted(set(candidates) - {slug})
    found = difflib.get_close_matches(slug, others, n=1, cutoff=0.6)
    return found[0] if found else None
