"""What chips can do at most, from their makers' data sheets: dense figures, by the slug of the whole chip.

TFLOP/s by dtype name (matrix units where the chip has them for that type), memory bandwidth in GB/s. A chip whose figures
are not in a data sheet is absent: nothing is guessed, and without a roof nothing is refused.

Sheets: NVIDIA's at nvidia.com/en-us/data-center/ (h200, h100, a100, l40s, l4, products/a10-gpu, tesla-t4, v100; what they give
"with sparsity" is halved), AMD's at amd.com/en/products/accelerators/instinct/ (mi355x, mi350x, mi325x, mi300x, mi300a, mi210,
mi250x, mi100). The figures of whole families follow from units, clock and operations a clock in the makers' architecture papers
(Hopper, Ampere, Volta; CDNA to CDNA 4): tests/stack/test_chip_slugs.py computes them anew.
"""

from __future__ import annotations

from pytest_accel.stack.types import Roof


def _roof(gbps: float, source: str, half: float, **others: float) -> Roof:
    return Roof({"float16": half, "bfloat16": half, **others}, gbps, source)


def _hopper(gbps: float, source: str) -> Roof:
    return _roof(
        gbps,
        source,
        989.4,
        tf32=494.7,
        float32=66.9,
        float64=66.9,
        float8_e4m3fn=1978.9,
        float8_e5m2=1978.9,
        int8=1978.9,
    )


def _hopper_nvl(gbps: float, source: str) -> Roof:
    return _roof(
        gbps, source, 835.5, tf32=417.5, float32=60, float64=60, float8_e4m3fn=1670.5, float8_e5m2=1670.5, int8=1670.5
    )


def _ampere(gbps: float) -> Roof:
    source = "NVIDIA A100 Tensor Core GPU data sheet, June 2021"
    return _roof(gbps, source, 312, tf32=156, float32=19.5, float64=19.5, int8=624)


def _cdna3(gbps: float, source: str) -> Roof:
    return _roof(
        gbps,
        source,
        1307.4,
        tf32=653.7,
        float32=163.4,
        float64=163.4,
        float8_e4m3fnuz=2614.9,
        float8_e5m2fnuz=2614.9,
        int8=2614.9,
    )


def _cdna4(gbps: float, source: str, half: float, eight: float, single: float, double: float) -> Roof:
    return _roof(gbps, source, half, float32=single, float64=double, float8_e4m3fn=eight, float8_e5m2=eight, int8=eight)


def _volta(half: float, single: float, double: float) -> Roof:
    source = "NVIDIA V100 Tensor Core GPU data sheet, January 2020"
    return Roof({"float16": half, "float32": single, "float64": double}, 900, source)


_T4 = "NVIDIA T4 Tensor Core GPU data sheet"

ROOFS: dict[str, Roof] = {
    "nvidia-h200": _hopper(4800, "NVIDIA H200 data sheet (SXM), dense"),
    "nvidia-h200-nvl": _hopper_nvl(4800, "NVIDIA H200 data sheet (NVL), dense"),
    "nvidia-h100": _hopper(3350, "NVIDIA H100 data sheet (SXM), dense"),
    "nvidia-h100-nvl": _hopper_nvl(3900, "NVIDIA H100 data sheet (NVL), dense"),
    "nvidia-h100-pcie": _roof(
        2039,
        "NVIDIA H100 data sheet (PCIe), dense",
        756,
        tf32=378,
        float32=51.2,
        float64=51.2,
        float8_e4m3fn=1513,
        int8=1513,
    ),
    "nvidia-a100-sxm4-80gb": _ampere(2039),
    "nvidia-a100-sxm4-40gb": _ampere(1555),
    "nvidia-a100-pcie-80gb": _ampere(1935),
    "nvidia-a100-pcie-40gb": _ampere(1555),
    "nvidia-l40s": _roof(
        864, "NVIDIA L40S data sheet, dense", 362.05, tf32=183, float32=91.6, float8_e4m3fn=733, int8=733
    ),
    "nvidia-l4": _roof(300, "NVIDIA L4 data sheet, dense", 121, tf32=60, float32=30.3, float8_e4m3fn=242.5, int8=242.5),
    "nvidia-a10": _roof(600, "NVIDIA A10 data sheet, dense", 125, tf32=62.5, float32=31.2, int8=250),
    "nvidia-t4": Roof({"float16": 65, "float32": 8.1, "int8": 130}, 320, _T4),
    "nvidia-v100-sxm2-16gb": _volta(125, 15.7, 7.8),
    "nvidia-v100-sxm2-32gb": _volta(125, 15.7, 7.8),
    "nvidia-v100-pcie-16gb": _volta(112, 14, 7),
    "nvidia-v100-pcie-32gb": _volta(112, 14, 7),
    "amd-mi100": Roof(
        {"float16": 184.6, "bfloat16": 92.3, "float32": 46.1, "float64": 11.5, "int8": 184.6},
        1228.8,
        "AMD Instinct MI100 data sheet, dense",
    ),
    "amd-mi210": _roof(1638.4, "AMD Instinct MI210 data sheet, dense", 181, float32=45.3, float64=45.3, int8=181),
    # Half of the card's figures: each of its two dies is a device.
    "amd-mi250x": _roof(
        1638.4, "AMD Instinct MI250X data sheet, one die, dense", 191.5, float32=47.9, float64=47.9, int8=191.5
    ),
    "amd-mi300a": _roof(
        5300,
        "AMD Instinct MI300A data sheet, dense",
        980.6,
        tf32=490.3,
        float32=122.6,
        float64=122.6,
        float8_e4m3fnuz=1961.2,
        float8_e5m2fnuz=1961.2,
        int8=1961.2,
    ),
    "amd-mi300x": _cdna3(5300, "AMD Instinct MI300X data sheet, dense"),
    "amd-mi325x": _cdna3(6000, "AMD Instinct MI325X data sheet, dense"),
    "amd-mi350x": _cdna4(8000, "AMD Instinct MI350X data sheet, dense", 2306.9, 4613.7, 144.2, 72.1),
    "amd-mi355x": _cdna4(8000, "AMD Instinct MI355X data sheet, dense", 2516.6, 5033.2, 157.3, 78.6),
}

MIB = 2**20
#: Caches behind the one that torch's device query tells, by the start of the slug.
_BEHIND: dict[str, int] = {
    # AMD CDNA 3 and CDNA 4 white papers: 256 MB of Infinity Cache in the four or two I/O dies of every MI300 and MI350.
    "amd-mi3": 256 * MIB,
}
#: Last-level caches of chips whose query may tell none.
_LAST: dict[str, int] = {
    "ascend-910b": 192 * MIB,  # Ascend 910B (A2): 192 MB of L2
}


def cache_bytes(slug: str, queried: int) -> int:
    """The last-level cache of a chip in bytes: what its query tells, and what is known to stand behind that.

    ``queried`` is 0 where torch cannot tell; 0 comes back where nothing is known.
    """
    behind = next((size for start, size in _BEHIND.items() if slug.startswith(start)), 0)
    last = next((size for start, size in _LAST.items() if slug.startswith(start)), 0)
    return max(queried or last, behind)
