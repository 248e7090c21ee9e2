"""The workflow as a user starts it: dry runs, mistakes, and a small study without a GPU."""

import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from samples import BODY, FRONT, ROOT, config, write_kernel
from tilewave import outputs, report
from tilewave import project as projects
from tilewave.compiling import nvrtc

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


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """A folder for dry runs, which leave nothing there but what they found out."""
    return tmp_path_factory.mktemp("dry")


def jobs(done):
    """What a dry run would do: verb -> the names that it does it for."""
    assert done.returncode == 0, done.stderr
    told = re.findall(
        r"^Job \d+: (Compile|Execute|Check|Time|Draw) (.*)$", done.stdout + done.stderr, re.M
    )
    found = {}
    for verb, names in told:
        found.setdefault(verb, set()).update(names.split(", "))
    return found


def test_a_fresh_study_compiles_and_executes(dry):
    """The small study does, whatever is recorded."""
    done = snakemake(dry, "-n", "report", "--configfile", str(ROOT / "config" / "smoke.yaml"))
    found = jobs(done)
    assert {"hgemm_wmma_staged", "latency"} <= found["Compile"] & found["Execute"]
    assert "cublas" not in found["Compile"] | found["Execute"]
    assert found["Draw"] == {"smoke"}
    assert "Write the page" in done.stdout + done.stderr
    assert not (dry / "results").exists() and not (dry / "reports").exists()


@pytest.mark.skipif(not (ROOT / "resources/recorded/nvidia_h200").is_dir(), reason="no recording")
def test_what_is_recorded_has_no_job(dry):
    """Whatever was recorded of this very code is neither compiled nor executed nor checked again."""
    found = jobs(snakemake(dry, "-n", "report"))
    recorded = json.loads((ROOT / "resources/recorded/nvidia_h200/compiled.json").read_text())
    made = projects.load(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config.yaml")
    changed = set()
    for request in made.plan.requests.values():
        variant = request.case.variant
        if variant.kernel.provider != "nvrtc":
            continue
        entry = recorded.get(f"{variant.id}.sm_90", {})
        target = nvrtc.target_of(variant.kernel, "sm_90")
        if entry.get("key") != nvrtc.cache_key(variant.kernel, target, variant.names):
            changed.add(variant.kernel.name)
    assert found.get("Compile", set()) == changed
    assert found.get("Execute", set()) <= changed
    assert "Time" not in found
    assert "ladder" in found["Draw"]


def test_one_figure_by_its_path(dry):
    done = snakemake(dry, "-n", "reports/figures/ladder.svg", "--config", "only=ladder")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert "Draw ladder" in output
    assert "Compile shared_access" not in output
    assert "Write the page" not in output


def test_new_file_takes_part_in_the_ladder(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    # The ladder's own sizes take longer to execute than a case may; those of scaling begin at 64.
    done = snakemake(tmp_path, "-n", "report", "--config", "only=ladder scaling", folders)
    assert done.returncode == 0, done.stderr
    found = jobs(done)
    # Nothing can be checked or timed here, and what executing it says stands in for the check.
    assert "brand_new" in found["Compile"] & found["Execute"]
    assert "Check" not in found and "Time" not in found


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


def test_only_may_be_a_number(dry):
    done = snakemake(dry, "-n", "report", "--config", "only=4096")
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
    for folder in outputs.KINDS:
        assert (tmp_path / folder / outputs.MARKER).is_file()
    text = page.read_text()
    assert "failed to compile" in text
    assert "broken.cu:" in text
    assert "good@65x1x7" in text or "65x1x7" in text
    # With neither a GPU nor a recorded figure, the CPU executes the machine code.
    assert "executing the kernels&#39; machine code" in text
    records = pd.read_parquet(tmp_path / "results" / "tables" / "records.parquet")
    good = records[(records["kernel"] == "good") & (records["stage"] == "check")]
    assert set(zip(good["verdict"], good["source"])) == {("correct", "executed")}
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for line in ("compile: 2 variants for study (2)", "execute: 2 cases for study (2)"):
        assert f"  {line}\n" in done.stderr
    for kind in ("svg", "pdf", "png", "csv", "json"):
        assert (tmp_path / "reports" / "figures" / f"study.{kind}").is_file()
    # The same without `strict` passes, and does only what is left to do.
    again = snakemake(tmp_path, "report", "--configfile", write(tmp_path, data | {"strict": False}))
    assert {"Compile", "Execute"} & set(jobs(again)) == set()
    assert "execute: " not in again.stderr

    def planned():
        done = snakemake(tmp_path, "-n", "report", "--configfile", str(tmp_path / "test.yaml"))
        return jobs(done), "Nothing to be done" in done.stdout + done.stderr

    assert planned() == ({}, True)
    # A comment, also one that moves the code, is nothing; a change of code is that kernel's jobs.
    comment = BODY.replace("REAL sum = 0;", "// a note\n    REAL sum = 0;  // and another one")
    write_kernel(tmp_path / "mine", "good", body=comment)
    assert planned() == ({}, True)
    write_kernel(tmp_path / "mine", "good", body=comment.replace("sum = 0;", "sum = 0 * 1;"))
    found, _ = planned()
    assert found == {"Compile": {"good"}, "Execute": {"good"}, "Draw": {"study"}}


BARS = """\
import matplotlib.pyplot as plt

READING = "A bar is a case, and as high as its name is long."


def table(study):
    return study.cases[["case"]].assign(letters=study.cases["case"].str.len())


def draw(study, table, style):
    fig, ax = plt.subplots(figsize=(style.width, 2))
    ax.bar(table["case"], table["letters"])
    return fig
"""


def test_a_figure_of_ones_own_and_one_that_raises(tmp_path):
    """Both stand in a page that is complete, the second as a box with the reason; the run fails, and the
    next one tries that figure again."""
    write_kernel(tmp_path / "mine", "good")
    (tmp_path / "figures").mkdir()
    broken = tmp_path / "figures" / "broken.py"
    broken.write_text(
        BARS.replace("    ax.bar", "    raise ValueError('no <bars>,\\nat $1 a $')\n    ax.bar")
    )
    (tmp_path / "figures" / "bars.py").write_text(BARS)
    one = {"title": "Own", "question": "Q?", "cases": [{"kernels": ["good"], "shapes": [64]}]}
    studies = {
        "drawn": {**one, "plot": "bars"},
        "boxed": {**one, "plot": "broken", "title": "Boxed"},
    }
    data = config(
        kernel_folders=[str(tmp_path / "mine")], plot_folders=["figures"], studies=studies
    )
    done = snakemake(tmp_path, "report", "--configfile", write(tmp_path, data))
    page = {name: (tmp_path / f"reports/study/{name}.html").read_text() for name in studies}
    assert "as high as its name" in page["drawn"] and "../figures/drawn.svg" in page["drawn"]
    table = pd.read_csv(tmp_path / "reports" / "figures" / "drawn.csv")
    assert dict(zip(table["case"], table["letters"])) == {
        "good@64x64x64": 13,
        "good-realf64@64x64x64": 21,
    }
    why = "ValueError: no <bars>, at $1 a $ (figures/broken.py, line 13)"
    assert why.replace("<", "&lt;").replace(">", "&gt;") in page["boxed"]
    assert "Traceback" not in page["boxed"] and "boxed.svg" not in page["boxed"]
    told = "Not passed: 1 figure was not drawn (boxed)."
    assert told in (tmp_path / "reports" / "index.html").read_text()
    assert done.returncode != 0 and f"  boxed: {why}\n" in done.stderr and told in done.stderr
    assert "Traceback" in (tmp_path / "results" / "logs" / "figures.log").read_text()
    for name in studies:
        for kind in report.FIGURE_FILES:
            assert (tmp_path / "reports" / kind.format(study=name)).stat().st_size
    again = snakemake(tmp_path, "-n", "report", "--configfile", str(tmp_path / "test.yaml"))
    assert jobs(again) == {"Draw": set(studies)}
    alone = ["reports/figures/boxed.svg", "--force", "--configfile", str(tmp_path / "test.yaml")]
    assert snakemake(tmp_path, *alone).returncode != 0
    broken.write_text(BARS)
    mended = snakemake(tmp_path, "report", "--configfile", str(tmp_path / "test.yaml"))
    assert mended.returncode == 0, mended.stderr
    assert "not drawn" not in (tmp_path / "reports" / "study" / "boxed.html").read_text()


def test_tune_asks_only_for_checks_and_races(dry):
    done = snakemake(dry, "-n", "tune")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert "best.csv" in output
    for line in ("Time ", "Collect ", "Draw ", "Write the page", "latency"):
        assert line not in output


def test_new_file_takes_part_in_the_races(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    done = snakemake(tmp_path, "-n", "tune", "--config", "only=best", folders)
    assert done.returncode == 0, done.stderr
    assert "brand_new" in jobs(done)["Compile"] & jobs(done)["Execute"]


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
    records = pd.read_parquet(tmp_path / "results" / "tables" / "records.parquet")
    races = records[records["stage"] == "tune"]
    assert set(races["status"]) == {"not measured"}
    assert (tmp_path / "reports" / "figures" / "study.csv").is_file()
    assert "not measured" in (tmp_path / "reports" / "index.html").read_text()
