"""Options of the plots: a model in each module, checked before anything runs.

A module with options has a class `Options`, a `PlotOptions` with a field for each: type and bounds, default, a
sentence. `Options.of(study)` gives a study's options. docs/options.md is written from these classes.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(max_length=200)]
"""A name: of a kernel, a variant, a probe's case, an operation, a metric."""
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class _HasOptions(Protocol):
    """A study, or any part of it that has options."""

    @property
    def options(self) -> Mapping[str, Any]: ...


class PlotOptions(BaseModel):
    """The options of one plot module; a module without `Options` has none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @classmethod
    def of(cls, study: _HasOptions) -> Self:
        """Return the options that this class knows, as the study sets them; null is the default."""
        options = without_nulls(study.options)
        return cls.model_validate({key: options[key] for key in options if key in cls.model_fields})


def without_nulls(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not null."""
    return {name: value for name, value in options.items() if value is not None}


DOCUMENT = """\
# Options of the plots

This page lists the `options` of a study by its `plot`; other plots take none. `make schema` writes it from the
modules' `Options`, which check the config before anything runs. Your own plot may have options in the same way
(CONTRIBUTING.md, *A study*).
"""


def document(models: Mapping[str, type[BaseModel]]) -> str:
    """Return docs/options.md: a table for each module."""
    tables = (line for name, model in models.items() for line in _table(name, model))
    return "\n".join([DOCUMENT, *tables])


def _table(name: str, model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    yield from (f"## `{name}`", "", "| option | takes | default | meaning |", "|---|---|---|---|")
    for option, about in schema["properties"].items():
        default = model.model_fields[option].get_default(call_default_factory=True)
        shown = "none" if default is None else f"`{json.dumps(default)}`"
        yield f"| `{option}` | {_takes(about)} | {shown} | {about['description']} |"
    yield ""
    for inner, about in schema.get("$defs", {}).items():
        keys = (f"`{key}`: {_takes(part)}" for key, part in about["properties"].items())
        yield from (f"`{inner}` is a mapping of {'; '.join(keys)}.", "")


def _takes(about: Mapping[str, Any]) -> str:
    """Describe a JSON schema in plain text."""
    if "$ref" in about:
        return f"`{about['$ref'].rpartition('/')[2]}`"
    if "anyOf" in about:
        return " or ".join(_takes(part) for part in about["anyOf"] if part.get("type") != "null")
    if "additionalProperties" in about:
        return f"name -> {_takes(about['additionalProperties'])}"
    if "prefixItems" in about:
        kinds = dict.fromkeys(map(_takes, about["prefixItems"]))
        return f"a list of {len(about['prefixItems'])}: {', '.join(kinds)}"
    if "items" in about:
        return f"a list of {_takes(about['items'])}"
    names = {"integer": "whole number", "number": "number"}
    prefixes = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
    bounds = (f" {word} {about[key]:,.15g}" for key, word in prefixes.items() if key in about)
    return names.get(str(about.get("type")), "text") + "".join(bounds)
