"""docs/doctor.md names every code that a finding can have, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STACK = ROOT / "pytest_accel" / "stack"
SOURCES = [
    *(STACK / "doctor").glob("*.py"),
    *(
        STACK / f"{name}.py"
        for name in ("choose", "registry", "cuda", "cuda_text", "rocm", "rocm_text", "rocm_visible")
    ),
    *(STACK / f"{name}.py" for name in ("ascend", "ascend_smi")),
]
CODE = re.compile(r"[a-z]+(?:-[a-z]+)+")
ONE_WORD = {"throttled"}
#: Tools, distributions, modules and words of versions in those files: what looks like a code and is none.
NO_CODES = {
    *("nvidia-smi", "npu-smi", "amd-smi", "rocm-smi", "torch-npu", "in-tree", "cuda-runtime"),
    *("nvidia-open", "nvidia-srv", "nvidia-srv-open", "nvidia-current", "nvidia-current-open"),
}


def in_code() -> set[str]:
    words = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                words.add(node.value)
    return (words - NO_CODES) | ONE_WORD


def documented() -> dict[str, str]:
    """The codes of the page's tables with their severity's cell."""
    text = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", text, re.MULTILINE))


def test_every_code_is_documented_and_every_documented_code_exists():
    assert len(documented()) > 50
    assert set(documented()) == in_code()


def test_every_code_has_a_severity_and_a_row_of_its_own():
    text = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert len(rows) == len(set(rows))
    for code, severity in documented().items():
        assert re.search(r"\b(error|warning|note)\b", severity), code


@pytest.mark.parametrize("word", sorted(ONE_WORD))
def test_codes_of_one_word_are_in_the_rules(word):
    assert any(f'"{word}"' in path.read_text(encoding="utf-8") for path in SOURCES)
