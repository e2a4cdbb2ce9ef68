"""Manifests: which operators there must be, read without torch; what is new and what is gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_accel.errors import ConfigError
from pytest_accel.workloads.opcover import census, manifest
from pytest_accel.workloads.opcover.families import OTHER, family_of
from pytest_accel.workloads.opcover.manifest import Entry, as_text


@pytest.fixture(autouse=True)
def forgetful(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ACCEL_CACHE", str(tmp_path / "cache"))
    manifest.installed.cache_clear()
    manifest.shipped.cache_clear()
    yield
    manifest.installed.cache_clear()
    manifest.shipped.cache_clear()


@pytest.fixture
def frozen(monkeypatch, tmp_path):
    """Ship these manifests instead: version -> entries; and let this torch be installed."""

    def put(installed, **texts):
        folder = tmp_path / "manifests"
        folder.mkdir()
        for version, entries in texts.items():
            version = version.strip("v").replace("_", ".")
            (folder / f"torch-{version}.json").write_text(as_text(version, entries))
        monkeypatch.setattr(manifest, "FOLDER", folder)
        monkeypatch.setattr(manifest, "_installed_version", lambda: installed)

    return put


def of(op, *dtypes, variant="", backward=()):
    return Entry(op, variant, dict.fromkeys(dtypes, 3), frozenset(backward))


def test_suites_get_their_variants_without_torch_being_imported():
    code = (
        "import sys; from pytest_accel.workloads.opcover import manifest as m; made = m.forward(); "
        "assert len(made.params) > 1500; assert 'torch' not in sys.modules; "
        "assert {'op': 'add', 'dtype': 'float16'} in made.params"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_shipped_manifest_is_what_the_installed_database_has():
    pytest.importorskip("torch")
    known = manifest.frozen(manifest._installed_version() or "")
    if known is None:
        pytest.skip("this torch has no frozen manifest")
    now = {(entry.op, entry.variant): entry for entry in census.take(count_samples=False)}
    assert set(now) == set(known.entries)
    assert all(set(now[key].forward) >= set(known.entries[key].forward) & {"float32", "float16"} for key in now)


def test_a_manifest_survives_its_file(tmp_path):
    entries = [of("add", "float32", "int8", backward=["float32"]), of("div", "float16", variant="floor_rounding")]
    path = tmp_path / "m.json"
    path.write_text(as_text("2.20.0+cpu", entries))
    read = manifest._read(path)
    assert (read.torch, read.minor) == ("2.20.0", "2.20")
    assert list(read.entries.values()) == entries
    assert read.has("add", "", "float32", backward=True)
    assert not read.has("add", "", "int8", backward=True)


def test_what_an_older_torch_has_is_removed_and_what_a_newer_one_has_is_not_there_yet(frozen):
    frozen(
        "2.20.1",
        v2_19_0=[of("old", "float32"), of("add", "float32", "float16")],
        v2_20_0=[of("add", "float32"), of("div", "float32", variant="no")],
        v2_21_0=[of("add", "float32"), of("new", "float32")],
    )
    made = manifest.forward()
    assert list(made.params) == [{"op": "add", "dtype": "float32"}, {"op": "div", "dtype": "float32", "variant": "no"}]
    gone = {(params["op"], params["dtype"]): why for params, why in made.gone}
    assert set(gone) == {("old", "float32"), ("add", "float16"), ("new", "float32")}
    assert gone["old", "float32"].startswith("removed in torch 2.20.0")
    assert "no longer has float16 for it" in gone["add", "float16"]
    assert "does not have it in its operator database yet (torch 2.21.0 has)" in gone["new", "float32"]


def test_dtypes_and_directions_are_told_apart(frozen):
    frozen("2.20.0", v2_20_0=[of("mul", "float32", "int8", "complex64", backward=["float32", "complex64"])])
    assert [each["dtype"] for each in manifest.other_dtypes().params] == ["complex64", "int8"]
    assert [each["dtype"] for each in manifest.backward().params] == ["float32"]
    assert [each["dtype"] for each in manifest.backward_other_dtypes().params] == ["complex64"]


def test_a_torch_without_a_frozen_manifest_gets_one_made_once_in_a_child_process(frozen, monkeypatch, tmp_path):
    frozen("2.99.0.dev20300101", v2_20_0=[of("add", "float32")])
    calls = []

    def run(command, **options):
        calls.append((command, options["env"]))
        tmp_path.joinpath("cache", "torch-2.99.0.dev20300101.json").write_text(
            as_text("2.99.0", [of("sub", "float32")])
        )
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(manifest.subprocess, "run", run)
    assert [each["op"] for each in manifest.forward().params] == ["sub"]
    manifest.installed.cache_clear()
    assert [each["op"] for each in manifest.forward().params] == ["sub"]
    ((command, environment),) = calls
    assert "pytest_accel.workloads.opcover.census" in command
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_a_database_that_cannot_be_read_is_a_configuration_error(frozen, monkeypatch):
    frozen("2.99.0", v2_20_0=[of("add", "float32")])
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nModuleNotFoundError: No module named 'expecttest'\n")
    monkeypatch.setattr(manifest.subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(ConfigError, match=r"cannot be read: .*expecttest.*pip install"):
        manifest.forward()


def test_a_broken_manifest_is_told_with_its_path(tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"schema": "else", "torch": "2.1", "operators": []}))
    with pytest.raises(ConfigError, match=r"m\.json"):
        manifest._read(path)


def test_every_operator_has_a_family_and_the_rest_is_arithmetic():
    wanted = {
        "mm": "gemm",
        "nn.functional.scaled_dot_product_attention": "attention",
        "nn.functional.layer_norm": "normalisation",
        "linalg.svd": "linear algebra",
        "softmax": "softmax",
        "index_select": "indexing",
        "nn.functional.silu": "activation",
        "isin": "indexing",
        "add": OTHER,
    }
    assert {op: family_of(op) for op in wanted} == wanted
