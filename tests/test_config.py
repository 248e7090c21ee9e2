"""Config: how entries become cases, and one clear line for every mistake."""

import pytest
import yaml

from samples import FRONT, ROOT, config, write_kernel
from tilewave import project
from tilewave.config import Config, words
from tilewave.errors import UserError

WHERE = "config/test.yaml"
BLOCK = {"kernels": ["matmul_naive"], "shapes": [64]}


def load(data, **more):
    return project.load(data, WHERE, **more)


def refusal(data):
    """The one-line message that ends a run with this config."""
    with pytest.raises(UserError) as caught:
        load(data)
    message = str(caught.value)
    assert message.startswith(WHERE), message
    assert "\n" not in message
    assert ": found " in message
    assert "; allowed: " in message
    return message


def block(**keys):
    return config({**BLOCK, **keys})


def study(**keys):
    return {"studies": {"s": {"plot": "ladder", "title": "t", "cases": [BLOCK], **keys}}}


def cases(data):
    return list(load(data).plan.requests)


@pytest.mark.parametrize("name", ["config.yaml", "smoke.yaml"])
def test_shipped_configs_load(name):
    data = yaml.safe_load((ROOT / "config" / name).read_text())
    plan = load(data).plan
    assert set(plan.studies) == set(data["studies"])
    assert len(plan.requests) == len(set(plan.requests))


@pytest.mark.parametrize(
    ("data", "key", "allowed"),
    [
        pytest.param(config(tmiing={}), "tmiing", "did you mean 'timing'", id="top key"),
        pytest.param(config(timing={"blok_ms": 1}), "timing.blok_ms", "block_ms", id="section key"),
        pytest.param(study(tme=True), "studies.s.tme", "did you mean 'time'", id="study key"),
        pytest.param(block(kernel="x"), "cases.0.kernel", "did you mean 'kernels'", id="block key"),
        pytest.param(
            block(kernels=["matmul_naiv"]), "cases.0.kernels", "matmul_naive", id="kernel"
        ),
        pytest.param(
            block(kernels=["cublas", "cublas"]), "cases.0.kernels", "once", id="kernel twice"
        ),
        pytest.param(block(macros={"RAEL": "f32"}), "macros.RAEL", "REAL", id="macro"),
        pytest.param(block(macros={"REAL": "f16"}), "macros.REAL", "f32, f64", id="macro value"),
        pytest.param(block(macros="each_dtpye"), "cases.0.macros", "each_dtype", id="macros mode"),
        pytest.param(block(counters="ful"), "cases.0.counters", "quantization", id="metric set"),
        pytest.param(study(counters="ful"), "studies.s.counters", "full", id="study metric set"),
        pytest.param(study(plot="lader"), "studies.s.plot", "did you mean 'ladder'", id="plot"),
        pytest.param(study(title=None), "studies.s.title", "string", id="title"),
        pytest.param(config(architectures=["sm90"]), "architectures.0", "sm_", id="architecture"),
        pytest.param(config(architectures=[]), "architectures", "at least 1", id="architectures"),
        pytest.param(config(kernel_folders=["kernls"]), "kernel_folders.0", "exists", id="folder"),
        pytest.param(config(gpu=-1), "gpu", "greater than or equal to 0", id="gpu"),
        pytest.param(config(strict="relase"), "strict", "bool", id="strict"),
        pytest.param(config(style={"width_mm": 5}), "style.width_mm", "60", id="style"),
        pytest.param(config(timing={"rounds": 0}), "timing.rounds", "1", id="rounds"),
        pytest.param({"studies": {}}, "studies", "at least 1", id="no studies"),
        pytest.param({}, "studies", "required", id="studies missing"),
        pytest.param({"studies": [1]}, "studies", "dictionary", id="studies list"),
        pytest.param({"studies": {"s": "x"}}, "studies.s", "Study", id="study text"),
        pytest.param(
            {"studies": {"Bad Name": study()["studies"]["s"]}}, "Bad Name", "a-z", id="study name"
        ),
        pytest.param(config(only="laddr"), "only", "study", id="only"),
        pytest.param(config(shapes="64"), "shapes", "tune: true", id="shapes without a race"),
        pytest.param(config(shapes="64x64"), "shapes.0", "mxnxk", id="shapes"),
        pytest.param(
            config(shapes="4096³"),
            "shapes.0",
            "invalid character",
            id="a shape as documents write it",
        ),
        pytest.param(config(parts={"one": ["stdy"]}), "parts.one.0", "study", id="part's study"),
        pytest.param(config(parts={"study": ["study"]}), "parts.study", "no study", id="part"),
        pytest.param(
            config(only="cublas"), "only", "at least one case|matmul_naive", id="only none"
        ),
    ],
)
def test_mistakes(data, key, allowed):
    message = refusal(data)
    assert key in message
    assert any(word in message for word in allowed.split("|"))


@pytest.mark.parametrize(
    "shape",
    [
        0,
        -4,
        1.5,
        None,
        "big",
        "64x64",
        "64x-1x64",
        {"m": 1, "n": 2},
        {"m": 1, "n": 2, "k": 3, "l": 4},
        {"m": 0, "n": 1, "k": 1},
        {"m": "big", "n": 1, "k": 1},
        {"m": 1, "n": {"from": 8, "to": 32}, "k": 1},
        {"m": 1, "n": {"from": 0, "to": 32, "step": 8}, "k": 1},
        {"m": 1, "n": {"from": 8, "to": 4, "step": 8}, "k": 1},
    ],
    ids=str,
)
def test_shapes_that_are_no_sizes(shape):
    assert "studies.study.cases.0.shapes" in refusal(block(shapes=[shape]))


@pytest.mark.parametrize("shape", [True, "64x0x64", "0", "-4", "0 * sms"], ids=str)
def test_shapes_that_are_never_positive(shape):
    assert "studies.study.cases.0.shapes" in refusal(block(shapes=[shape]))


def test_no_shapes():
    assert "at least one shape" in refusal(block(shapes=[]))


def test_shapes_that_only_others_give():
    naive = {**BLOCK, "kernels": ["matmul_naive"], "macros": "defaults"}
    tiled = {**naive, "kernels": ["matmul_tiled"], "shapes": ["elsewhere"]}
    data = study(cases=[{**naive, "shapes": [16]}, tiled], tune=True)
    assert cases(data) == ["matmul_naive@16x16x16"]
    assert cases({**data, "shapes": "64"}) == ["matmul_naive@64x64x64", "matmul_tiled@64x64x64"]


def test_dtype_label_that_no_variant_has():
    assert "dtypes" in refusal(block(dtypes=["f23"]))


def test_macro_that_no_kernel_of_all_has():
    assert "macros.TIEL" in refusal(block(kernels="all", macros={"TIEL": 16}))


def test_unknown_operation():
    message = refusal(block(kernels="all", operation="matmull"))
    assert "did you mean 'matmul'" in message


def test_study_without_cases():
    assert "studies.s.cases" in refusal(study(cases=[]))


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (config(only={"a": 1}), "only"),
        (config(only=True), "only"),
        (config(only=[1.5]), "only.0"),
        (study(counters="ful"), "studies.s.counters"),
        (config(strict="relase"), "strict"),
        (block(kernels=[1]), "studies.study.cases.0.kernels.0"),
        (block(shapes=[True]), "studies.study.cases.0.shapes.0"),
        (study(title=None), "studies.s.title"),
        ({"studies": {"Bad Name": study()["studies"]["s"]}}, "studies.Bad Name"),
        ({"studies": {"s": {"plot": "ladder", "title": "t"}}}, "studies.s.cases"),
        (config(studies={"s": {**study()["studies"]["s"], "zzz": 1}}), "studies.s.zzz"),
    ],
    ids=str,
)
def test_keys_are_those_of_the_file(data, key):
    """Pydantic's names for the branches of a union are no keys."""
    assert f"{WHERE}: {key}: found " in refusal(data)


def test_every_branch_tells_what_it_wants():
    message = refusal(study(counters="ful"))
    assert "'memory'" in message and "'none'" in message


def test_only_suggests_no_empty_word():
    data = config({"kernels": ["shared_access"], "operation": "probe"}, only="x")
    assert "allowed: ," not in refusal(data) and ", ," not in refusal(data)


def test_sizes_that_are_positive_on_some_device():
    assert len(cases(block(shapes=["sms - 120", "256 * (sms // 12)"], macros="defaults"))) == 2


def test_unknown_option_of_a_plot():
    assert "options.zzz" in refusal(study(options={"zzz": 1}))


def test_unknown_target():
    assert "target" in refusal(config(target="h1000"))


def test_architecture_that_does_not_exist():
    assert "architectures.0" in refusal(config(architectures=["sm_999"]))


@pytest.mark.parametrize(
    ("shapes", "ids"),
    [
        ([64, 128], ["64x64x64", "128x128x128"]),
        (["512x256x128"], ["512x256x128"]),
        (["128 * sms"], ["128*smsx128*smsx128*sms"]),
        ([{"m": 64, "n": [8, 16], "k": 32}], ["64x8x32", "64x16x32"]),
        ([{"m": 1, "n": {"from": 8, "to": 25, "step": 8}, "k": 2}], ["1x8x2", "1x16x2", "1x24x2"]),
        ([{"m": "256 * sms", "n": [8, {"from": 16, "to": 24, "step": 8}], "k": 4096}],
         ["256*smsx8x4096", "256*smsx16x4096", "256*smsx24x4096"]),
        ([{"m": [1, 2], "n": 3, "k": [4, 5]}], ["1x3x4", "1x3x5", "2x3x4", "2x3x5"]),
        ([64, "64x64x64"], ["64x64x64"]),
    ],
    ids=str,
)  # fmt: skip
def test_shape_forms(shapes, ids):
    assert cases(block(shapes=shapes, macros="defaults")) == [f"matmul_naive@{one}" for one in ids]


def test_symbolic_shapes_resolve_for_a_device():
    plan = load(block(shapes=["256 * sms"], macros="defaults")).plan
    (request,) = plan.requests.values()
    assert request.case.shape.resolve({"sms": 132}) == {"m": 33792, "n": 33792, "k": 33792}


@pytest.mark.parametrize(
    ("macros", "variants"),
    [
        ("defaults", ["sample"]),
        ("each_dtype", ["sample", "sample-realf64"]),
        ("one_at_a_time", ["sample", "sample-realf64", "sample-tile32"]),
        ("product", ["sample", "sample-tile32", "sample-realf64", "sample-realf64-tile32"]),
        ({"TILE": 32}, ["sample-tile32"]),
        ({"TILE": [32, 16], "REAL": "f64"}, ["sample-realf64-tile32", "sample-realf64"]),
        ({"TILE": "32"}, ["sample-tile32"]),
    ],
    ids=str,
)
def test_macros(tmp_path, macros, variants):
    write_kernel(tmp_path)
    data = config(
        {"kernels": ["sample"], "shapes": [64], "macros": macros}, kernel_folders=[str(tmp_path)]
    )
    assert [name.split("@")[0] for name in cases(data)] == variants


def test_where_leaves_out_what_makes_no_sense(tmp_path):
    write_kernel(tmp_path, front=FRONT + "where: [not (REAL == f64 and TILE == 32)]\n")
    given = {"kernels": ["sample"], "shapes": [64]}
    folders = [str(tmp_path)]
    found = cases(config(given | {"macros": "product"}, kernel_folders=folders))
    assert "sample-realf64-tile32@64x64x64" not in found
    assert len(found) == 3
    asked = {"REAL": "f64", "TILE": 32}
    assert "macros" in refusal(config(given | {"macros": asked}, kernel_folders=folders))


def test_one_file_is_one_kernel(tmp_path):
    """A new file in a further folder takes part in every study of `all`, with no list to edit."""
    write_kernel(tmp_path, "mine")
    data = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    before = load(data).plan
    after = load(data | {"kernel_folders": ["kernels", str(tmp_path)]}).plan
    fresh = set(after.requests) - set(before.requests)
    assert {name.split("@")[0] for name in fresh} >= {"mine", "mine-realf64"}
    assert "mine@4096x4096x4096" in after.studies["ladder"]
    assert set(before.requests) <= set(after.requests)


def test_block_overrides_its_study():
    data = study(
        time=True,
        counters="memory",
        cases=[BLOCK | {"macros": "defaults", "counters": "none"}, BLOCK | {"time": False}],
    )
    plan = load(data).plan
    first, second = plan.requests.values()
    assert (first.time, first.counters) == (True, {"memory"})  # both blocks ask for it
    assert (second.time, second.counters) == (False, {"memory"})


@pytest.mark.parametrize(
    ("only", "variants"),
    [
        ("f64", {"matmul_naive-realf64", "matmul_tiled-realf64"}),
        ("matmul_naive", {"matmul_naive", "matmul_naive-realf64"}),
        ("matmul_naive-realf64", {"matmul_naive-realf64"}),
        ("matmul_tiled matmul_naive-realf64 f64", {"matmul_naive-realf64", "matmul_tiled-realf64"}),
        ("matmul_naive, f64", {"matmul_naive-realf64"}),
        (["matmul_naive", "f64"], {"matmul_naive-realf64"}),
        ("64", {"matmul_naive", "matmul_naive-realf64", "matmul_tiled", "matmul_tiled-realf64"}),
        (64, {"matmul_naive", "matmul_naive-realf64", "matmul_tiled", "matmul_tiled-realf64"}),
        ("study 64x64x64 f32", {"matmul_naive", "matmul_tiled"}),
    ],
    ids=str,
)
def test_only(only, variants):
    """A number as well: `--config only=64` is read as one."""
    given = {"kernels": ["matmul_naive", "matmul_tiled"], "shapes": [64, 128]}
    found = cases(config(given, only=only))
    assert {name.split("@")[0] for name in found} == variants
    if "64" in words(only) if isinstance(only, str) else only == 64:
        assert all(name.endswith("@64x64x64") for name in found)


@pytest.mark.parametrize(
    ("shapes", "raced"),
    [("", {"64x64x64"}), (96, {"96x96x96"}), ("96, 32x64x16", {"96x96x96", "32x64x16"})],
    ids=str,
)
def test_shapes_are_those_of_races_alone(shapes, raced):
    given = {"plot": "ladder", "title": "t", "cases": [BLOCK | {"shapes": [64]}]}
    block = BLOCK | {"shapes": [64], "tune": True}
    studies = {
        "raced": given | {"tune": True},
        "of_raced_blocks": given | {"cases": [block]},
        "timed": given | {"time": True},
    }
    plan = load({"studies": studies, "shapes": shapes}).plan
    found = {
        name: {plan.requests[case].case.shape.id for case in plan.studies[name]} for name in studies
    }
    assert found == {"raced": raced, "of_raced_blocks": raced, "timed": {"64x64x64"}}


def test_only_does_not_change_how_a_case_is_measured():
    """Metrics are part of the key: a narrowed run must still find what the whole one stored."""
    block = BLOCK | {"macros": "defaults"}
    studies = {
        "first": {"plot": "ladder", "title": "t", "counters": "memory", "cases": [block]},
        "second": {"plot": "ladder", "title": "t", "counters": "quantization", "cases": [block]},
    }
    (whole,) = load({"studies": studies}).plan.requests.values()
    (narrow,) = load({"studies": studies, "only": "first"}).plan.requests.values()
    assert narrow.counters == whole.counters == {"memory", "quantization"}
    assert narrow.studies == ["first"]


def test_a_study_with_a_few_races_is_none_of_races():
    """The table of the best variants lists races, and nothing of what is only timed beside them."""
    timed, raced = BLOCK | {"time": True}, BLOCK | {"tune": True}
    told = {"plot": "ladder", "title": "t"}
    studies = {
        "races": {**told, "tune": True, "cases": [BLOCK, timed]},
        "each": {**told, "cases": [raced, raced | {"shapes": [64]}]},
        "few": {**told, "cases": [raced, timed]},
    }
    assert load({"studies": studies}).raced_studies == ["races", "each"]


def test_a_part_is_a_word_for_its_studies():
    studies = {name: study()["studies"]["s"] for name in ("first", "second", "third")}
    data = {"studies": studies, "parts": {"some": ["first", "third"]}, "only": "some"}
    assert list(load(data).plan.studies) == ["first", "third"]


def test_every_study_is_in_one_part():
    """So that a long run can be cut in parts without leaving anything out, or measuring it twice."""
    data = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    members = [name for part in data["parts"].values() for name in part]
    assert sorted(members) == sorted(data["studies"])


def test_every_key_is_described():
    """config/README.md explains every key of the model."""
    text = (ROOT / "config" / "README.md").read_text()
    schema = Config.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    for model in models:
        for key in model.get("properties", {}):
            assert f"`{key}`" in text, f"config/README.md does not explain {key}"


def test_a_block_leaves_out_kernels_with_too_many_variants():
    """matmul_two_outputs has two, matmul_tiled four of f32 and eight of f64."""
    given = {"kernels": ["matmul_two_outputs", "matmul_tiled"], "macros": "product", "shapes": [64]}

    def kernels(**more):
        return {name.split("@")[0].split("-")[0] for name in cases(config(given | more))}

    assert kernels(most=2) == {"matmul_two_outputs"}
    assert kernels(most=4, dtypes=["f32"]) == {"matmul_two_outputs", "matmul_tiled"}
    assert kernels(most=4) == {"matmul_two_outputs"}
    assert len(cases(config(given | {"most": 12}))) == 14
    assert "most" in refusal(config(given | {"most": 0}))
