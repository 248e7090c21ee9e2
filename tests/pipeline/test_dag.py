"""The workflow as a user starts it: dry runs, mistakes, and a small study without a GPU."""

import json
import os
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

import forked_snakemake
from samples import BODY, DATA, FRONT, ROOT, config, kernel_parts, write_kernel
from tilewave import report
from tilewave.compiling import nvrtc
from tilewave.pipeline import outputs, parameters, rules
from tilewave.pipeline import project as projects

# A GPU that happens to be here must not be used by tests.
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}


def output(done):
    return done.stdout + done.stderr


def options(folder, *arguments):
    return ["-s", str(ROOT / "Snakefile"), "-d", str(folder), *arguments]


def snakemake(folder, *arguments):
    """Run this checkout's workflow in a folder."""
    return forked_snakemake.run(options(folder, "--cores", "1", *arguments), folder, ENVIRONMENT)


def started(folder, *arguments, **environment):
    """Run it in a new process, as a user does."""
    command = [sys.executable, "-m", "snakemake", *options(folder, *arguments)]
    about = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT | environment, **about)


def write(folder, data):
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """A folder for dry runs, which write no results there."""
    return tmp_path_factory.mktemp("dry")


def rules_of(done):
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^(\w+) +[1-9]\d*$", output(done), re.M)) - {"total"}


ALL = {"plan", "compile", "measure", "execute", "tables", "figures", "page", "verdict", "report"}


@pytest.mark.parametrize("more", [[], ["--set-scatter", "parts=3"]])
def test_a_dry_run_of_a_report_shows_the_whole_graph(dry, more):
    smoke = str(ROOT / "config" / "smoke.yaml")
    done = snakemake(dry, "-n", "report", "--configfile", smoke, *more)
    assert rules_of(done) == ALL
    assert ("measure        3" in output(done)) == bool(more)
    assert not (dry / "results").exists() and not (dry / "reports").exists()


def test_the_workflow_is_a_module_of_another(tmp_path):
    (tmp_path / "Snakefile").write_text(
        f'configfile: "{ROOT}/config/smoke.yaml"\n'
        f'module tilewave:\n    snakefile: "{ROOT}/workflow/Snakefile"\n    config: config\n'
        "use rule * from tilewave as tilewave_*\n"
        "rule mine:\n    default_target: True\n    input: rules.tilewave_report.input\n"
    )
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert {f"tilewave_{name}" for name in ALL - {"report"}} <= rules_of(done)


def test_the_snakefile_is_read_with_the_standard_library():
    heavy = "numpy pandas pyarrow pydantic matplotlib yaml".split()
    code = f"print([name for name in {heavy} if name in sys.modules])"
    command = [sys.executable, "-c", f"import sys, tilewave.pipeline.parameters; {code}"]
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_rule_depends_on_modules_that_exist():
    """A user-defined plot is no module of the library, and is ignored."""
    figures = parameters.code("report.figures")
    assert parameters.code("report.figures", "plots.mine") == figures
    assert parameters.code("report.figures", "plots.claims") != figures
    with pytest.raises(KeyError, match="stages"):
        parameters.code("stages.rules")


@pytest.mark.skipif(not (ROOT / "resources/recorded/nvidia_h200").is_dir(), reason="no recording")
def test_what_is_recorded_is_not_done_again(alone):
    """A variant that was recorded with this code is neither compiled nor executed."""
    recorded = json.loads((ROOT / "resources/recorded/nvidia_h200/compiled.json").read_text())
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    pipeline = rules.begin(projects.load(config, "config.yaml", thorough=False)).pipeline()
    changed = set()
    variants = pipeline.variants.values()
    for variant in (each for each in variants if each.kernel.provider == "nvrtc"):
        target = nvrtc.target_of(variant.kernel, "sm_90")
        key = nvrtc.cache_key(variant.kernel, target, variant.names)
        if recorded.get(f"{variant.id}.sm_90", {}).get("key") != key:
            changed.add(variant.id)
    assert {task.variant.id for task in pipeline.tasks(list(pipeline.variants))} == changed
    executed = pipeline.measure("execute", None)["results"]
    missing = [outcome.case for outcome in executed if outcome.status == "not measured"]
    assert {case.partition("@")[0] for case in missing} <= changed


PRETENDED = """\
from tilewave.records import environment

environment.has_gpu = lambda found: True
here = environment.cpu_environment() | {"gpu": "NVIDIA H200", "uuid": "GPU-a", "compute_capability": "9.0", "sms": 132}
environment.probe = lambda gpu=None: here | {"id": environment.environment_id(here)}
"""


def test_what_is_executed_waits_until_all_is_timed(tmp_path):
    write_kernel(tmp_path / "kernels", "a")
    top = {"kernel_folders": [str(tmp_path / "kernels")], "target": "live"}
    data = config({"kernels": ["a"], "shapes": [32]}, execute={"when": "always"}, **top)
    data["studies"]["study"] |= {"time": True, "counters": "basic"}
    (tmp_path / "sitecustomize.py").write_text(PRETENDED)
    path = f"{tmp_path}{os.pathsep}{ROOT / 'workflow'}"
    arguments = ["report", "--dag", "--cores", "4", "--configfile", write(tmp_path, data)]
    done = started(tmp_path, *arguments, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    names = dict(re.findall(r'(\d+)\[label = "(\w+)', done.stdout))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(\d+) -> (\d+)", done.stdout)}
    assert ("measure", "execute") in edges


def test_new_file_takes_part_in_one_figure_by_its_path(tmp_path):
    write_kernel(tmp_path / "mine", "brand_new")
    more = ["--config", "only=ladder", f'kernel_folders=["kernels","{tmp_path}/mine"]']
    done = snakemake(tmp_path, "-n", "reports/figures/ladder.svg", *more)
    assert "figure" in rules_of(done) and "page" not in rules_of(done)
    assert snakemake(tmp_path, "results/plan.json", *more).returncode == 0
    plan = json.loads((tmp_path / "results" / "plan.json").read_text())
    assert list(plan["studies"]) == ["ladder"]
    kernels = {variant["kernel"] for variant in plan["variants"].values()}
    assert {"brand_new", "matmul_naive"} <= kernels


def refused(folder, *arguments):
    """Return the output of a run with a mistake: no traceback, and nothing runs."""
    done = snakemake(folder, *arguments)
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert not (folder / "results").exists()
    return output(done)


def test_mistake_ends_in_one_line(tmp_path):
    data = config({"kernels": ["matmul_naiv"], "shapes": [64]})
    text = refused(tmp_path, "report", "--configfile", write(tmp_path, data))
    (message,) = (line for line in text.splitlines() if ". Allowed: " in line)
    assert "test.yaml" in message and "matmul_naive" in message


def test_mistake_in_front_matter_names_the_file(tmp_path):
    front = "title: t\noperation: matmul\ngird: [1]\n"
    path = write_kernel(tmp_path / "mine", "bad", front=front)
    data = config({"kernels": ["bad"], "shapes": [64]}, kernel_folders=[str(path)])
    message = refused(tmp_path, "-n", "report", "--configfile", write(tmp_path, data))
    assert f"{path}: unknown key gird" in message


def test_an_expression_without_a_value_ends_the_plan_in_one_line(tmp_path):
    front = FRONT.replace("ceil(n / TILE)", "ceil(n / TIEL)")
    path = write_kernel(tmp_path / "mine", "bad", front=front)
    data = config({"kernels": ["bad"], "shapes": [64]}, kernel_folders=[str(path.parent)])
    done = snakemake(tmp_path, "report", "--configfile", write(tmp_path, data))
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert f"{path}:8: grid" in output(done) and "Compile" not in output(done)


def test_unlock_needs_no_cores_and_only_may_be_a_number(tmp_path):
    path = write(tmp_path, config())
    done = started(tmp_path, "--unlock", "--configfile", path)
    assert done.returncode == 0, done.stderr
    done = snakemake(tmp_path, "-n", "report", "--configfile", path, "--config", "only=64")
    assert "figures" in rules_of(done)


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
    "doubled": {"plot": "correctness", "cases": [{"operation": "twice", "shapes": [100]}]},
    "raced": {
        "plot": "best",
        "tune": True,
        "cases": [{"kernels": ["good"], "macros": {"TILE": [16, 32]}, "shapes": [32, 48]}],
    },
}
# The reason of the figure that raises.
WHY = "ValueError: no <bars>, at $1 a $ (figures/broken.py, line 12)"
UNDRAWN = "1 figure was not drawn (boxed)"


def ran_on(folder, run=snakemake, *, strict):
    studies = {name: {"title": name, "question": "Q?", **study} for name, study in STUDIES.items()}
    more = {"operation_folders": ["operations"], "studies": studies, "strict": strict}
    data = config(kernel_folders=["mine"], plot_folders=["figures"], **more)
    return run(folder, "report", "--cores", "1", "--configfile", write(folder, data))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Folder and outcome of a strict run without a GPU, of kernels and figures of which some are broken."""
    folder = tmp_path_factory.mktemp("ran")
    write_kernel(folder / "mine", "good")
    write_kernel(folder / "mine", "broken", body=BODY.replace("REAL sum = 0;", "REAL sum = 0"))
    front, body = kernel_parts("twice")
    write_kernel(folder / "mine", "doubled", front, body.replace("FACTOR", "2"))
    shutil.copytree(DATA.with_name("operations"), folder / "operations")
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
    """A kernel with a syntax error is a status, and the rest of the report is complete."""
    folder, done = ran
    text = (folder / "reports" / "index.html").read_text()
    # With neither a GPU nor a recorded value, the CPU executes the machine code.
    for phrase in (
        "failed to compile",
        "broken.cu:",
        "65x1x7",
        "What a CPU executes gives verdicts",
    ):
        assert phrase in text
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    right = ["good@64x64x64", "good@65x1x7", "doubled@100"]
    checks = records["case"].isin(right) & (records["stage"] == "check")
    rows = records[checks][["case", "verdict", "source"]].drop_duplicates().to_numpy().tolist()
    assert [(verdict, source) for _, verdict, source in rows] == [("correct", "executed")] * 3
    assert "Traceback" not in done.stderr
    for line in ("compile: 5 variants", "execute: 5 cases"):
        assert f"\n  {line} for boxed (2), drawn (2), " in done.stderr
    # Snakemake notes time and memory of the rules that measure and execute.
    for rule in ("measure", "execute"):
        benchmark = pd.read_csv(folder / f"results/benchmarks/{rule}/1-of-1.tsv", sep="\t")
        assert benchmark["s"].gt(0).all() and "max_rss" in benchmark


def test_a_user_defined_figure_and_a_figure_that_raises(ran):
    """The page has both, the second as a box with the reason."""
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
    table = (folder / "reports" / "figures" / "raced.csv").read_text().splitlines()
    assert len(table) == 3
    assert "not measured" in table[1] and "no recorded value of this case" in table[1]
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    assert set(records[records["stage"] == "tune"]["status"]) == {"not measured"}
    assert "not measured" in (folder / "reports" / "study" / "raced.html").read_text()


def test_what_is_left_to_do_is_done(ran):
    folder, done = ran
    configured = ["--configfile", str(folder / "test.yaml")]

    def planned(*more):
        return rules_of(snakemake(folder, "-n", "report", *configured, *more))

    assert done.returncode != 0 and "\n  good@" not in done.stderr
    assert "\n  broken@64x64x64: " in done.stderr  # the run is strict
    # What was not drawn is tried again.
    assert planned() == {"figures", "page", "verdict", "report"}
    assert snakemake(folder, "reports/figures/boxed.svg", "--force", *configured).returncode != 0
    (folder / "figures" / "broken.py").write_text(BARS)
    passed = ran_on(folder, strict=False)
    assert passed.returncode == 0, passed.stderr
    assert re.search(r"execute: 5 cases in \d+ s: 5 reused\n", passed.stderr)
    assert "not drawn" not in passed.stderr
    assert "not drawn" not in (folder / "reports" / "study" / "boxed.html").read_text()
    assert planned("--config", "strict=true") == {"page", "verdict", "report"}
    # Nothing is left. A comment, even one that moves the code, makes only the page anew; new code makes a new plan.
    comment = BODY.replace("REAL sum = 0;", "// a note\n    REAL sum = 0;  // and another one")
    write_kernel(folder / "mine", "good", body=comment)
    assert planned() == {"page", "verdict", "report"}
    write_kernel(folder / "mine", "good", body=comment.replace("sum = 0;", "sum = 0 * 1;"))
    assert planned() == ALL
