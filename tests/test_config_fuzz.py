"""A few of the configs that `python tests/config_fuzz.py 10000` tries, and those that it found."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import config_fuzz
from tilewave import operations, plots


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fuzzed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        config_fuzz.prepare(made)
        yield made
    for modules in (operations.MODULES, plots.MODULES):
        modules.use([])


@settings(
    max_examples=25, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(one=config_fuzz.configs())
def test_a_plan_or_one_line(folder, one):
    config_fuzz.outcome(one, folder)
