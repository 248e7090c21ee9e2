"""What no config may hold, and files that are none: each is one line."""

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from samples import config
from tilewave import config as configs
from tilewave import plots, project
from tilewave.cases import MOST_CASES, MOST_LISTED
from tilewave.command import main
from tilewave.errors import UserError
from tilewave.processes import ahead
from tilewave.validation import yaml_of

WHERE = "my.yaml"
BLOCK = {"kernels": ["matmul_naive"], "shapes": [64]}


def refused(data):
    """The line that ends a run with this config."""
    with pytest.raises(UserError) as caught:
        project.load(data, WHERE)
    message = str(caught.value)
    assert message.startswith(f"{WHERE}: ") and "\n" not in message and "; allowed: " in message
    return message


def block(**keys):
    return config({**BLOCK, **keys})


def study(**keys):
    return {"studies": {"s": {"plot": "ladder", "title": "t", "cases": [BLOCK], **keys}}}


def size(value):
    return block(shapes=[{"m": value, "n": 1, "k": 1}])


SWEEP = {"m": {"from": 1, "to": 1000, "step": 1}, "n": 1, "k": 1}

OUT_OF_BOUNDS = {
    "endless range": (size({"from": 1, "to": 10**9, "step": 1}), "20000 sizes"),
    "range without end": (size({"from": 1, "to": 10**30, "step": 1}), "64 bits"),
    "product of ranges": (
        block(shapes=[{d: {"from": 1, "to": 999, "step": 1} for d in "mnk"}]),
        "20000 shapes",
    ),
    "2^41": (block(shapes=[2**41]), str(2**40)),
    "2^41 in words": (block(shapes=[f"{2**41}x1x1"]), str(2**40)),
    "2^21 cubed": (block(shapes=[2**21]), "multiplied"),
    "2^63": (block(shapes=[2**63]), "shapes"),
    "of digits": (block(shapes=["9" * 5000]), "200"),
    "wide expression": (block(shapes=["2**99 * sms"]), "shapes"),
    "power tower": (block(shapes=["9**9**9**9"]), "shapes"),
    "infinite expression": (block(shapes=["1e308 * 10 * sms"]), "shapes"),
    "number of 5000 digits": (config(seed=10**5000), "seed"),
    "seed": (config(seed=2**32), "4294967296"),
    "rounds": (config(timing={"rounds": 10**12}), "10000"),
    "block_ms": (config(timing={"block_ms": float("inf")}), "finite"),
    "nan": (config(check={"case_limit_s": float("nan")}), "finite"),
    "limit": (config(execute={"case_limit_s": 1e300}), "86400"),
    "gpu": (config(gpu=10**6), "1023"),
    "most": (block(most=10**9), str(MOST_CASES)),
    "cases": (config(*[{**BLOCK, "shapes": [SWEEP]}] * 21), f"{MOST_LISTED} cases"),
    "shapes": (block(shapes=[1] * 1001), "1000 items"),
    "macros": (block(macros={"REAL": ["f32"] * 1000}), "each value once"),
    "folders": (config(kernel_folders=["kernels"] * 1001), "1000 items"),
    "title": (study(title="t" * 201), "200 characters"),
    "name": ({"studies": {"s" * 65: study()["studies"]["s"]}}, "studies.ssss"),
    "date": (block(macros={"REAL": yaml.safe_load("2020-01-01")}), "lists and mappings"),
    "key that is a number": (study(options={"x": {64: "red"}}), "keys that are text"),
    "folder name": (config(kernel_folders=["x" * 300]), "kernel_folders.0"),
    "nobody's home": (config(plot_folders=["~nobody_of_this_name/x"]), "plot_folders.0"),
    "nameless key": ({**study(), "": 1}, ": '': found"),
}


@pytest.mark.parametrize(("data", "told"), OUT_OF_BOUNDS.values(), ids=OUT_OF_BOUNDS)
def test_out_of_bounds(data, told):
    assert told in refused(data)


def test_cases_of_studies_that_are_left_out_take_no_room():
    """Two studies of a run that together have more than a run may have: each can be run alone."""
    one = study(cases=[{**BLOCK, "shapes": [SWEEP]}] * 11)["studies"]["s"]
    both = {"studies": {"first": one, "second": one}}
    assert f"{MOST_LISTED} cases" in refused(both)
    assert len(project.load({**both, "only": "second"}, "here").plan.studies) == 1


# ------------------------------------------------------------------------------------------- files

FILES = {
    "binary": (b"\x7fELF\x02\x01\x00\xff", "byte 7: found b'\\xff'; allowed: text in UTF-8"),
    "null bytes": (b"studies: \0", "line 1"),
    "Latin-1": ("studies: {s: {title: gr\xf6\xdfer}}".encode("latin-1"), "text in UTF-8"),
    "UTF-16": ("studies: {}".encode("utf-16"), "byte 0"),
    "empty": (b"", "file: found 'nothing'; allowed: a mapping of keys"),
    "list": (b"[1, 2]", "a mapping of keys"),
    "digits": (b"seed: " + b"9" * 5000, "YAML"),
    "tag": (b"seed: !!int x", "YAML"),
    "python": (b"seed: !!python/object/apply:os.getcwd []", "YAML"),
    "date": (b"seed: 2020-99-99", "YAML"),
    "twice": (b"seed: 1\nseed: 2", "line 2: found 'the key seed twice'"),
    "tab": (b"seed:\n\t- 1", "line 2"),
    "size": (b"#" * 2**21, "at most 1048576 bytes"),
}


@pytest.mark.parametrize(("content", "told"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_config(tmp_path, monkeypatch, capsys, content, told):
    """`make` looks at what Snakemake will be told, `tilewave` at what it is."""
    monkeypatch.chdir(tmp_path)
    Path(WHERE).write_bytes(content)
    for looked in (
        lambda: ahead.main(["-n", "--configfile", WHERE, "--config", "only=x"]),
        lambda: main(["report", "--configfile", WHERE]),
    ):
        assert looked() == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"Error: {WHERE}: ") and err.count("\n") == 1 and not out
        assert told in err
    assert [path.name for path in tmp_path.iterdir()] == [WHERE]


@pytest.mark.parametrize("name", ["nowhere.yaml", ".", "x" * 5000])
def test_no_file_at_all(name):
    with pytest.raises(UserError, match="allowed: a config file"):
        configs.read(Path(name), name)


def test_merged_keys_may_stand_again():
    text = "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}\nd: {<<: *b}"
    assert yaml_of(text)["c"] == {"x": 2, "y": 3}


ODD = [
    None, True, -1, 0, 0.5, 1e308, float("nan"), 2**31, 10**30, "", "a" * 300, "a\nb", "../x", "/proc/self/x",
    "9**9**9", "1/0", "sms.__class__", "64x", "0x0x0", [], {}, [[]], {"": 1}, {1: 2}, b"bytes",
    {"from": 1, "to": 10**9, "step": 1}, {"TILE": [16, 32] * 500}, list(range(2000)),
]  # fmt: skip


def places(data):
    """Every mapping and list of a document, with each of its keys."""
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
    """Whatever stands in a value's place, or under a key that is no key."""
    more = {"macros": {"TILE": [16, 32]}, "shapes": [64, "64x65x7", {"m": [1, 2], "n": 3, "k": 4}]}
    made = copy.deepcopy(study(cases=[BLOCK | more], time=True, options={"log": True}, style={}))
    made |= {"timing": {"rounds": 3}, "output": {"results": "r"}, "only": "64", "gpu": 0}
    for _ in range(data.draw(st.integers(1, 3))):
        inside, key = data.draw(st.sampled_from(list(places(made))))
        odd = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        if isinstance(inside, dict) and data.draw(st.booleans()):
            inside[data.draw(st.sampled_from(["x", "a.b", 7]))] = odd
        else:
            inside[key] = odd
    try:
        project.load(made, WHERE)
    except UserError as error:
        assert "\n" not in str(error) and "; allowed: " in str(error)
        assert str(error).startswith(f"{WHERE}: ") and error.key


def test_the_files_that_snakemake_will_read():
    words = "-n --configfile a b --cores 2 report --configfiles=c d --config only=e".split()
    assert list(ahead.config_files(words)) == ["a", "b", "c", "d"]
    assert list(ahead.config_files(["--config", "x=1", "report"])) == []


# ----------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("plot", "options", "key"),
    [
        ("ladder", {"rungs": {"f32": "matmul_naive"}}, "rungs.f32"),
        ("ladder", {"rungs": {"f32": ["x"] * 10}}, "at most 9"),
        ("ladder", {"rugns": {}}, "rugns: found 'rugns' (did you mean 'rungs'?)"),
        ("wavefronts", {"log": True}, "options: found 'log'; allowed: wavefronts takes no options"),
        ("ladder", {"lecture": {"rows": [1], "sizes": [64]}}, "lecture.rows"),
        ("ladder", {"lecture": {"rows": {}, "sizes": [64], "x": 1}}, "rows, sizes"),
        ("ladder", {"lecture": True}, "lecture"),
        ("latency", {"claimed": {"dram": "much"}}, "claimed.dram"),
        ("alignment", {"tolerance": float("nan")}, "finite"),
        ("alignment", {"tolerance": 7}, "less than or equal to 1"),
        ("alignment", {"reference": 1.5}, "reference"),
        ("tile_size", {"reference": "64x64"}, "reference"),
        ("tile_quantization", {"panels": ["speed"]}, "panels.0"),
        ("split_k", {"blocks_per_sm": 0}, "blocks_per_sm"),
        ("roofline", {"bandwidths": {"l3": "x"}}, "bandwidths"),
        ("occupancy", {"pair": ["a"]}, "pair.1"),
        ("traffic", {"accesses": {"k": {"a": {"rows": [4]}}}}, "accesses.k.a.rows"),
        ("traffic", {"claimed": {"64x64x64": {"bound": "luck"}}}, "claimed.64x64x64.bound"),
        ("claims", {"range": "wide"}, "range"),
        ("claims", {"documents": [[1]]}, "documents"),
    ],
)
def test_options_that_a_plot_does_not_take(plot, options, key):
    message = refused(study(plot=plot, options=options))
    assert message.startswith(f"{WHERE}: studies.s.options") and key in message


def test_null_is_the_default():
    plots.check_options("split_k", {"aim": None, "bandwidth": None})


DECLARED = """
from typing import Literal

from pydantic import Field

from tilewave.plots.options import PlotOptions


class Options(PlotOptions):
    colour: Literal["red", "blue"] = Field("red", description="of the bars")
"""


def test_options_of_ones_own_plot(tmp_path):
    (tmp_path / "told.py").write_text("from __future__ import annotations\n" + DECLARED)
    (tmp_path / "free.py").write_text("READING = ''\n")
    folders = {"plot_folders": [str(tmp_path)]}
    for plot, colour in (("told", "blue"), ("free", {"any": ["thing"]})):
        project.load(study(plot=plot, options={"colour": colour}) | folders, WHERE)
    assert "options.colour: found 'green'" in refused(
        study(plot="told", options={"colour": "green"}) | folders
    )
    plots.MODULES.use([])
