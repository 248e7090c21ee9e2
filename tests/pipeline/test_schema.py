"""config/schema.json is what the model says; `make schema` writes it."""

import json

import jsonschema
import pytest
import yaml

from samples import ROOT
from tilewave import plots
from tilewave.pipeline.config import json_schema

SCHEMA = ROOT / "config" / "schema.json"


def test_schema_is_current():
    assert SCHEMA.read_text() == json_schema(), "run `make schema`"


def test_options_are_documented():
    assert (ROOT / "docs" / "options.md").read_text() == plots.documented(), "run `make schema`"


@pytest.mark.parametrize("name", ["config.yaml", "smoke.yaml"])
def test_shipped_configs_pass(name):
    data = yaml.safe_load((ROOT / "config" / name).read_text())
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))


def test_unknown_keys_fail():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"studies": {}, "tmiing": {}}, json.loads(SCHEMA.read_text()))
