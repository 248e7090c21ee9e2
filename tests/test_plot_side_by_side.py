"""Recordings of two GPUs beside each other, and that there is no such study without."""

import json

import pytest

import synthetic
from samples import FRONT, config, write_kernel
from tilewave import environment, plots, project
from tilewave.report.environments import elsewhere
from tilewave.stages import run


def test_what_two_gpus_say_of_cases_and_claims():
    module, study = plots.load("side_by_side"), synthetic.make("side_by_side")
    table = module.table(study)
    assert set(table["first GPU"]) == {"NVIDIA H200"} and set(table["other GPU"]) == {"NVIDIA H100"}
    cases = table[table["kind"] == "case"].set_index("what")
    ratios = cases[["speed over the first GPU's", "roof over the first GPU's"]]
    assert ratios.loc["hgemm_mma@4096x4096x4096"].tolist() == pytest.approx([1, 3 / 4.2])
    assert ratios.loc["copy@4096x4096x4096"].iloc[0] == pytest.approx(3 / 4.2)
    claims = table[table["kind"] == "claim"]
    assert (claims["verdict"] != claims["verdict there"]).sum() == 1
    assert module.takeaway(study, table) == (
        "NVIDIA H100 has 1.00 times the speed at 3 cases; 1 of 3 claims that both have measured is judged otherwise"
    )


def test_it_is_there_where_two_gpus_are_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path / "kernels", "a", front=FRONT)
    data = config({"kernels": ["a"], "shapes": [64]}, kernel_folders=["kernels"])
    data["studies"] = {
        name: {**data["studies"]["study"], "plot": name} for name in ("roofline", "side_by_side")
    }
    data["parts"] = {"all": list(data["studies"])}
    facts = {"compute_capability": "9.0", "sms": 132}
    for name in ("one", "two"):
        folder = tmp_path / "resources" / "recorded" / name
        folder.mkdir(parents=True)
        known = {name: {**environment.cpu_environment(), **facts, "gpu": name, "id": name}}
        (folder / "environments.json").write_text(json.dumps(known))
        assert (name == "two") == bool(project.load(data, "test.yaml").sided_studies)
    made = project.load(data, "test.yaml")
    assert list(made.beside.plan.studies) == ["roofline"]
    assert made.config.parts["all"] == ["roofline", "side_by_side"]
    told = run.sides(run.Job(made, None))
    assert "a@64x64x64" in set(told["case"]) and set(told["plot"]) == {"roofline"}
    assert set(told["gpu"]) == {"one", "two"}
    alone = project.load({**data, "only": "side_by_side"}, "test.yaml")
    assert run.sides(run.Job(alone, None)).empty


def test_reports_of_two_gpus_lead_to_each_other(tmp_path):
    """The other's lies in a folder of the first's; what is not made is a command."""
    both = {"one": "GPU one", "two": "GPU two"}
    first = {"recorded": "one", "label": "GPU one", "recordings": both}
    other = {**first, "recorded": "two", "label": "GPU two"}
    (only,) = elsewhere(first, tmp_path)
    assert (only.label, only.address) == ("GPU two", "")
    assert "target=two" in only.command and "reports: reports/two" in only.command
    (tmp_path / "two").mkdir()
    assert [one.address for one in elsewhere(other, tmp_path / "two")] == [""]
    for folder in (tmp_path, tmp_path / "two"):
        (folder / "index.html").touch()
    assert [one.address for one in elsewhere(first, tmp_path)] == ["two/index.html"]
    assert elsewhere(other, tmp_path / "two")[0].address == "../index.html"
    assert elsewhere({**first, "recordings": {}}, tmp_path) == []
