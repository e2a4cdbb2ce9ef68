"""The shipped suites name known workloads, right parameters and declared metrics, on every platform they speak of."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from pytest_accel.workloads import registry

SUITES = sorted((Path(__file__).parents[2] / "suites").glob("*.accel.yaml"))
MINE = [path for path in SUITES if path.name.split(".")[0] in ("operators", "precision", "throughput")]


def variants(path, platform):
    suite = yaml.safe_load(path.read_text())
    for case in suite["cases"]:
        case = {**suite.get("defaults", {}), **case}
        overlay = case.get("platforms", {}).get(platform, {})
        params = {**case.get("params", {}), **overlay.get("params", {})}
        matrix = case.get("matrix", {})
        for values in itertools.product(*matrix.values()):
            yield case, {**params, **dict(zip(matrix, values, strict=True))}, overlay


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "ascend"])
@pytest.mark.parametrize("path", MINE, ids=lambda path: path.name)
def test_every_variant_fits_its_workload(path, platform):
    seen = 0
    for case, params, overlay in variants(path, platform):
        known = registry.lookup(case["workload"])
        assert known is not None
        assert registry.signature_problem(known, params) is None, case["name"]
        assert set(overlay.get("metrics", {})) | set(case.get("metrics", {})) <= set(known.metrics)
        seen += 1
    assert seen > 5


def test_every_operator_of_the_tier_is_in_torchs_database_with_its_dtype():
    pytest.importorskip("torch")
    from pytest_accel.workloads import opinfo
    from pytest_accel.workloads.inputs import torch_dtype

    (path,) = [path for path in MINE if path.name.startswith("operators")]
    names = set()
    for _, params, _ in variants(path, "cpu"):
        entries = opinfo.find(params["op"], "")
        assert any(torch_dtype(params["dtype"]) in entry.dtypes for entry in entries), params
        names.add(params["op"])
    assert len(names) >= 112
