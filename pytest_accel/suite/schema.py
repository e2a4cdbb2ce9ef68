"""The JSON Schema of a suite file, for editors; ``python -m pytest_accel.suite.schema`` prints it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).with_name("suite.schema.json")


def json_schema() -> dict[str, Any]:
    """The schema (JSON Schema draft 2020-12) made from the models that check a suite file."""
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core import core_schema

    from pytest_accel.suite.fields import SCHEMA
    from pytest_accel.suite.model import SuiteModel

    class Generate(GenerateJsonSchema):
        """Pydantic's own, less what would mislead an editor: null stands nowhere in a suite, and absent keys have no default."""

        def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
            return self.generate_inner(schema["schema"])

        def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
            return self.generate_inner(schema["schema"])

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    made = SuiteModel.model_json_schema(schema_generator=Generate)
    return {"$schema": Generate.schema_dialect, "$id": f"urn:{SCHEMA.replace('/', ':')}", **made}


def as_text() -> str:
    """The schema as the shipped file holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
