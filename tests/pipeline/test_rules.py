"""The scripts of the rules, each as Snakemake starts it, and the parameters that make a rule run again."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from samples import BODY, ROOT, config, needs_nvrtc, write_kernel
from tilewave.pipeline import collecting, parameters

PART = {"scatteritem": "1-of-1"}


@pytest.fixture
def here(alone):
    """The working folder with a kernel, and ``run``, which runs a rule's script there."""
    write_kernel(alone / "mine")
    block = {"kernels": ["sample"], "macros": "defaults", "shapes": [64]}
    data = config(block, kernel_folders=["mine"], fresh=True, execute={"when": "always"})
    data["studies"]["study"]["counters"] = "memory"
    plan = {"plan": "plan.json", "target": "target.json"}

    class Paths(dict):
        __getattr__ = dict.__getitem__

    def run(name, output, wildcards=PART, **inputs):
        outputs = Paths(output) if isinstance(output, dict) else [output]
        snakemake = SimpleNamespace(
            config=data, input=Paths(**plan, **inputs), output=outputs, log=[f"logs/{name}.log"],
            threads=1, wildcards=SimpleNamespace(**wildcards),
        )  # fmt: skip
        script = ROOT / "workflow" / "scripts" / f"{name}.py"
        runpy.run_path(str(script), {"snakemake": snakemake}, run_name="__main__")

    run("plan", plan)
    return SimpleNamespace(run=run, data=data, kernel=alone / "mine" / "sample.cu")


@needs_nvrtc
def test_from_the_plan_to_the_tables(here, capsys):
    here.run("compile", "compiled.json")
    inputs = {"compiled": ["compiled.json"]}
    here.run("measure", "measured.parquet", **inputs)
    here.run("execute", "executed.parquet", **inputs)
    inputs |= {"measured": ["measured.parquet"], "executed": ["executed.parquet"]}
    paths = {name: f"{name}.parquet" for name in collecting.NAMES}
    here.run("tables", paths | {"kernels": "kernels.json", "accesses": "accesses.json"}, **inputs)
    assert pd.read_parquet("cases.parquet")["verdict"].tolist() == ["correct"]
    assert "check: 1 cases" in Path("logs/tables.log").read_text()
    entry = json.loads(Path("kernels.json").read_text())["sample"]["variants"]["sample"]["sm_90"]
    assert entry["shown"] and "lines" not in entry
    listing = Path(entry["sass"])
    assert "FFMA" in listing.read_text()
    listing.unlink()
    here.run("listing", str(listing), {"variant": "sample"}, **inputs)
    assert listing.is_file()
    with pytest.raises(SystemExit):
        here.run("record", "none", **inputs)
    assert "no live GPU" in capsys.readouterr().err


def test_a_mistake_is_one_line_and_a_fault_has_its_traceback_in_the_log(here, capsys):
    with pytest.raises(SystemExit):
        here.run("listing", "none", {"variant": "other"})
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith("Error: ") and Path("logs/listing.log").read_text() in f"{line[7:]}\n"
    Path("plan.json").write_text("{}")
    with pytest.raises(KeyError):
        here.run("listing", "none", {"variant": "other"})
    assert "Traceback" in Path("logs/listing.log").read_text()


def test_what_makes_rules_run_again(here):
    data, studies = here.data, here.data["studies"]
    before = parameters.planned(data), parameters.texts(data)
    here.kernel.write_text(here.kernel.read_text().replace("REAL sum", "// a note\n    REAL sum"))
    assert parameters.planned(data) == before[0] and parameters.texts(data) != before[1]
    here.kernel.write_text(here.kernel.read_text().replace("sum = 0;", "sum = 1;"))
    assert parameters.planned(data) != before[0] and BODY not in here.kernel.read_text()
    titled = {"study": {**studies["study"], "title": "Another"}}
    assert parameters.planned(data | {"studies": titled}) == parameters.planned(data)
    drawn = [parameters.drawn({"studies": entry}, ["study"]) for entry in (studies, titled)]
    assert drawn[0] != drawn[1]
    assert len(parameters.modules({"plot_folders": [ROOT / "tools"]})) > 1
    assert parameters.recorded({"target": "live"}) == "" != parameters.recorded({})
    assert parameters.tried("nowhere") == "" and "driver" in parameters.machine()
    attempt = Path("results/attempts/here/a.json")
    attempt.parent.mkdir(parents=True)
    attempt.write_text("{}")
    assert parameters.tried("results") == str(attempt.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("only", "names", "narrowed"),
    [
        ("", ["a", "b"], False),
        ("b", ["b"], False),
        (["part"], ["a"], False),
        ("b, 64", ["b"], True),
    ],
)
def test_the_studies_of_a_run(only, names, narrowed):
    data = {"studies": {"a": {}, "b": {}}, "parts": {"part": ["a"]}, "only": only}
    assert (parameters.studies(data), parameters.narrowed(data)) == (names, narrowed)


def test_folders_of_a_run(tmp_path):
    assert parameters.folders({"output": {"results": "r"}}) == ("r", "reports")
    assert parameters.config_name([ROOT / "config" / "smoke.yaml"]) == "config/smoke.yaml"
    assert parameters.config_name([tmp_path / "x.yaml"]) == str(tmp_path / "x.yaml")
