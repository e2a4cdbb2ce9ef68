"""The JSON Schema that ships is made from the code, and says of a suite what the loader says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_accel.suite.schema import SHIPPED, as_text, json_schema


def valid(case: dict[str, Any], **top: Any) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    suite = {"schema": "pytest-accel/suite/1", "cases": [{"name": "a", "workload": "w", **case}], **top}
    return bool(jsonschema.Draft202012Validator(json_schema()).is_valid(suite))


def test_the_shipped_schema_is_the_one_made_from_the_code():
    assert SHIPPED.read_text(encoding="utf-8") == as_text(), (
        "run: python -m pytest_accel.suite.schema > the shipped file"
    )


def test_the_module_prints_the_schema():
    ran = subprocess.run(
        [sys.executable, "-m", "pytest_accel.suite.schema"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == as_text()


def test_the_schema_is_itself_valid_and_describes_every_field():
    schema = json_schema()
    pytest.importorskip("jsonschema").Draft202012Validator.check_schema(schema)
    for model in (schema, *schema["$defs"].values()):
        assert all("description" in field for field in model["properties"].values())
        assert model["additionalProperties"] is False


def test_the_shipped_suites_are_valid():
    jsonschema = pytest.importorskip("jsonschema")
    for path in sorted((Path(__file__).parents[2] / "suites").glob("*.accel.yaml")):
        jsonschema.validate(json.loads(json.dumps(yaml.safe_load(path.read_text()))), json_schema())


@pytest.mark.parametrize(
    "case",
    [
        {"params": {"n": 1, "t": None, "l": [1, {"a": "b"}]}, "matrix": {"d": ["a", 1]}},
        {"metrics": {"t": {"worse_by": "3%", "floor": 1e-3, "max": "1e-3", "better": "lower", "equals": "native"}}},
        {
            "requires": {
                "platform": "cuda",
                "memory": "2GiB",
                "devices": 2,
                "capability": ">=8.0",
                "package": ["triton"],
            }
        },
        {"waive": {"status": ["unsupported"], "reason": "r", "issue": "i", "expires": "2027-01-31"}, "timeout": "60s"},
        {
            "waive": [{"metrics": {"t": {"up_to": "8%"}}, "reason": "r", "issue": "i", "expires": "2027-01-31"}],
            "timeout": 60,
        },
        {"platforms": {"cpu": {"params": {"n": 2}}}, "settings": {"allow_tf32": False}, "tier": "smoke"},
    ],
)
def test_what_the_loader_takes_the_schema_takes(case):
    assert valid(case)


@pytest.mark.parametrize(
    "case",
    [
        {"worklaod": "w"},
        {"metrics": {"t": {"worse_buy": 1}}},
        {"metrics": {"t": {"better": "less"}}},
        {"metrics": {"t": {"worse_by": "much"}}},
        {"tier": "nightly"},
        {"matrix": {"d": []}},
        {"matrix": {"d": 1}},
        {"timeout": "soon"},
        {"timeout": None},
        {"requires": {"memory": "2gb"}},
        {"requires": {"devices": 0}},
        {"waive": {"reason": "r", "issue": "i", "expires": "2027-01-31"}},
        {"platforms": {"cpu": {"name": "x"}}},
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(case):
    assert not valid(case)


def test_the_schema_wants_its_own_name_and_a_case():
    assert not valid({}, schema="pytest-accel/suite/2")
    assert not valid({}, cases=[])
    assert not valid({}, suite="py")
