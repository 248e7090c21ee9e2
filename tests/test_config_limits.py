"""What no config may hold, and files that are none: each is one line, soon."""

import gc
import time
from pathlib import Path

import pytest
import yaml

from samples import config
from tilewave import config_files, plots, project
from tilewave.cases import MOST_CASES, MOST_LISTED
from tilewave.command import main
from tilewave.errors import UserError
from tilewave.processes import ahead

WHERE = "my.yaml"
BLOCK = {"kernels": ["matmul_naive"], "shapes": [64]}
SOON_S = 2.0


def refused(data):
    """The line that ends a run with this config."""
    gc.freeze()  # else what earlier tests left is looked through meanwhile
    try:
        start = time.process_time()
        with pytest.raises(UserError) as caught:
            project.load(data, WHERE)
        assert time.process_time() - start < SOON_S
    finally:
        gc.unfreeze()
    message = str(caught.value)
    assert message.startswith(f"{WHERE}: ") and "\n" not in message and "; allowed: " in message
    return message


def block(**keys):
    return config({**BLOCK, **keys})


def study(**keys):
    return {"studies": {"s": {"plot": "ladder", "title": "t", "cases": [BLOCK], **keys}}}


def size(value):
    return block(shapes=[{"m": value, "n": 1, "k": 1}])


def nested(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return made


def bomb():
    """A list of 2^40 texts, in as many lists as there are levels."""
    made = ["x", "x"]
    for _ in range(40):
        made = [made, made]
    return made


SWEEP = {"m": {"from": 1, "to": 1000, "step": 1}, "n": 1, "k": 1}
LOOP = []
LOOP.append(LOOP)

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
    "text": (study(question="q" * 20_000), "10000 letters"),
    "nul": (study(title="a\0b"), "control characters"),
    "half a letter": (study(title="\ud800"), "control characters"),
    "key of two lines": ({"studies": {"a\nb": 1}}, "studies"),
    "date": (block(macros={"REAL": yaml.safe_load("2020-01-01")}), "lists and mappings"),
    "key that is a number": (study(options={"x": {64: "red"}}), "keys that are text"),
    "deep": (study(options={"x": nested(100)}), "levels"),
    "aliases": (study(options={"x": bomb()}), "20000 values"),
    "loop": (study(options={"x": LOOP}), "64 levels"),
    "folder name": (config(kernel_folders=["x" * 300]), "kernel_folders.0"),
    "nobody's home": (config(plot_folders=["~nobody_of_this_name/x"]), "plot_folders.0"),
    "nameless key": ({**study(), "": 1}, ": '': found"),
    "template": (config(__use_yte__=True), "no template"),
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

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], y{i}: *a{i - 1}}}\n" for i in range(1, 60)
)
DEEPENING = "".join(
    f"a{i}: &a{i} {'[' * 60}{f'*a{i - 1}' if i else 'x'}{']' * 60}\n" for i in range(20)
)
FILES = {
    "binary": (b"\x7fELF\x02\x01\x00\xff", "byte 7: found b'\\xff'; allowed: text in UTF-8"),
    "null bytes": (b"studies: \0", "line 1"),
    "Latin-1": ("studies: {s: {title: gr\xf6\xdfer}}".encode("latin-1"), "text in UTF-8"),
    "UTF-16": ("studies: {}".encode("utf-16"), "byte 0"),
    "empty": (b"", "file: found 'nothing'; allowed: a mapping of keys"),
    "list": (b"[1, 2]", "a mapping of keys"),
    "deep": (b"a: " + b"[" * 100_000, "line 1: found 'more than 64 levels'"),
    "deep by aliases": (DEEPENING.encode(), "line 2: found 'more than 64 levels'"),
    "aliases": (BOMB.encode(), "keys and values"),
    "merged aliases": (MERGED.encode(), "keys and values"),
    "loop": (b"a: &a [*a]", "line 1"),
    "digits": (b"seed: " + b"9" * 5000, "none"),
    "tag": (b"seed: !!int x", "YAML"),
    "python": (b"seed: !!python/object/apply:os.getcwd []", "YAML"),
    "date": (b"seed: 2020-99-99", "YAML"),
    "twice": (b"seed: 1\nseed: 2", "seed: found 'the key twice'"),
    "tab": (b"seed:\n\t- 1", "line 2"),
    "size": (b"#" * 600_000, "at most 500000 bytes"),
    "template": (b"__use_yte__: true\nseed: ?__import__('os').abort()", "no template"),
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
        start = time.process_time()
        assert looked() == 2
        assert time.process_time() - start < SOON_S
        out, err = capsys.readouterr()
        assert err.startswith(f"Error: {WHERE}: ") and err.count("\n") == 1 and not out
        assert told in err
    assert [path.name for path in tmp_path.iterdir()] == [WHERE]


@pytest.mark.parametrize("name", ["nowhere.yaml", ".", "/dev/zero", "x" * 5000, "a\0b"])
def test_no_file_at_all(name):
    with pytest.raises(UserError, match="allowed: a config file"):
        config_files.read(Path(name), name)


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
