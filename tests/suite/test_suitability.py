"""Which machine a variant is for."""

from __future__ import annotations

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.suite.suitability import not_for
from pytest_accel.suite.types import Requires, Variant


def ask(requires: Requires, **here: object) -> str | None:
    variant = Variant(key="s/c", suite="s", case="c", path="f", line=1, workload="w", requires=requires)
    machine: dict[str, object] = {
        "platform": "cuda",
        "device_count": 1,
        "memory_bytes": 80 * 2**30,
        "capability": (9, 0),
        "has_package": lambda name: name == "triton",
    }
    return not_for(variant, **{**machine, **here})  # type: ignore[arg-type]


def test_a_variant_without_demands_is_for_every_machine():
    assert ask(Requires(), memory_bytes=None, capability=None) is None


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        (Requires(platform=("rocm", "ascend")), "not for cuda: it is for rocm, ascend"),
        (Requires(devices=2), "needs 2 devices, and 1 is here"),
        (Requires(memory=100 * 2**30), "needs 100 GiB of memory on a device, and this one has 80 GiB"),
        (Requires(capability=">=10.0"), "needs capability >=10.0, and this device has 9.0"),
        (Requires(package=("triton", "flash_attn")), "needs the package flash_attn"),
    ],
)
def test_each_demand_that_is_not_met_is_told(requires, words):
    assert words in (ask(requires) or "")


def test_all_demands_met_is_for_this_machine():
    assert ask(Requires(platform=("cuda",), memory=80 * 2**30, capability=">=8.0,<10", package=("triton",))) is None


@pytest.mark.parametrize(
    ("wanted", "capability", "fits"),
    [
        (">=9.0", (10, 0), True),
        (">=8.9", (8, 10), True),
        (">8", (8, 6), True),
        ("<10", (9, 0), True),
        ("==9.0", (9, 0), True),
        ("!=9.0", (9, 0), False),
        ("<=8.6", (9, 0), False),
    ],
)
def test_capabilities_are_compared_as_pairs_of_numbers(wanted, capability, fits):
    assert (ask(Requires(capability=wanted), capability=capability) is None) == fits


def test_a_device_without_capability_meets_no_demand_for_one():
    assert "a device of ascend has none" in (
        ask(Requires(capability=">=0.0"), platform="ascend", capability=None) or ""
    )


def test_memory_that_cannot_be_read_excuses_nothing():
    assert ask(Requires(memory=2**40), memory_bytes=None) is None


def test_a_capability_that_is_none_is_a_config_error():
    with pytest.raises(ConfigError, match=r">=8\.0"):
        ask(Requires(capability="8.0"))
