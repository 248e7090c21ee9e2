"""The workflow as a user starts it: dry runs, mistakes, and a small study without a GPU."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from samples import BODY, FRONT, ROOT, config, write_kernel

# A GPU that happens to be here must not be used by tests.
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}


def snakemake(folder, *arguments):
    """Run this checkout's workflow in a folder of its own."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(folder)]
    return subprocess.run(
        [*command, "--cores", "1", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def write(folder, data):
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


@pytest.mark.parametrize(
    ("name", "figure"), [("config.yaml", "ladder"), ("smoke.yaml", "smoke")]
)  # fmt: skip
def test_dry_run(tmp_path, name, figure):
    done = snakemake(tmp_path, "-n", "report", "--configfile", str(ROOT / "config" / name))
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    for line in (
        "Compile the interpreter", "Compile hgemm_wmma_staged", "Execute hgemm_wmma_staged",
        "Check cublas", f"Draw {figure}", "Write the page",
    ):  # fmt: skip
        assert line in output
    assert "Execute cublas" not in output
    assert not (tmp_path / "results").exists()


def test_one_figure_by_its_path(tmp_path):
    done = snakemake(tmp_path, "-n", "reports/figures/ladder.svg", "--config", "only=ladder")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert "Draw ladder" in output
    assert "Compile shared_access" not in output
    assert "Write the page" not in output


def test_new_file_takes_part_in_the_ladder(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    done = snakemake(tmp_path, "-n", "report", "--config", "only=ladder", folders)
    assert done.returncode == 0, done.stderr
    for line in ("Compile brand_new", "Check brand_new", "Time brand_new"):
        assert line in done.stdout + done.stderr


MISTAKES = {
    "kernel": (config({"kernels": ["matmul_naiv"], "shapes": [64]}), "matmul_naive"),
    "key": (config(tmiing={}), "timing"),
    "shape": (config({"kernels": ["matmul_naive"], "shapes": [-1]}), "positive"),
    "metric set": (
        config({"kernels": ["matmul_naive"], "shapes": [64], "counters": "al"}),
        "memory",
    ),
}


@pytest.mark.parametrize(("data", "allowed"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_ends_in_one_line(tmp_path, data, allowed):
    path = write(tmp_path, data)
    done = snakemake(tmp_path, "report", "--configfile", path)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    told = [line for line in output.splitlines() if "; allowed: " in line]
    assert len(told) == 1
    assert "test.yaml" in told[0]
    assert allowed in told[0]
    assert not (tmp_path / "results").exists()


def test_mistake_in_front_matter_names_the_file(tmp_path):
    write_kernel(tmp_path / "mine", "bad", front="title: t\noperation: matmul\ngird: [1]\n")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    done = snakemake(tmp_path, "-n", "report", "--config", folders)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert f"{tmp_path}/mine/bad.cu: gird" in done.stdout + done.stderr


def test_study_that_stands_twice(tmp_path):
    text = yaml.safe_dump(config(), indent=2)
    path = tmp_path / "test.yaml"
    path.write_text(text + text.split("\n", 1)[1])
    done = snakemake(tmp_path, "-n", "report", "--configfile", str(path))
    assert done.returncode != 0
    assert "study" in done.stdout + done.stderr


def test_mistake_in_an_expression_is_found_before_anything_runs(tmp_path):
    write_kernel(tmp_path / "mine", "bad", front=FRONT.replace("ceil(n / TILE)", "ceil(n / TIEL)"))
    data = config({"kernels": ["bad"], "shapes": [64]}, kernel_folders=[str(tmp_path / "mine")])
    done = snakemake(tmp_path, "-n", "report", "--configfile", write(tmp_path, data))
    assert done.returncode != 0
    assert f"{tmp_path}/mine/bad.cu: grid" in done.stdout + done.stderr


def test_unlock_needs_no_cores(tmp_path):
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-s",
        str(ROOT / "Snakefile"),
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, "--unlock"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_only_may_be_a_number(tmp_path):
    done = snakemake(tmp_path, "-n", "report", "--config", "only=4096")
    assert done.returncode == 0, done.stderr


def test_small_study_without_a_gpu(tmp_path):
    """A kernel with a syntax error is a status in a report that is otherwise complete; with
    `strict` the run fails, and the page is there."""
    write_kernel(tmp_path / "mine", "good")
    write_kernel(tmp_path / "mine", "broken", body=BODY.replace("REAL sum = 0;", "REAL sum = 0"))
    data = config(
        {"kernels": ["good", "broken"], "macros": "defaults", "shapes": [64, "65x1x7"]},
        kernel_folders=["kernels", str(tmp_path / "mine")],
        strict=True,
    )
    done = snakemake(tmp_path, "report", "--configfile", write(tmp_path, data))
    page = tmp_path / "reports" / "index.html"
    assert page.is_file(), done.stderr
    text = page.read_text()
    assert "failed to compile" in text
    assert "broken.cu:" in text
    assert "good@65x1x7" in text or "65x1x7" in text
    # With neither a GPU nor a recorded figure, the CPU executes the machine code.
    assert "executing the kernels&#39; machine code" in text
    checks = json.loads((tmp_path / "results" / "check" / "good.json").read_text())["results"]
    assert {(one["verdict"], one["source"]) for one in checks} == {("correct", "executed")}
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for kind in ("svg", "pdf", "png", "csv", "json"):
        assert (tmp_path / "reports" / "figures" / f"study.{kind}").is_file()
    # The same without `strict` passes, and does only what is left to do.
    again = snakemake(tmp_path, "report", "--configfile", write(tmp_path, data | {"strict": False}))
    assert again.returncode == 0, again.stderr
    assert "Compile good" not in again.stdout + again.stderr


def test_tune_asks_only_for_checks_and_races(tmp_path):
    done = snakemake(tmp_path, "-n", "tune")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    for line in ("Check hgemm_wmma_staged", "Check cublas", "Race the candidates", "best.csv"):
        assert line in output
    for line in ("Time ", "Collect ", "Draw ", "Write the page", "latency"):
        assert line not in output


def test_new_file_takes_part_in_the_races(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    done = snakemake(tmp_path, "-n", "tune", "--config", "only=best", folders)
    assert done.returncode == 0, done.stderr
    assert "Check brand_new" in done.stdout + done.stderr


def test_tune_without_a_study_that_races(tmp_path):
    data = config({"kernels": ["matmul_naive"], "macros": "defaults", "shapes": [64]})
    done = snakemake(tmp_path, "tune", "--configfile", write(tmp_path, data))
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    assert "no study that races" in output


def test_races_without_a_gpu(tmp_path):
    """Every candidate has a status with its reason in the table, and the report its figure."""
    write_kernel(tmp_path / "mine", "good")
    block = {"kernels": ["good"], "macros": {"TILE": [16, 32]}, "shapes": [32, 48]}
    data = config(block, kernel_folders=["kernels", str(tmp_path / "mine")])
    data["studies"]["study"] |= {"tune": True, "plot": "best"}
    done = snakemake(tmp_path, "tune", "report", "--configfile", write(tmp_path, data))
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "reports" / "tables" / "best.csv").read_text().splitlines()
    assert len(table) == 3
    assert "not measured" in table[1] and "no recorded figure of this case" in table[1]
    races = json.loads((tmp_path / "results" / "tune" / "races.json").read_text())["results"]
    assert {(one["stage"], one["status"]) for one in races} == {("tune", "not measured")}
    assert (tmp_path / "reports" / "figures" / "study.csv").is_file()
    assert "not measured" in (tmp_path / "reports" / "index.html").read_text()
