"""`tilewave report` in a user's folder: the config that it writes, and the commands that it starts."""

import subprocess
from pathlib import Path

import pytest
import yaml

from samples import FRONT, shipped, write_kernel
from tilewave.__main__ import main
from tilewave.basics.errors import UserError
from tilewave.commands import report
from tilewave.pipeline import kernels_study, project

ROOT = Path(__file__).resolve().parents[2]
PROBE = "title: A probe\noperation: probe\nblock: [32]\ngrid: [1]\narguments: [x]\nbuffers: {x: {dtype: f32, size: 32, report: {metric: x, unit: '1'}}}\ncases: {one: {macros: {}}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a product that follows one of Tilewave's."""
    write_kernel(tmp_path / "mine", "own", front=FRONT + "follows: matmul_tiled\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cases(loaded, study):
    return list(loaded.plan.studies[study])


def test_without_a_gpu_small_shapes_are_executed(folder):
    loaded = project.load(kernels_study.config(["mine"], timed=False), "test.yaml")
    assert set(loaded.plan.studies) == {"wavefronts", "correctness"}
    assert "own@256x256x256" in cases(loaded, "wavefronts")
    assert {"own@129x67x53", "own-tile32@264x136x96"} <= set(cases(loaded, "correctness"))
    # The rung before is shown beside it; the rung before that one is loaded, but not planned.
    assert "matmul_tiled@129x67x53" in cases(loaded, "correctness")
    assert "matmul_naive" in loaded.kernels and "matmul_naive" not in loaded.plan.kernels


def test_all_shipped_kernels_have_studies():
    studies = kernels_study.config([str(ROOT / "kernels")], timed=True)["studies"]
    assert {"ladder", "roofline", "correctness"} <= set(studies)


def test_with_a_gpu_it_is_timed_under_the_roofs(folder):
    data = kernels_study.config(["mine"], ["512", "512x256x128"], timed=True)
    loaded = project.load(data, "test.yaml")
    assert {"own@512x512x512", "own@512x256x128"} <= set(cases(loaded, "ladder"))
    assert "own@512x512x512" not in cases(loaded, "roofline")
    assert set(kernels_study.CEILINGS) < set(loaded.plan.kernels)
    request = loaded.plan.cases["own@512x256x128"]
    assert request.time and request.counters


def test_other_operations_and_probes_have_studies_too(tmp_path):
    write_kernel(tmp_path, "looked_at", front=PROBE)
    front = "title: t\noperation: vector_add\ndtypes: {a: f32, b: f32, c: f32}\nblock: [32]\ngrid: [n]\narguments: [a, b, c, n]\n"
    write_kernel(tmp_path, "added", front=front)
    for timed in (False, True):
        loaded = project.load(kernels_study.config([str(tmp_path)], timed=timed), "test.yaml")
        assert {"looked_at@one", "added@129"} <= set(cases(loaded, "correctness"))
        assert "ladder" not in loaded.plan.studies


def test_no_kernel_no_report(tmp_path):
    with pytest.raises(UserError, match=r"folders with kernel files \(\.cu"):
        kernels_study.config([str(tmp_path)], timed=False)


@pytest.fixture
def started(monkeypatch):
    """The commands that would start Snakemake."""
    commands = []

    def run(command, **more):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(report.subprocess, "run", run)
    return commands


def test_report_writes_its_config_and_uses_it_again(folder, started):
    assert main(["report", "--kernels", "mine", "--shapes", "4x4"]) == 2 and not started
    assert main(["report", "--kernels", "mine", "--only", "own", "--cores", "2"]) == 0
    assert main(["report"]) == 0
    first, again = (" ".join(command) for command in started)
    assert "--configfile tilewave-results/config.yaml --cores 2" in first
    assert first.endswith("--config only=own -- report") and again.endswith(" -- report")
    written = yaml.safe_load((folder / "tilewave-results" / "config.yaml").read_text())
    assert written["kernel_folders"][0] == "mine"
    assert written["output"] == {"results": "tilewave-results", "reports": "tilewave-report"}
    # The user's config comes first.
    (folder / "config.yaml").write_text(yaml.safe_dump(written))
    assert written["strict"]  # a wrong kernel ends the command with 1
    text = "Passed: nothing failed, but no case was checked."
    (folder / "tilewave-results" / "verdict.txt").write_text(text)
    assert main(["report", "--kernels", "mine"]) == 3
    assert main(["record"]) == 0
    assert "--configfile config.yaml" in " ".join(started[-1])


def test_shapes_have_the_sizes_of_each_operation(tmp_path):
    """A user's file may be a copy of Tilewave's; a shape goes to the operations that it fits."""
    for name in ("softmax_online", "batched_tiled", "matmul_naive"):
        (tmp_path / f"{name}.cu").write_text(shipped(name).read_text())
    loaded = project.load(kernels_study.config([str(tmp_path)], ["64x32"], timed=True), "test.yaml")
    assert {"ladder", "operations"} <= set(loaded.plan.studies)
    cube = "1024x1024x1024"
    expected = {"softmax_online@64x32", f"batched_tiled@16x{cube}", f"matmul_naive@{cube}"}
    assert expected <= loaded.plan.cases.keys()
    assert "softmax_online@129x67" in cases(loaded, "correctness")
    assert "copy" in loaded.plan.kernels
    with pytest.raises(UserError, match="sizes as batchxmxnxk, mxnxk, rowsxcolumns"):
        kernels_study.config([str(tmp_path)], ["1x2x3x4x5"], timed=True)


def test_a_roofline_has_place_for_what_computes(tmp_path):
    for name, computes in (("transpose_tiled", False), ("softmax_online", True)):
        (tmp_path / f"{name}.cu").write_text(shipped(name).read_text())
        loaded = project.load(kernels_study.config([str(tmp_path)], timed=True), "test.yaml")
        assert "operations" in loaded.plan.studies
        assert ("roofline" in loaded.plan.studies) == computes
    variants = {case.partition("@")[0] for case in cases(loaded, "roofline")}
    assert "softmax_online" in variants and "transpose_tiled" not in variants
