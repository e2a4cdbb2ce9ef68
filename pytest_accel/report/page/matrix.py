"""Coverage as a matrix: one row an operator, one column a dtype, the status word in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_accel.report.results import Case

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
MOST_ROWS = 800


@dataclass(frozen=True)
class Cell:
    """One variant: its word, its verdict, and the word before where it was another."""

    word: str
    verdict: str
    before: str = ""


@dataclass(frozen=True)
class Matrix:
    """The variants of one suite and direction: ``rows`` are (operator, one cell or None for each column)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    left_out: int = 0

    @property
    def supported(self) -> int:
        """Cells that work and are right."""
        return sum(cell.word == "supported" for _, cells in self.rows for cell in cells if cell)

    @property
    def cells(self) -> int:
        """Cells that were measured."""
        return sum(cell is not None for _, cells in self.rows for cell in cells)


def matrices(cases: Sequence[Case]) -> list[Matrix]:
    """One matrix a suite over all variants that have a ``status`` and name an operator and a dtype."""
    suites: dict[str, dict[str, dict[str, Cell]]] = {}
    for case in cases:
        metric = case.metrics.get("status")
        op, dtype = case.params.get("op"), case.params.get("dtype")
        if not isinstance(op, str) or not isinstance(dtype, str):
            continue
        word = str(metric["value"]) if metric else case.code or case.verdict.lower()
        before = str((metric or {}).get("baseline") or "")
        variant = case.params.get("variant")
        name = f"{op} [{variant}]" if variant else op
        direction = case.params.get("direction")
        title = case.suite + (f", {direction}" if direction else "")
        cell = Cell(word, case.verdict, before if before and before != word else "")
        suites.setdefault(title, {}).setdefault(name, {})[dtype] = cell
    return [_matrix(title, rows) for title, rows in sorted(suites.items())]


def _matrix(title: str, found: dict[str, dict[str, Cell]]) -> Matrix:
    dtypes = sorted({dtype for cells in found.values() for dtype in cells}, key=lambda name: (name not in SHORT, name))
    bad_first = sorted(
        found.items(),
        key=lambda pair: (all(cell.verdict in ("PASS", "IMPROVED") for cell in pair[1].values()), pair[0]),
    )
    rows = tuple((name, tuple(cells.get(dtype) for dtype in dtypes)) for name, cells in bad_first[:MOST_ROWS])
    columns = tuple(SHORT.get(dtype, dtype) for dtype in dtypes)
    return Matrix(title, columns, rows, max(0, len(bad_first) - MOST_ROWS))
