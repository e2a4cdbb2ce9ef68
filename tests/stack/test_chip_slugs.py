"""Chips by id and by name; what a data sheet says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.stack.chips import nearest, slug_of
from pytest_accel.stack.cuda import CudaPlatform
from pytest_accel.stack.roofs import ROOFS
from pytest_accel.stack.types import Device


@pytest.mark.parametrize(
    "name", ["NVIDIA H200", "NVIDIA H200 ", "H200", "nvidia-h200", "NVIDIA  H200", "Nvidia(R) H200"]
)
def test_forms_of_one_name_are_one_chip(name):
    assert slug_of("nvidia", name) == "nvidia-h200"


def test_another_product_is_another_chip():
    assert slug_of("nvidia", "NVIDIA H200 NVL") == "nvidia-h200-nvl"
    assert slug_of("nvidia", "NVIDIA H100 PCIe") == "nvidia-h100-pcie"


def test_memory_and_vendor_words_are_dropped_only_where_the_table_knows_the_name():
    assert slug_of("nvidia", "NVIDIA H100 80GB HBM3") == "nvidia-h100"
    assert slug_of("nvidia", "NVIDIA H900 80GB HBM9") == "nvidia-h900-80gb-hbm9"


def test_a_driver_that_renames_the_product_does_not_move_the_baseline():
    assert slug_of("nvidia", "NVIDIA Graphics Device", "10de:2335") == "nvidia-h200"
    assert slug_of("amd", "0x1002", "1002:74a1") == "amd-mi300x"
    assert slug_of("amd", "AMD Instinct MI300X OAM") == "amd-mi300x"


@pytest.mark.parametrize("name", ["Ascend 910B3", "910B3", "Ascend910B3"])
def test_ascend_chips_are_named_by_their_exact_model(name):
    assert slug_of("ascend", name) == "ascend-910b3"


def test_a_partition_is_part_of_the_slug():
    assert slug_of("nvidia", "NVIDIA A100-SXM4-80GB", "10de:20b2", "1g.10gb") == "nvidia-a100-sxm4-80gb-1g.10gb"


def test_the_nearest_baseline_is_named_and_an_unlike_one_is_not():
    assert nearest("nvidia-h200", ["nvidia-h200-nvl", "amd-mi300x", "cpu-x86_64"]) == "nvidia-h200-nvl"
    assert nearest("nvidia-h200", ["cpu-x86_64"]) is None
    assert nearest("nvidia-h200", []) is None


@given(st.text(max_size=40))
def test_every_name_gives_a_slug_that_is_a_plain_folder_name(name):
    slug = slug_of("nvidia", name)
    assert slug.startswith("nvidia-")
    assert not set(slug) & set("/\\ :\0")
    assert slug_of("nvidia", slug) == slug


def test_a_roof_is_found_by_the_name_that_torch_gives():
    platform = CudaPlatform()
    roof = platform.roof(Device(0, "NVIDIA H200"))
    assert roof is not None
    assert roof.gbps == 4800
    assert roof.tflops["bfloat16"] == pytest.approx(989, abs=1)
    assert "data sheet" in roof.source


def test_a_part_of_a_chip_and_an_unknown_chip_have_no_roof():
    platform = CudaPlatform()
    assert platform.roof(Device(0, "NVIDIA H100 80GB HBM3 MIG 1g.10gb")) is None
    assert platform.roof(Device(0, "NVIDIA H200", partition="1g.18gb")) is None
    assert platform.roof(Device(0, "NVIDIA Z1")) is None


@pytest.mark.parametrize("slug", ROOFS)
def test_a_roof_belongs_to_a_chip_that_the_table_knows(slug):
    assert slug_of(slug.split("-")[0], slug) == slug
    assert ROOFS[slug].tflops
    assert all(value > 0 for value in ROOFS[slug].tflops.values())


# Compute units, boost clock in MHz, and operations a clock and unit by dtype, from the makers' architecture white papers
# (NVIDIA V100, A100, H100; AMD CDNA, CDNA 2, CDNA 3, CDNA 4) and product pages.
_HOPPER = {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8_e4m3fn": 8192, "int8": 8192}
_AMPERE = {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float32": 128, "float64": 128, "int8": 4096}
_VOLTA = {"float16": 1024, "float32": 128, "float64": 64}
_CDNA = {"float16": 1024, "bfloat16": 512, "float32": 256, "float64": 64, "int8": 1024}
_CDNA2 = {"float16": 1024, "bfloat16": 1024, "float32": 256, "float64": 256, "int8": 1024}
_CDNA3 = {
    "float16": 2048,
    "bfloat16": 2048,
    "tf32": 1024,
    "float32": 256,
    "float64": 256,
    "float8_e4m3fnuz": 4096,
    "int8": 4096,
}
_CDNA4 = {"float16": 4096, "bfloat16": 4096, "float32": 256, "float64": 128, "float8_e4m3fn": 8192, "int8": 8192}


@pytest.mark.parametrize(
    ("slug", "units", "mhz", "each"),
    [
        ("nvidia-h200", 132, 1830, _HOPPER),
        ("nvidia-h100", 132, 1830, _HOPPER),
        ("nvidia-h200", 132, 1980, {"float32": 256, "float64": 256}),
        ("nvidia-a100-sxm4-80gb", 108, 1410, _AMPERE),
        ("nvidia-a100-pcie-40gb", 108, 1410, _AMPERE),
        ("nvidia-v100-sxm2-32gb", 80, 1530, _VOLTA),
        ("nvidia-v100-pcie-16gb", 80, 1370, _VOLTA),
        ("amd-mi100", 120, 1502, _CDNA),
        ("amd-mi210", 104, 1700, _CDNA2),
        ("amd-mi250x", 110, 1700, _CDNA2),
        ("amd-mi300a", 228, 2100, _CDNA3),
        ("amd-mi300x", 304, 2100, _CDNA3),
        ("amd-mi325x", 304, 2100, _CDNA3),
        ("amd-mi350x", 256, 2200, _CDNA4),
        ("amd-mi355x", 256, 2400, _CDNA4),
    ],
)
def test_a_roof_is_what_units_clock_and_operations_a_clock_make(slug, units, mhz, each):
    for dtype, operations in each.items():
        assert ROOFS[slug].tflops[dtype] == pytest.approx(units * mhz * operations * 1e-6, rel=0.01), dtype


def test_every_roof_names_its_source_and_a_chip_of_the_table():
    for slug, roof in ROOFS.items():
        assert roof.source
        assert slug_of(slug.split("-")[0], slug.partition("-")[2]) == slug
