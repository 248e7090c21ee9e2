"""Config: its cases, a clear line for every mistake, and the files that are generated from its model."""

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import plot_options
from samples import FRONT, ROOT, config, refused, table, write_kernel
from tilewave import plots
from tilewave.__main__ import main
from tilewave.basics import validation
from tilewave.basics.errors import UserError
from tilewave.basics.validation import yaml_of
from tilewave.pipeline import project
from tilewave.pipeline.cases import MOST_CASES, MOST_LISTED
from tilewave.pipeline.config import Config, json_schema
from tilewave.pipeline.parameters import split_names

CASES = table("config")

WHERE = "my.yaml"
BLOCK = {"kernels": ["matmul_naive"], "shapes": [64]}


def load(data):
    return project.load(data, WHERE)


def refusal(data):
    """Return the one-line message that ends a run with this config."""
    return refused(data, WHERE, WHERE)


def block(**keys):
    return config({**BLOCK, **keys})


def study(**keys):
    return {"studies": {"s": {"plot": "ladder", "title": "t", "cases": [BLOCK], **keys}}}


def cases(data):
    return list(load(data).plan.cases)


SCHEMA = ROOT / "config" / "schema.json"


@pytest.mark.parametrize("name", ["config.yaml", "smoke.yaml", "probes.yaml"])
def test_shipped_configs_load_and_pass(name):
    data = yaml.safe_load((ROOT / "config" / name).read_text())
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    plan = load(data).plan
    assert set(plan.studies) == set(data["studies"])
    assert len(plan.cases) == len(set(plan.cases))


ANY = study()["studies"]["s"]
CASE = "studies.study.cases.0"
SWEEP = {"m": {"from": 1, "to": 1000, "step": 1}, "n": 1, "k": 1}
PROBE = {"kernels": ["shared_access"], "operation": "probe"}
MISTAKES = yaml.safe_load((ROOT / "tests/data/config_mistakes.yaml").read_text())
LARGE = {
    "most": (block(most=10**9), f"{CASE}.most", str(MOST_CASES)),
    "cases": (config(*[{**BLOCK, "shapes": [SWEEP]}] * 21), "studies", f"{MOST_LISTED} cases"),
    "shapes": (block(shapes=[1] * 1001), f"{CASE}.shapes", "1000 items"),
    "number of 5000 digits": (config(seed=10**5000), "seed", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(mistake):
    """Each message names the key as the file has it, not pydantic's name of a branch of a union."""
    makers = {"config": config, "study": study, "block": block, "whole": dict}
    (data,) = (make(**mistake[of]) for of, make in makers.items() if of in mistake)
    message = refusal(data)
    assert message.startswith(f"{WHERE}: {mistake['key'].replace('CASE', CASE)}")
    assert mistake.get("remedy", "") in message


@pytest.mark.parametrize(("data", "key", "remedy"), LARGE.values(), ids=LARGE)
def test_what_is_too_large(data, key, remedy):
    message = refusal(data)
    assert message.startswith(f"{WHERE}: {key}") and remedy in message


def test_shapes_that_only_others_give():
    naive = {**BLOCK, "kernels": ["matmul_naive"], "macros": "defaults"}
    tiled = {**naive, "kernels": ["matmul_tiled"], "shapes": ["elsewhere"]}
    data = study(cases=[{**naive, "shapes": [16]}, tiled], tune=True)
    assert cases(data) == ["matmul_naive@16x16x16"]
    assert cases({**data, "shapes": "64"}) == ["matmul_naive@64x64x64", "matmul_tiled@64x64x64"]


def test_only_suggests_no_empty_word():
    assert not re.search("Allowed: ,|, ,", refusal(config(PROBE, only="x")))


@pytest.mark.parametrize("shapes, ids", CASES["forms of shapes"])
def test_shape_forms(shapes, ids):
    names = cases(block(shapes=shapes, macros="defaults"))
    assert names == [f"matmul_naive@{shape_id}" for shape_id in ids]


@pytest.mark.parametrize("macros, variants", CASES["macros"])
def test_macros(tmp_path, macros, variants):
    write_kernel(tmp_path)
    entry = {"kernels": ["sample"], "shapes": [64], "macros": macros}
    data = config(entry, kernel_folders=[str(tmp_path)])
    assert [name.split("@")[0] for name in cases(data)] == variants


def test_where_leaves_out_what_makes_no_sense(tmp_path):
    write_kernel(tmp_path, front=FRONT + "where: [not (REAL == f64 and TILE == 32)]\n")
    entry = {"kernels": ["sample"], "shapes": [64]}
    folders = [str(tmp_path)]
    names = cases(config(entry | {"macros": "product"}, kernel_folders=folders))
    assert "sample-realf64-tile32@64x64x64" not in names
    assert len(names) == 3
    chosen = {"REAL": "f64", "TILE": 32}
    assert "macros" in refusal(config(entry | {"macros": chosen}, kernel_folders=folders))


def test_one_file_is_one_kernel(tmp_path):
    """A new file in a further folder takes part in every study of `all`, with no list to edit."""
    write_kernel(tmp_path, "mine")
    data = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    before = load(data).plan
    after = load(data | {"kernel_folders": ["kernels", str(tmp_path)]}).plan
    fresh = set(after.cases) - set(before.cases)
    assert {name.split("@")[0] for name in fresh} >= {"mine", "mine-realf64"}
    assert "mine@4096x4096x4096" in after.studies["ladder"]
    assert set(before.cases) <= set(after.cases)


def test_block_overrides_its_study():
    blocks = [BLOCK | {"macros": "defaults", "counters": "none"}, BLOCK | {"time": False}]
    first, second = load(study(time=True, counters="memory", cases=blocks)).plan.cases.values()
    assert (first.time, first.counters) == (True, {"memory"})  # both blocks ask for it
    assert (second.time, second.counters) == (False, {"memory"})


@pytest.mark.parametrize(
    ("only", "variants"),
    [
        ("matmul_naive", {"matmul_naive", "matmul_naive-realf64"}),
        ("matmul_tiled matmul_naive-realf64 f64", {"matmul_naive-realf64", "matmul_tiled-realf64"}),
        ("matmul_naive, f64", {"matmul_naive-realf64"}),
        (["matmul_naive", "f64"], {"matmul_naive-realf64"}),
        (64, {"matmul_naive", "matmul_naive-realf64", "matmul_tiled", "matmul_tiled-realf64"}),
        ("study 64x64x64 f32", {"matmul_naive", "matmul_tiled"}),
    ],
    ids=str,
)
def test_only(only, variants):
    """`only` may be a number, because `--config only=64` is read as one."""
    entry = {"kernels": ["matmul_naive", "matmul_tiled"], "shapes": [64, 128]}
    names = cases(config(entry, only=only))
    assert {name.split("@")[0] for name in names} == variants
    if "64" in split_names(only) if isinstance(only, str) else only == 64:
        assert all(name.endswith("@64x64x64") for name in names)


@pytest.mark.parametrize(
    ("shapes", "raced"),
    [("", {"64x64x64"}), (96, {"96x96x96"}), ("96, 32x64x16", {"96x96x96", "32x64x16"})],
    ids=str,
)
def test_shapes_are_those_of_tuning_runs_alone(shapes, raced):
    studies = {
        "raced": ANY | {"tune": True},
        "of_raced_blocks": ANY | {"cases": [BLOCK | {"tune": True}]},
        "timed": ANY | {"time": True},
    }
    plan = load({"studies": studies, "shapes": shapes}).plan
    shape = {name: case.shape.id for name, case in plan.cases.items()}
    by_study = {name: {shape[case] for case in plan.studies[name]} for name in studies}
    assert by_study == {"raced": raced, "of_raced_blocks": raced, "timed": {"64x64x64"}}


def test_only_does_not_change_how_a_case_is_measured():
    """Metrics are part of the key, so a narrowed run must find what the full run stored."""
    about = {**ANY, "cases": [BLOCK | {"macros": "defaults"}]}
    metric_sets = {"first": "memory", "second": "quantization"}
    studies = {name: {**about, "counters": metrics} for name, metrics in metric_sets.items()}
    (full,) = load({"studies": studies}).plan.cases.values()
    (narrow,) = load({"studies": studies, "only": "first"}).plan.cases.values()
    assert narrow.counters == full.counters == {"memory", "quantization"}
    assert narrow.studies == ("first",)


def test_a_study_with_a_few_races_is_none_of_races():
    """The config's `shapes` replace those of tuning runs, and not of cases that are only timed beside them."""
    timed, raced = BLOCK | {"time": True}, BLOCK | {"tune": True}
    studies = {
        "races": {**ANY, "tune": True, "cases": [BLOCK, timed]},
        "each": {**ANY, "cases": [raced, raced | {"shapes": [64]}]},
        "few": {**ANY, "cases": [raced, timed]},
    }
    loaded = load({"studies": studies}).config.studies
    assert [name for name, study in loaded.items() if study.tunes] == ["races", "each"]


def test_parts_name_their_studies_and_cover_all_of_them():
    studies = dict.fromkeys(("first", "second", "third"), ANY)
    data = {"studies": studies, "parts": {"some": ["first", "third"]}, "only": "some"}
    assert list(load(data).plan.studies) == ["first", "third"]
    data = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    members = [name for part in data["parts"].values() for name in part]
    assert sorted(members) == sorted(data["studies"])


def test_every_key_is_described():
    text = (ROOT / "config" / "README.md").read_text()
    schema = Config.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    keys = {key for model in models for key in model.get("properties", {})}
    assert {key for key in keys if f"`{key}`" not in text} == set()


def test_a_block_leaves_out_kernels_with_too_many_variants():
    """matmul_two_outputs has two, matmul_tiled four of f32 and eight of f64."""
    entry = {"kernels": ["matmul_two_outputs", "matmul_tiled"], "macros": "product", "shapes": [64]}

    def kernels(**more):
        return {name.split("@")[0].split("-")[0] for name in cases(config(entry | more))}

    assert kernels(most=2) == {"matmul_two_outputs"}
    assert kernels(most=4, dtypes=["f32"]) == {"matmul_two_outputs", "matmul_tiled"}
    assert kernels(most=4) == {"matmul_two_outputs"}
    assert len(cases(config(entry | {"most": 12}))) == 14
    assert "most" in refusal(config(entry | {"most": 0}))


def test_cases_of_studies_that_are_left_out_take_no_room():
    """Two studies that together have too many cases can each be run alone."""
    large = study(cases=[{**BLOCK, "shapes": [SWEEP]}] * 11)["studies"]["s"]
    both = {"studies": {"first": large, "second": large}}
    assert f"{MOST_LISTED} cases" in refusal(both)
    assert len(load({**both, "only": "second"}).plan.studies) == 1


FILES = {
    "binary": (b"\x7fELF\x02\x01\x00\xff", "byte 7 (0xff) is not UTF-8"),
    "null bytes": (b"studies: \0", "line 1"),
    "empty": (b"", "holds nothing instead of a mapping of keys"),
    "python": (b"seed: !!python/object/apply:os.getcwd []", "YAML"),
    "date": (b"seed: 2020-99-99", "quotation marks"),
    "twice": (b"seed: 1\nseed: 2", "line 2: the key seed stands twice"),
    "size": (b"#" * 2**21, "more than 1048576 bytes"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_config(alone, capsys, content, message):
    Path(WHERE).write_bytes(content)
    assert main(["report", "--configfile", WHERE]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"Error: {WHERE}: ") and err.count("\n") == 1 and not out
    assert message in err
    assert [path.name for path in alone.iterdir()] == [WHERE]


@pytest.mark.parametrize("name", ["nowhere.yaml", ".", "x" * 5000])
def test_no_file_at_all(name):
    with pytest.raises(UserError, match="Name a config file"):
        validation.read_mapping(Path(name), name)


def test_merged_keys_may_stand_again():
    text = "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}\nd: {<<: *b}"
    assert yaml_of(text)["c"] == {"x": 2, "y": 3}


ODD = [
    None, True, -1, 0, 0.5, 1e308, float("nan"), 2**31, 10**30, "", "a" * 300, "a\nb", "../x", "/proc/self/x",
    "9**9**9", "1/0", "sms.__class__", "64x", "0x0x0", [], {}, [[]], {"": 1}, {1: 2}, b"bytes",
    {"from": 1, "to": 10**9, "step": 1}, {"TILE": [16, 32] * 500}, list(range(2000)),
]  # fmt: skip


def places(data):
    """Yield every mapping and list of a document, with each of its keys."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        yield data, key
        if isinstance(value, dict | list):
            yield from places(value)


@settings(
    max_examples=25, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_a_plan_or_one_line(data):
    """Any value, and any unknown key, gives a plan or a message of one line."""
    more = {"macros": {"TILE": [16, 32]}, "shapes": [64, "64x65x7", {"m": [1, 2], "n": 3, "k": 4}]}
    about = {"time": True, "options": {"log": True}, "style": {}}
    document = copy.deepcopy(study(cases=[BLOCK | more], **about))
    document |= {"timing": {"rounds": 3}, "output": {"results": "r"}, "only": "64", "gpu": 0}
    for _ in range(data.draw(st.integers(1, 3))):
        inside, key = data.draw(st.sampled_from(list(places(document))))
        odd = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        if isinstance(inside, dict) and data.draw(st.booleans()):
            inside[data.draw(st.sampled_from(["x", "a.b", 7]))] = odd
        else:
            inside[key] = odd
    try:
        load(document)
    except UserError as error:
        assert "\n" not in str(error) and re.search(r"\. [A-Z]", str(error))
        assert str(error).startswith(f"{WHERE}: ") and error.key


DECLARED = """
from __future__ import annotations
from typing import Literal
from pydantic import Field
from tilewave.plots.options import PlotOptions
class Options(PlotOptions):
    colour: Literal["red", "blue"] = Field("red", description="of the bars")
"""


def test_options_of_a_user_defined_plot(tmp_path):
    (tmp_path / "declared.py").write_text(DECLARED)
    (tmp_path / "free.py").write_text("READING = ''\n")
    folders = {"plot_folders": [str(tmp_path)]}
    for plot, colour in (("declared", "blue"), ("free", {"any": ["thing"]})):
        load(study(plot=plot, options={"colour": colour}) | folders)
    wrong = study(plot="declared", options={"colour": "green"}) | folders
    assert "options.colour is 'green'" in refusal(wrong)
    plots.check_options("ladder", {"lecture": None, "bandwidth": None})
    plots.MODULES.use([])


def test_schema_is_current():
    assert SCHEMA.read_text() == json_schema(), "run `make schema`"


def test_options_are_documented():
    assert (ROOT / "docs" / "options.md").read_text() == plot_options.written(), "run `make schema`"
