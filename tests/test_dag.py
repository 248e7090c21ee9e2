"""The workflow as a user starts it: dry runs, mistakes, and a small study without a GPU."""

import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest
import yaml

import forked_snakemake
from samples import BODY, FRONT, ROOT, config, write_kernel
from tilewave import outputs, report
from tilewave import project as projects
from tilewave.compiling import nvrtc

# A GPU that happens to be here must not be used by tests.
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}


JOB = r"^Job \d+: (Compile|Execute|Check|Time|Draw) (.*)$"


def output(done):
    return done.stdout + done.stderr


def words(folder, *arguments):
    return ["-s", str(ROOT / "Snakefile"), "-d", str(folder), *arguments]


def snakemake(folder, *arguments):
    """Run this checkout's workflow in a folder of its own."""
    return forked_snakemake.run(words(folder, "--cores", "1", *arguments), folder, ENVIRONMENT)


def started(folder, *arguments, **environment):
    """The same in a process that is started as a user starts it."""
    command = [sys.executable, "-m", "snakemake", *words(folder, *arguments)]
    about = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT | environment, **about)


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
    found = {}
    for verb, names in re.findall(JOB, output(done), re.M):
        found.setdefault(verb, set()).update(names.split(", "))
    return found


def test_a_fresh_study_compiles_and_executes(dry):
    """The small study does, whatever is recorded."""
    done = snakemake(dry, "-n", "report", "--configfile", str(ROOT / "config" / "smoke.yaml"))
    found = jobs(done)
    assert {"hgemm_wmma_staged", "copy"} <= found["Compile"] & found["Execute"]
    assert "cublas" not in found["Compile"] | found["Execute"]
    assert found["Draw"] == {"smoke"} and "Write the page" in output(done)
    assert not (dry / "results").exists() and not (dry / "reports").exists()


@pytest.mark.skipif(not (ROOT / "resources/recorded/nvidia_h200").is_dir(), reason="no recording")
def test_what_is_recorded_has_no_job(dry):
    """Whatever was recorded of this very code is neither compiled nor executed nor checked again."""
    found = jobs(snakemake(dry, "-n", "report"))
    recorded = json.loads((ROOT / "resources/recorded/nvidia_h200/compiled.json").read_text())
    made = projects.load(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config.yaml")
    asked = {one.case.variant.id: one.case.variant for one in made.plan.requests.values()}
    changed = set()
    for one in (one for one in asked.values() if one.kernel.provider == "nvrtc"):
        key = nvrtc.cache_key(one.kernel, nvrtc.target_of(one.kernel, "sm_90"), one.names)
        if recorded.get(f"{one.id}.sm_90", {}).get("key") != key:
            changed.add(one.kernel.name)
    assert found.get("Compile", set()) == changed
    assert found.get("Execute", set()) <= changed
    assert "Time" not in found
    assert "ladder" in found["Draw"]


PRETENDED = """\
from tilewave import environment

environment.has_gpu = lambda found: True
here = environment.cpu_environment() | {"gpu": "NVIDIA H200", "uuid": "GPU-a", "compute_capability": "9.0", "sms": 132}
environment.probe = lambda gpu=None: here | {"id": environment.environment_id(here)}
"""


def test_what_is_executed_waits_until_all_is_timed(tmp_path):
    """On the GPU of this machine; it runs beside stall samples and counters."""
    write_kernel(tmp_path / "kernels", "a")
    top = {"kernel_folders": [str(tmp_path / "kernels")], "target": "live"}
    data = config({"kernels": ["a"], "shapes": [32]}, execute={"when": "always"}, **top)
    data["studies"]["study"] |= {"time": True, "counters": "basic"}
    (tmp_path / "sitecustomize.py").write_text(PRETENDED)
    path = f"{tmp_path}{os.pathsep}{ROOT / 'workflow'}"
    asked = ["report", "--dag", "--cores", "4", "--configfile", write(tmp_path, data)]
    done = started(tmp_path, *asked, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    rules = dict(re.findall(r'(\d+)\[label = "(\w+)', done.stdout))
    edges = {(rules[a], rules[b]) for a, b in re.findall(r"(\d+) -> (\d+)", done.stdout)}
    assert {("time", "execute"), ("time", "counters")} <= edges
    assert ("execute", "counters") not in edges and ("counters", "execute") not in edges


def test_new_file_takes_part_in_one_figure_by_its_path(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    asked = ["reports/figures/ladder.svg", "--config", "only=ladder", folders]
    done = snakemake(tmp_path, "-n", *asked)
    found = jobs(done)
    # Nothing can be checked or timed here, and what executing it says stands in for the check.
    assert "brand_new" in found["Compile"] & found["Execute"]
    assert "Check" not in found and "Time" not in found
    assert found["Draw"] == {"ladder"} and "shared_access" not in found["Compile"]
    assert "Write the page" not in output(done)


def test_new_file_takes_part_in_the_races(tmp_path):
    """Which ask only for checks and races."""
    write_kernel(tmp_path / "mine", "brand_new")
    folders = f'kernel_folders=["kernels","{tmp_path}/mine"]'
    done = snakemake(tmp_path, "-n", "tune", "--config", folders, "only=256")
    assert "brand_new" in jobs(done)["Compile"] & jobs(done)["Execute"]
    assert "best.csv" in output(done)
    assert not re.search("Time |Collect |Draw |Write the page|latency", output(done))


def refused(folder, *arguments):
    """What is said of a mistake, without a traceback, before anything runs."""
    done = snakemake(folder, *arguments)
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert not (folder / "results").exists()
    return output(done)


def test_mistake_ends_in_one_line(tmp_path):
    data = config({"kernels": ["matmul_naiv"], "shapes": [64]})
    said = refused(tmp_path, "report", "--configfile", write(tmp_path, data))
    (told,) = (line for line in said.splitlines() if "; allowed: " in line)
    assert "test.yaml" in told and "matmul_naive" in told


@pytest.mark.parametrize(
    ("front", "folder", "said"),
    [
        ("title: t\noperation: matmul\ngird: [1]\n", "mine/bad.cu", "bad.cu: gird"),
        (FRONT.replace("ceil(n / TILE)", "ceil(n / TIEL)"), "mine", "bad.cu:8: grid"),
    ],
)
def test_mistake_in_front_matter_names_the_file(tmp_path, front, folder, said):
    path = write_kernel(tmp_path / "mine", "bad", front=front)
    data = config({"kernels": ["bad"], "shapes": [64]}, kernel_folders=[str(tmp_path / folder)])
    told = refused(tmp_path, "-n", "report", "--configfile", write(tmp_path, data))
    assert f"{path.parent}/{said}" in told


def test_tune_without_a_study_that_races(tmp_path):
    data = config({"kernels": ["matmul_naive"], "macros": "defaults", "shapes": [64]})
    done = snakemake(tmp_path, "tune", "--configfile", write(tmp_path, data))
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert "no study that races" in output(done)


def test_unlock_needs_no_cores_and_only_may_be_a_number(tmp_path):
    path = write(tmp_path, config())
    done = started(tmp_path, "--unlock", "--configfile", path)
    assert done.returncode == 0, done.stderr
    done = snakemake(tmp_path, "-n", "report", "--configfile", path, "--config", "only=64")
    assert jobs(done)["Draw"] == {"study"}


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


STUDIES = {
    "study": {
        "plot": "correctness",
        "cases": [{"kernels": ["good", "broken"], "macros": "defaults", "shapes": [64, "65x1x7"]}],
    },
    "drawn": {"plot": "bars", "cases": [{"kernels": ["good"], "shapes": [64]}]},
    "boxed": {"plot": "broken", "cases": [{"kernels": ["good"], "shapes": [64]}]},
    "raced": {
        "plot": "best",
        "tune": True,
        "cases": [{"kernels": ["good"], "macros": {"TILE": [16, 32]}, "shapes": [32, 48]}],
    },
}
# Of the figure that raises.
WHY = "ValueError: no <bars>, at $1 a $ (figures/broken.py, line 12)"
UNDRAWN = "1 figure was not drawn (boxed)"


def ran_on(folder, run=snakemake, *, strict):
    studies = {name: {"title": name, "question": "Q?", **one} for name, one in STUDIES.items()}
    data = config(kernel_folders=["mine"], plot_folders=["figures"], studies=studies, strict=strict)
    return run(folder, "tune", "report", "--cores", "1", "--configfile", write(folder, data))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Folder and outcome of a strict run without a GPU, of kernels and figures of which some are broken."""
    folder = tmp_path_factory.mktemp("ran")
    write_kernel(folder / "mine", "good")
    write_kernel(folder / "mine", "broken", body=BODY.replace("REAL sum = 0;", "REAL sum = 0"))
    (folder / "figures").mkdir()
    raising = "    raise ValueError('no <bars>,\\nat $1 a $')\n    ax.bar"
    (folder / "figures" / "broken.py").write_text(BARS.replace("    ax.bar", raising))
    (folder / "figures" / "bars.py").write_text(BARS)
    done = ran_on(folder, started, strict=True)
    assert (folder / "reports" / "index.html").is_file(), done.stderr
    for kind in outputs.KINDS:
        assert (folder / kind / outputs.MARKER).is_file()
    return folder, done


def test_small_study_without_a_gpu(ran):
    """A kernel with a syntax error is a status in a report that is otherwise complete."""
    folder, done = ran
    text = (folder / "reports" / "index.html").read_text()
    # With neither a GPU nor a recorded figure, the CPU executes the machine code.
    for told in ("failed to compile", "broken.cu:", "65x1x7", "executing the kernels&#39; machine"):
        assert told in text
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    good = records["case"].isin(["good@64x64x64", "good@65x1x7"]) & (records["stage"] == "check")
    told = records[good][["case", "verdict", "source"]].drop_duplicates().to_numpy().tolist()
    assert [(verdict, source) for _, verdict, source in told] == [("correct", "executed")] * 2
    assert "Traceback" not in done.stderr
    for line in (
        "compile: 1 variants for study (1)",
        "execute: 4 cases for boxed (2), drawn (2), ",
    ):
        assert f"\n  {line}" in done.stderr


def test_a_figure_of_ones_own_and_one_that_raises(ran):
    """Both stand in a page that is complete, the second as a box with the reason."""
    folder, done = ran
    page = {name: (folder / f"reports/study/{name}.html").read_text() for name in STUDIES}
    assert "as high as its name" in page["drawn"] and "../figures/drawn.svg" in page["drawn"]
    table = pd.read_csv(folder / "reports" / "figures" / "drawn.csv")
    letters = {"good@64x64x64": 13, "good-realf64@64x64x64": 21}
    assert dict(zip(table["case"], table["letters"])) == letters
    assert WHY.replace("<", "&lt;").replace(">", "&gt;") in page["boxed"]
    assert "Traceback" not in page["boxed"] and "boxed.svg" not in page["boxed"]
    assert UNDRAWN in (folder / "reports" / "index.html").read_text()
    assert f"  boxed: {WHY}\n" in done.stderr and UNDRAWN in done.stderr
    assert "Traceback" in (folder / "results" / "logs" / "figures.log").read_text()
    for name in STUDIES:
        for kind in report.FIGURE_FILES:
            assert (folder / "reports" / kind.format(study=name)).stat().st_size


def test_races_without_a_gpu(ran):
    """Every candidate has a status with its reason in the table, and the report its figure."""
    folder, _ = ran
    table = (folder / "reports" / "tables" / "best.csv").read_text().splitlines()
    assert len(table) == 3
    assert "not measured" in table[1] and "no recorded figure of this case" in table[1]
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    races = records[records["stage"] == "tune"]
    assert set(races["status"]) == {"not measured"}
    assert "not measured" in (folder / "reports" / "study" / "raced.html").read_text()


def test_what_is_left_to_do_is_done(ran):
    folder, done = ran
    configured = ["--configfile", str(folder / "test.yaml")]

    def planned():
        done = snakemake(folder, "-n", "tune", "report", *configured)
        return jobs(done), "Nothing to be done" in done.stdout + done.stderr

    assert done.returncode != 0
    assert planned() == ({"Draw": set(STUDIES)}, False)
    alone = snakemake(folder, "reports/figures/boxed.svg", "--force", *configured)
    assert alone.returncode != 0
    (folder / "figures" / "broken.py").write_text(BARS)
    strict = ran_on(folder, strict=True)
    assert strict.returncode != 0 and "good" not in strict.stderr
    assert "not drawn" not in strict.stderr and "broken@64x64x64" in strict.stderr
    assert "not drawn" not in (folder / "reports" / "study" / "boxed.html").read_text()
    passed = ran_on(folder, strict=False)
    assert passed.returncode == 0, passed.stderr
    assert {"Compile", "Execute", "Draw"} & set(jobs(passed)) == set()
    assert "execute: " not in passed.stderr
    # Nothing is left. A comment, also one that moves the code, is nothing; a change of code is that kernel's jobs.
    comment = BODY.replace("REAL sum = 0;", "// a note\n    REAL sum = 0;  // and another one")
    write_kernel(folder / "mine", "good", body=comment)
    assert planned() == ({}, True)
    write_kernel(folder / "mine", "good", body=comment.replace("sum = 0;", "sum = 0 * 1;"))
    found, _ = planned()
    assert found == {"Compile": {"good"}, "Execute": {"good"}, "Draw": set(STUDIES)}
