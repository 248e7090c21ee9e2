"""Writes docs/options.md, the options of the plots, from the models that check them.

make schema
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from tilewave import plots  # noqa: E402
from tilewave.plots.options import PlotOptions  # noqa: E402

DOCUMENT = """\
# Options of the plots

This page lists the `options` of a study by its `plot`; other plots take none. `make schema` writes it from the
modules' `Options`, which check the config before anything runs. Your own plot may have options in the same way
(CONTRIBUTING.md, *A study*).
"""


def written() -> str:
    """Return docs/options.md: a table for each module that comes with Tilewave and has options."""
    shipped = [name for name in plots.MODULES.names() if plots.MODULES.file(name) is None]
    models = [(name, plots.options_of(name)) for name in shipped]
    tables = (
        line
        for name, model in models
        if model is not None and model is not PlotOptions
        for line in _table(name, model)
    )
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


if __name__ == "__main__":
    (ROOT / "docs" / "options.md").write_text(written())
