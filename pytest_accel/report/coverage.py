"""Operator coverage in words: how many are supported, which were lost and won, by family; and a matrix operator by dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.report.types import CaseResult
from pytest_accel.workloads.catalog.shared import STATUS
from pytest_accel.workloads.opcover.families import family_of

SCHEMA = "pytest-accel/coverage/1"
WORKLOADS = {"operator": "forward", "operator_backward": "backward"}
GOOD = "supported"
NAMED = 6  # operators named in a line of the terminal; all are in the files
MISSING = "missing"
ERROR = "error"  # an error whose text means nothing known
NOT_MEASURED = "not-measured"


@dataclass(frozen=True)
class Cell:
    """One operator in one dtype and direction: its status now, and the accepted one ("" where there is none)."""

    op: str
    dtype: str
    direction: str
    now: str
    was: str

    @property
    def family(self) -> str:
        """The operator's family."""
        return family_of(self.op.partition(":")[0])

    @property
    def name(self) -> str:
        """``nn.functional.silu(float16)``, with the direction where it is not the usual one."""
        inside = self.dtype if self.direction == "forward" else f"{self.dtype}, {self.direction}"
        return f"{self.op}({inside})"


def cells_of(results: Iterable[CaseResult]) -> list[Cell]:
    """The cells of a run's own results."""
    return cells_of_cases({**vars(result), "record": {"workload": result.workload}} for result in results)


def cells_of_cases(cases: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """The cells of a results file's ``cases``; variants of other workloads are left out."""
    found = []
    for case in cases:
        workload = (case.get("record") or {}).get("workload", "")
        params = case.get("params") or {}
        direction = WORKLOADS.get(workload)
        if direction is None or "op" not in params:
            continue
        op = params["op"] + (f":{params['variant']}" if params.get("variant") else "")
        status = (case.get("metrics") or {}).get("status") or {}
        now = status.get("value") or _fault(case)
        was = status.get("baseline") or (case.get("notes") or {}).get("was") or ""
        found.append(Cell(op, str(params.get("dtype", "float32")), direction, str(now), str(was)))
    return found


def _fault(case: Mapping[str, Any]) -> str:
    """The status of a variant that gave no metrics: how it failed."""
    if case.get("code") in STATUS:
        return str(case["code"])
    verdict = case.get("verdict")
    return MISSING if verdict == "MISSING" else ERROR if verdict == "REGRESSION" else NOT_MEASURED


def lines(cells: Sequence[Cell]) -> list[str]:
    """One line for all, then one a family in which something changed. Empty without cells."""
    if not cells:
        return []
    families: dict[str, list[Cell]] = {}
    for cell in cells:
        families.setdefault(cell.family, []).append(cell)
    found = [f"operators: {line(cells, changes=False)}"]
    for family in sorted(families):
        if any(_changed(cell) for cell in families[family]):
            found.append(f"  {family}: {line(families[family])}")
    return found


def line(cells: Sequence[Cell], changes: bool = True) -> str:
    """``supported 118/127 (was 121) · −2 fallback: isin, unique``; without ``changes`` the states that are not supported."""
    good = sum(cell.now == GOOD for cell in cells)
    known = [cell for cell in cells if cell.was]
    before = sum(cell.was == GOOD for cell in known)
    text = f"{GOOD} {good}/{len(cells)}"
    if known and (before != good or any(map(_changed, cells))):
        text += f" (was {before})"
    parts = [text]
    if not changes:
        counts = {word: sum(cell.now == word for cell in cells) for word in dict.fromkeys(cell.now for cell in cells)}
        parts += [f"{count} {word}" for word, count in sorted(counts.items(), key=_by_order) if word != GOOD]
        return " · ".join(parts)
    groups: dict[tuple[bool, str], list[str]] = {}
    for cell in cells:
        if _changed(cell):
            up = _rank(cell.now) < _rank(cell.was)
            groups.setdefault((up, cell.now), []).append(cell.name)
    for (up, word), names in sorted(groups.items(), key=lambda pair: (pair[0][0], _rank(pair[0][1]))):
        shown = ", ".join(names[:NAMED]) + (f", … {len(names) - NAMED} more" if len(names) > NAMED else "")
        parts.append(f"{'+' if up else '−'}{len(names)} {word}: {shown}")
    return " · ".join(parts)


def _changed(cell: Cell) -> bool:
    return bool(cell.was) and cell.now != cell.was


def _rank(word: str) -> int:
    return STATUS.index(word) if word in STATUS else len(STATUS)


def _by_order(pair: tuple[str, int]) -> int:
    return _rank(pair[0])


# --- files -----------------------------------------------------------------------------------------------------------------
def as_json(cells: Sequence[Cell]) -> dict[str, Any]:
    """The matrix and the counts by family, as plain data."""
    matrix: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for cell in cells:
        state = {"status": cell.now} | ({"was": cell.was} if _changed(cell) else {})
        matrix.setdefault(cell.op, {}).setdefault(cell.direction, {})[cell.dtype] = state
    families: dict[str, list[Cell]] = {}
    for cell in cells:
        families.setdefault(cell.family, []).append(cell)
    return {
        "schema": SCHEMA,
        "supported": sum(cell.now == GOOD for cell in cells),
        "asked": len(cells),
        "families": {
            name: {"supported": sum(c.now == GOOD for c in group), "asked": len(group), "line": line(group)}
            for name, group in sorted(families.items())
        },
        "operators": {op: matrix[op] for op in sorted(matrix)},
    }


def as_markdown(cells: Sequence[Cell]) -> str:
    """The same as two tables: families, then operators by dtype; a state that changed stands with what it was."""
    if not cells:
        return "No operator variant was asked for.\n"
    document = as_json(cells)
    text = [f"Supported {document['supported']} of {document['asked']}.", "", "| family | coverage |", "|---|---|"]
    text += [f"| {name} | {facts['line']} |" for name, facts in document["families"].items()]
    columns = sorted({(cell.direction, cell.dtype) for cell in cells}, key=lambda c: (c[0] != "forward", c[1]))
    heads = [dtype if direction == "forward" else f"{dtype} {direction}" for direction, dtype in columns]
    text += ["", f"| operator | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for op, directions in document["operators"].items():
        row = []
        for direction, dtype in columns:
            state = directions.get(direction, {}).get(dtype)
            row.append("" if state is None else _shown(state))
        text.append(f"| `{op}` | {' | '.join(row)} |")
    return "\n".join(text) + "\n"


def _shown(state: Mapping[str, str]) -> str:
    word = "✓" if state["status"] == GOOD else state["status"]
    return f"**{word}** (was {state['was']})" if "was" in state else word
