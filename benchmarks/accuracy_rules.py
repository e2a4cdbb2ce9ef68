"""Which accuracy rule catches which fault: the project's own beside those of its peers, all run here on the same tensors.

    python benchmarks/accuracy_rules.py [--write docs/precision.md]

Faults are those of ``pytest-accel selftest``, put into products, rotary tables and gradients of this machine's CPU. The peers'
rules are written anew from their sources' formulas (named at each), with the tolerances that they use by default. ``F``: the
rule fails the result; ``.``: it lets it pass. A benign row must read ``.``, every other row ``F``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pytest_accel.measure import accuracy, tolerances
from pytest_accel.measure import tolerances_precision as rules
from pytest_accel.selftest import rope_faults
from pytest_accel.selftest.injections import injected
from pytest_accel.workloads.rope import _chunk
from pytest_accel.workloads.rope_phase import EDGES, inverse_frequencies

BEGIN, END = "<!-- accuracy_rules: begin -->", "<!-- accuracy_rules: end -->"
CPU = torch.device("cpu")
RTOL = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}


@dataclass
class Case:
    """A result ``y``, its float64 golden ``g``, another right implementation ``r`` in the same dtype, and the sum's length."""

    name: str
    benign: bool
    y: torch.Tensor
    g: torch.Tensor
    r: torch.Tensor
    terms: int
    ours: Callable[[], bool]


def assert_close(c: Case) -> bool:
    """torch.testing.assert_close: rtol 1e-3 (float16) or 1.6e-2 (bfloat16), atol 1e-5; NaN is not equal to NaN."""
    return not _allclose(c, RTOL[c.y.dtype], 1e-5)


def flaggems(c: Case) -> bool:
    """FlagGems: assert_close's rtol, atol 1e-4 times the length of the sum."""
    return not _allclose(c, RTOL[c.y.dtype], 1e-4 * c.terms)


def backendbench(c: Case) -> bool:
    """BackendBench: allclose with 1e-2 and 1e-2, whatever it is told."""
    return not _allclose(c, 1e-2, 1e-2)


def diopi(c: Case) -> bool:
    """DIOPI: atol 1e-2, rtol 5e-2; one element of a thousand may be anything."""
    g = c.g.to(c.y.dtype).double()
    near = (c.y.double() - g).abs() <= 1e-2 + 5e-2 * g.abs()
    return float((~near).double().mean()) > 1e-3


def torch_npu(c: Case) -> bool:
    """torch_npu's assertRtolEqual: float16 fails where both the relative and the absolute mismatches are more than 0.1 %;
    bfloat16 is held to allclose of 1e-3."""
    if c.y.dtype == torch.bfloat16:
        return not _allclose(c, 1e-3, 1e-3)
    g, y = c.g.to(c.y.dtype).double(), c.y.double()
    if bool(y.isnan().any()) and not bool(g.isnan().any()):
        return True
    error = (y - g).abs()
    relative, absolute = error > 1e-3 * g.abs(), error > 1e-3
    allowed = 1e-3 * y.numel()
    if not bool(relative.any()) or not bool(absolute.any()):
        return False
    return float(relative.sum()) > allowed and float(absolute.sum()) > allowed


def msprobe_single(c: Case) -> bool:
    """msprobe, one device: infinities clipped to the largest number, cosine above 0.99, then largest error below 1e-3, else
    99 % of the relative errors below 1e-2 (what only warns is not counted as caught)."""
    top = torch.finfo(c.y.dtype).max
    y, g = c.y.double().clamp(-top, top), c.g.to(c.y.dtype).double().clamp(-top, top)
    cosine = float((y * g).sum() / (y.norm() * g.norm()).clamp(min=1e-300))
    if not cosine > 0.99:
        return True
    error = (y - g).abs()
    if float(error.max()) < 1e-3:
        return False
    return float((error / g.abs().clamp(min=1e-300) < 1e-2).double().mean()) <= 0.99


def msprobe_dual(c: Case) -> bool:
    """msprobe, two devices: RMSE at most 2, largest relative error 10 and mean relative error 2 times the other device's;
    non-finite elements are left out."""
    floor = 2.0**-11 if c.y.dtype == torch.float16 else 2.0**-8

    def parts(x: torch.Tensor) -> tuple[float, float, float]:
        use = x.isfinite() & c.g.isfinite()
        error, g = (x.double() - c.g)[use].abs(), c.g[use].abs().clamp(min=1e-300)
        relative = error / g
        return float(error.square().mean().sqrt()), float(relative.max()), float(relative.mean())

    mine, other = parts(c.y), parts(c.r)
    ratios = [a / max(b, floor) for a, b in zip(mine, other, strict=True)]
    return ratios[0] > 2 or ratios[1] > 10 or ratios[2] > 2


def dynamo(c: Case) -> bool:
    """torch._dynamo.utils.same: allclose of 1e-3, else RMSE at most 3 times the reference's plus 1e-4."""
    if _allclose(c, 1e-3, 1e-3):
        return False
    y, r = c.y.double(), c.r.double()
    mine, other = (float((x - c.g).square().mean().sqrt()) for x in (y, r))
    return not mine <= 3.0 * other + 1e-4


def flash_attention(c: Case) -> bool:
    """flash-attention: the largest error at most twice the reference's, plus 1e-5."""
    mine, other = (float((x.double() - c.g).abs().max()) for x in (c.y, c.r))
    return not mine <= 2 * other + 1e-5


def ours(c: Case) -> bool:
    """pytest-accel: non-finite map, then scaled ULPs: largest, root mean square, mean, lean towards zero (docs/precision.md)."""
    return c.ours()


PEERS: tuple[Callable[[Case], bool], ...] = (
    assert_close,
    flaggems,
    backendbench,
    diopi,
    torch_npu,
    msprobe_single,
    msprobe_dual,
    dynamo,
    flash_attention,
    ours,
)


def _allclose(c: Case, rtol: float, atol: float) -> bool:
    return bool(torch.allclose(c.y.double(), c.g.to(c.y.dtype).double(), rtol=rtol, atol=atol))


def products(dtype: torch.dtype) -> list[Case]:
    """A product of 256 x 2048 x 256."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(shape, generator=generator).to(dtype) for shape in ((256, 2048), (2048, 256)))
    g = a.double() @ b.double()
    r = (a.float() @ b.float()).to(dtype)
    partial = (a.double().square() @ b.double().square()).sqrt()
    named = [
        ("other_order", "benign: other order of summation", True),
        ("other_tile", "benign: other tiles", True),
        ("one_nan", "one NaN", False),
        ("one_inf", "one infinity", False),
        ("one_larger", "one element +25 %", False),
        ("sparse_zeros", "0.07 % zeros", False),
        ("dropped_k", "last 16 terms dropped", False),
        ("truncated", "one ulp towards zero", False),
        ("low_sum", "16-bit sums every 16 terms", False),
    ]
    cases = []
    for injection, name, benign in named:
        with injected(injection, CPU):
            y = a @ b
        cases.append(_case(name, benign, y, g, r, 2048, tolerances.SPLIT_PRODUCT, partial))
    return cases


def _case(
    name: str,
    benign: bool,
    y: torch.Tensor,
    g: torch.Tensor,
    r: torch.Tensor,
    terms: int,
    rule: tolerances.Tolerance,
    size: torch.Tensor | None,
) -> Case:
    def fails() -> bool:
        found = accuracy.compare(y, g, r, rule=rule, magnitude=size)
        return found.word != "supported" or bool(accuracy.leaning(y, g, r, rule=rule, magnitude=size))

    return Case(name, benign, y, g, r, terms, fails)


def extremes(dtype: torch.dtype) -> list[Case]:
    """Products beyond and below the dtype's normal range, and a convolution's gradient."""
    generator = torch.Generator().manual_seed(1)
    info = torch.finfo(dtype)
    a, b = (torch.randn(shape, generator=generator) for shape in ((64, 64), (64, 64)))
    cases = []
    for name, injection, scale_a, scale_b in (
        ("subnormals flushed", "flushed", float(info.smallest_normal) * 2, 2.0**-4),
        ("overflow saturated", "saturated", float(info.max) ** 0.5, float(info.max) ** 0.5 / 4),
    ):
        x, y = (a * scale_a).to(dtype), (b * scale_b).to(dtype)
        g, r = x.double() @ y.double(), (x.double() @ y.double()).to(dtype)
        with injected(injection, CPU):
            found = x @ y
        cases.append(_case(name, False, found, g, r, 64, tolerances.SPLIT_PRODUCT, x.double().abs() @ y.double().abs()))
    image, kernel = torch.randn(1, 8, 24, 24, generator=generator), torch.randn(8, 8, 3, 3, generator=generator) / 8

    def weight_gradient(kind: torch.dtype, absolute: bool = False) -> torch.Tensor:
        def made(tensor: torch.Tensor) -> torch.Tensor:
            rounded = tensor.to(dtype).to(kind)
            return rounded.abs() if absolute else rounded

        w = made(kernel).requires_grad_()
        out = torch.nn.functional.conv2d(made(image), w, padding=1)
        g = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(dtype).to(kind)
        return torch.autograd.grad(out, w, g.abs() if absolute else g)[0]

    g, r, size = (
        weight_gradient(torch.float64),
        weight_gradient(torch.float32).to(dtype),
        weight_gradient(torch.float64, True),
    )
    with injected("halved_convolution_gradient", CPU):
        halved = weight_gradient(dtype)
    cases.append(_case("gradient halved", False, halved, g, r, 576, rules.SUM_OF_PRODUCTS, size))
    return cases


def tables(dtype: torch.dtype) -> list[Case]:
    """Rotary tables at positions up to 32,768, base 1e4, head_dim 128."""
    positions = torch.tensor(sorted({p for edge in EDGES if edge <= 32767 for p in range(max(0, edge - 15), edge + 1)}))
    inv_freq = inverse_frequencies(128, 10000.0)
    angles = positions.double()[:, None] * inv_freq
    g = angles.cos()
    r = (positions.float()[:, None] * inv_freq.float()).cos().to(dtype)
    cases = []
    for function, name, benign in (
        (rope_faults.by_angle_addition, "benign: table made in float64", True),
        (rope_faults.positions_cast, "rotary positions cast early", False),
        (rope_faults.inv_freq_cast, "rotary frequencies cast early", False),
        (rope_faults.off_by_one, "rotary positions one too large", False),
        (rope_faults.tf32, "rotary table in TF32", False),
    ):
        y = function(positions, 128, 10000.0, dtype, CPU)[0]

        def fails(build: Callable[..., tuple[torch.Tensor, torch.Tensor]] = function) -> bool:
            ratio, _, nonfinite = _chunk(build, positions, inv_freq, 128, 10000.0, dtype, CPU)
            return nonfinite > 0 or not ratio <= 1.0

        cases.append(Case(name, benign, y, g, r, 1, fails))
    return cases


def table() -> str:
    """The matrix as Markdown, and how many of the rows each rule judged rightly."""
    lines: list[str] = []
    right = dict.fromkeys(range(len(PEERS)), 0)
    total = 0
    names = [rule.__name__ for rule in PEERS]
    for dtype in (torch.float16, torch.bfloat16):
        lines += [f"| {str(dtype)[6:]} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for case in (*products(dtype), *extremes(dtype), *tables(dtype)):
            words = [rule(case) for rule in PEERS]
            total += 1
            for i, failed in enumerate(words):
                right[i] += failed != case.benign
            shown = ["F" if failed else "." for failed in words]
            marked = [f"**{s}**" if failed == case.benign else s for s, failed in zip(shown, words, strict=True)]
            lines.append(f"| {case.name} | " + " | ".join(marked) + " |")
        lines.append("")
    lines.append(f"Rows judged rightly, of {total}: " + ", ".join(f"{n} {right[i]}" for i, n in enumerate(names)) + ".")
    return "\n".join(lines)


def main() -> int:
    """Print the matrix, or write it between the markers of a page. 1 where the project's own rule judged a row wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", metavar="FILE", help="write it between the markers of this page")
    arguments = parser.parse_args()
    text = table()
    if arguments.write:
        page = Path(arguments.write)
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    else:
        print(text)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| ours" not in line]
    return int(any(row.rstrip(" |").endswith("**") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
