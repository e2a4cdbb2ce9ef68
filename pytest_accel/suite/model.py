"""What a suite file may hold. The models check one file's data, and the JSON Schema for editors is made from them."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pytest_accel.suite import fields as f


class Strict(BaseModel):
    """A map of named fields that takes no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectModel(Strict):
    """A gain that an upgrade promises; where it does not come, the promise is called broken."""

    better_by: f.Share = Field(description="By how much better than the baseline it must get: 5%, or an amount")


class MetricModel(Strict):
    """How one metric is judged; what is not said here, the workload's own declaration says."""

    unit: f.Unit | None = Field(None, description="Unit in reports; a time unit makes it a timing")
    better: f.BetterName | None = Field(None, description="Which direction is better")
    worse_by: f.Share | None = Field(None, description="How much worse than the baseline is too much: 3%, or an amount")
    floor: f.Positive | None = Field(None, description="Absolute change below which nothing is worse")
    min: f.Number | None = Field(None, description="Least value allowed, with or without a baseline")
    max: f.Number | None = Field(None, description="Largest value allowed, with or without a baseline")
    equals: f.Scalar | None = Field(None, description="The only value allowed, with or without a baseline")
    expect: ExpectModel | None = Field(None, description="The gain over the baseline that an upgrade promises")


class RequiresModel(Strict):
    """For which machines the case is; on others it is counted and not asked for."""

    platform: f.Platforms | None = Field(None, description="Platforms: cuda, rocm, ascend, cpu")
    memory: f.Size | None = Field(None, description="Least memory of a device, such as 2GiB")
    devices: f.Devices | None = Field(None, description="How many devices the case needs")
    capability: f.Capability | None = Field(None, description='Compute capability, such as ">=8.0"')
    package: f.Packages | None = Field(None, description="Packages that must be importable")


class UpToModel(Strict):
    """How far a waived metric may be worse."""

    up_to: f.Share = Field(description="8%, or a number in the metric's unit; anything beyond is REGRESSION")


class WhenModel(Strict):
    """Where a waiver holds."""

    platform: f.Platforms | None = Field(None, description="Platforms on which the waiver holds; all where absent")


class WaiverModel(Strict):
    """A narrow, dated permission to be worse: it names metrics or status words."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["metrics"]}, {"required": ["status"]}]})

    when: WhenModel | None = Field(None, description="Where the waiver holds")
    metrics: dict[f.NameKey, UpToModel] | None = Field(None, description="Metrics that may be worse, each with how far")
    status: f.Statuses | None = Field(None, description="Status words that are waived, such as unsupported")
    reason: f.Text = Field(description="Why, for whoever reads the report")
    issue: f.Text = Field(description="Where the fault is tracked")
    expires: f.Date = Field(description="Last UTC day on which it waives, such as 2027-01-31")


class _OneOrList:
    """Tells an editor that a waiver may stand alone."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        return {"anyOf": [made["items"], made]}


Waivers = Annotated[
    list[WaiverModel], BeforeValidator(lambda value: value if isinstance(value, list) else [value]), _OneOrList()
]


class LayerModel(Strict):
    """What may be said of a case on one platform."""

    workload: f.Workload | None = Field(None, description="A built-in workload, or package.module:function")
    params_from: f.Function | None = Field(
        None, description="package.module:function that gives the arguments of each variant, without importing torch"
    )
    params: dict[f.NameKey, f.Free] | None = Field(None, description="Arguments of the workload; part of the key")
    matrix: dict[f.NameKey, f.Axis] | None = Field(
        None, description="Lists of arguments; each combination is a variant"
    )
    settings: f.Settings | None = Field(None, description="Settings of the stack pinned for this case; part of the key")
    requires: RequiresModel | None = Field(None, description="For which machines the case is")
    metrics: dict[f.NameKey, MetricModel] | None = Field(None, description="How metrics are judged, by name")
    tier: f.TierName | None = Field(None, description="smoke, gate (default) or full; a tier includes those before it")
    timeout: f.Duration | None = Field(None, description="Longest time for one variant: 60s, 5m, 500ms")
    waive: Waivers | None = Field(None, description="Known faults, waived narrowly and for a time")


class DefaultsModel(LayerModel):
    """What holds for every case that does not say otherwise."""

    platforms: dict[f.PlatformKey, LayerModel] | None = Field(None, description="Laid over every case on that platform")


class CaseModel(DefaultsModel):
    """One declared check; each combination of its matrix is a variant with a baseline of its own."""

    name: f.Name = Field(description="The case's name, part of the key; one of a kind in this file")
    platforms: dict[f.PlatformKey, LayerModel] | None = Field(None, description="Laid over the case on that platform")


class SuiteModel(Strict):
    """A suite of pytest-accel: what is measured, and what may not get worse."""

    schema_: f.SchemaName = Field(alias="schema", description="The version of this form")
    suite: f.SuiteName | None = Field(None, description="The suite's name, part of every key; default: the file's name")
    setup: f.Function | None = Field(None, description="package.module:function, called once in each measuring process")
    defaults: DefaultsModel | None = Field(None, description="Merged under every case")
    cases: list[CaseModel] = Field(min_length=1, description="The cases, in the order in which they are collected")


def known_keys(loc: tuple[str | int, ...]) -> list[str]:
    """The keys that the map at ``loc`` (a pydantic location without its last step) may hold."""
    model: type[BaseModel] = SuiteModel
    named = False  # the next step is a name of the user's
    for step in loc:
        if named or isinstance(step, int):
            named = False
            continue
        found = next((info for name, info in model.model_fields.items() if (info.alias or name) == step), None)
        inner, named = _inner(found.annotation) if found else (None, False)
        if inner is None:
            return []
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The model inside a field's annotation, and whether it stands in a map by name."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for part in get_args(annotation):
        model, named = _inner(part)
        if model is not None:
            return model, named or get_origin(annotation) is dict
    return None, False
