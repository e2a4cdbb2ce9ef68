"""``pytest-accel lint-ops``: messages with file and line, an exit code, and the suite that tests the replacements."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_accel.cli import main
from pytest_accel.errors import ConfigError
from pytest_accel.suite.expand import expand
from pytest_accel.suite.load import load_suite
from pytest_accel.workloads import registry

FILE = """\
exclude_ops: [silu]
replace_ops:
  silu: torch.nn.functional:silu
  softmax: {implementation: torch:softmax, dtypes: [fp16]}
fallback_policy: error
"""


def test_mistakes_are_one_a_line_with_file_and_line_and_the_exit_code_is_that_of_a_wrong_file(tmp_path, capsys):
    pytest.importorskip("torch")
    path = tmp_path / "ops.yaml"
    path.write_text(FILE + "precision_override: {softmax: fp16, sofmax: fp32}\n")
    assert main(["lint-ops", str(path)]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": error: ")[0] for line in lines[:-1]] == [f"{path}:3", f"{path}:6", f"{path}:6"]
    assert "both excluded and replaced" in lines[0]
    assert "did you mean `softmax`?" in lines[-2]
    assert lines[-1] == f"{path}: 3 error(s), 0 warning(s), 2 replacement(s)"


def test_a_sound_file_passes_and_its_suite_loads_and_fits_the_workload(tmp_path, capsys):
    path, suite = tmp_path / "ops.yaml", tmp_path / "mine.accel.yaml"
    path.write_text(FILE.replace("exclude_ops: [silu]\n", ""))
    assert main(["lint-ops", str(path), "--suite", str(suite)]) == 0
    variants = expand(load_suite(Path(suite), platforms=["cpu"]), "cpu")
    found = [(variant.case, variant.params["dtype"]) for variant in variants]
    assert found == [("silu", "float32"), ("silu", "float16"), ("silu", "bfloat16"), ("softmax", "float16")]
    for variant in variants:
        assert registry.signature_problem(registry.WORKLOADS[variant.workload], variant.params) is None


def test_without_torch_it_says_what_it_did_not_check(tmp_path, capsys, monkeypatch):
    from pytest_accel.workloads import replacement_lint

    path = tmp_path / "ops.yaml"
    path.write_text("fallback_policy: error\nexclude_ops: [sofmax]\n")
    monkeypatch.setattr(replacement_lint, "known_operators", lambda: None)
    assert main(["lint-ops", str(path)]) == 0
    assert "was not checked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("exclude_ops: silu\n", [], "ops.yaml:1: exclude_ops"),
        ("fallback_policy: error\n", ["--suite", "mine.yaml"], "end in .accel.yaml"),
        ("fallback_policy: error\n", ["--suite", "mine.accel.yaml"], "replaces nothing"),
    ],
)
def test_a_file_or_option_that_cannot_be_used_is_one_message(tmp_path, capsys, monkeypatch, text, more, words):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("ops.yaml").write_text(text)
    assert main(["lint-ops", "ops.yaml", *more]) == 4
    assert words in capsys.readouterr().err
    with pytest.raises(ConfigError):
        load_suite(tmp_path / "mine.accel.yaml", platforms=["cpu"])
