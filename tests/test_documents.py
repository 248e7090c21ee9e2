"""The promises of the documents: the README's kernel compiles, lock files name no index, YAML is YAML."""

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

import documents
import forked_snakemake
import front_matter
import house
from samples import ROOT, needs_nvrtc
from tilewave.__main__ import main
from tilewave.compiling import nvrtc
from tilewave.kernel.front_matter import FrontMatter, load_kernel
from tilewave.kernel.variants import variant
from tilewave.pipeline import project
from tilewave.plots import MODULES
from tilewave.records.counters import catalogue

DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))
LOCKS = sorted((ROOT / "requirements").iterdir())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def example(folder: Path) -> Path:
    text = (ROOT / "README.md").read_text()
    path = folder / re.search(r"Save this as `kernels/ladder/(\w+\.cu)`", text)[1]
    path.write_text(re.search(r"```cuda\n(.*?)```", text, re.S)[1])
    return path


@needs_nvrtc
def test_readme_kernel_covers_c_and_compiles(tmp_path):
    kernel = load_kernel(example(tmp_path))
    plan = variant(kernel, {}, "here", "macros").plan({"m": 9, "n": 65, "k": 3}, {})
    assert (plan.grid, plan.tile) == ((2, 2, 1), (8, 64, 1))
    for width in (32, 64):
        assert nvrtc.compile_kernel(kernel, "sm_90", {"WIDTH": width}).message == ""


@pytest.fixture
def contributing(alone, monkeypatch):
    """The text of CONTRIBUTING.md, with its operation and kernel in the files that it names."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for kind in ("python", "cuda"):
        name = re.search(rf"`(my_\w+/\w+\.\w+)`[^`]*```{kind}\n", text)[1]
        Path(name).parent.mkdir()
        Path(name).write_text(re.search(rf"```{kind}\n(.*?)```", text, re.S)[1])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return text


@needs_nvrtc
def test_contributings_operation_works_as_it_stands(contributing, capsys):
    (execute,) = re.findall(r"^    tilewave (execute .*)$", contributing, re.M)
    assert main(execute.split()) == 0
    assert "rms_warp@33x1000: correct" in capsys.readouterr().out
    config = re.search(r"^    operation_folders:.*?(?=\n\n\|)", contributing, re.S | re.M)[0]
    loaded = project.load(yaml.safe_load(config), "my.yaml")
    assert set(loaded.plan.cases) >= {"rms_warp@33x1000", "rms_warp-warps8@128x4096"}


def test_contributings_report_is_planned(contributing, monkeypatch):
    """tests/pipeline/test_dag.py runs one, also with a user-defined operation."""

    def planned(command, env, **more):
        return forked_snakemake.run([*command[3:-1], "tilewave-results/plan.json"], Path.cwd(), env)

    monkeypatch.setattr("tilewave.commands.report.subprocess.run", planned)
    (report,) = re.findall(r"^    tilewave (report --kernels .*)$", contributing, re.M)
    assert main(report.split()) == 0
    plan = json.loads(Path("tilewave-results/plan.json").read_text())
    assert {variant["kernel"] for variant in plan["variants"].values()} == {"rms_warp"}


@needs_nvrtc
def test_operations_by_example(alone, monkeypatch, capfd):
    """Each is wrapped and correct; the second one also with the inputs that the text defines."""
    text = (ROOT / "docs" / "operations.md").read_text()
    files = re.findall(r"`(my_\w+/\w+\.\w+)`[^`]*```(?:python|cuda)\n(.*?)```", text, re.S)
    assert len(files) == 4
    for name, code in files:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(code)
    (more,) = re.findall(r"```python\n(    def inputs.*?)```", text, re.S)
    uneven = Path("my_operations/histogram.py").read_text() + f"\n{more}"
    Path("my_operations/uneven.py").write_text(uneven)
    monkeypatch.setenv("TILEWAVE_OPERATIONS", "my_operations")
    for name in ("dense_gelu", "histogram"):
        assert main(["wrap", f"my_kernels/{name}.cu", "--operation", name, "--yes"]) == 0
    wrapped = Path("my_kernels/histogram.cu")
    wrapped.write_text(wrapped.read_text().replace("operation: hist", "operation: uneven #"))
    assert main(["execute", "my_kernels/histogram.cu", "--shape", "1000"]) == 0


def test_every_rung_has_its_paragraph():
    paragraphs = re.findall(r"^\*\*(\w+)\*\*", (ROOT / "docs" / "ladder.md").read_text(), re.M)
    rungs = [path.stem for path in (ROOT / "kernels" / "ladder").glob("*.*")]
    assert sorted(paragraphs) == sorted(rungs)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.S))
    files = [link.partition("#")[0] for link in links if not link.startswith("http")]
    assert [name for name in files if not (path.parent / name).exists()] == []


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_requirements_name_no_index(path):
    text = path.read_text()
    assert not re.search(r"https?://|--find-links|--(extra-)?index-url|file:", text)
    if path.suffix == ".txt":
        pins = re.findall(r"^[A-Za-z0-9][\w.\-\[\]]*==", text, re.M)
        assert pins
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pins)


def test_nvrtc_is_pinned():
    assert "nvidia-cuda-nvrtc==13.0.88 " in (ROOT / "requirements" / "base.txt").read_text()


def test_every_key_of_the_front_matter_is_explained():
    text = (ROOT / "docs" / "front_matter.md").read_text()
    assert [key for key in FrontMatter.model_fields if f"`{key}`" not in text] == []
    assert front_matter.written(text) == text, "run `make schema`"


def test_every_package_is_in_the_row_of_its_room():
    """docs/data.md has a row for each room, with a module to start with."""
    text = (ROOT / "docs" / "data.md").read_text()
    rows = re.findall(r"^\| \d \| `(\w+)/` \|(.*)\| `(\w+\.py)` \|$", text, re.M)
    library = ROOT / "workflow" / "tilewave"
    packages = [path.parent.relative_to(library) for path in library.glob("*/**/__init__.py")]
    assert sorted(row[0] for row in rows) == sorted({path.parts[0] for path in packages})
    for name, about, start in rows:
        inner = {path.name for path in packages if path.parts[0] == name != path.as_posix()}
        assert inner == set(re.findall(r"`(\w+)/`", about)), name
        assert (library / name / start).is_file(), f"{name}/{start}"


def test_the_files_that_data_names_are_there():
    text = (ROOT / "docs" / "data.md").read_text()
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|cu|smk))`", text)
    roots = (ROOT, ROOT / "workflow", ROOT / "workflow" / "tilewave")
    assert named
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []


def test_the_picture_of_the_house_is_current():
    """`make documents` writes it."""
    drawn = documents.themed(house.drawing())
    assert (ROOT / "docs" / "images" / "house.svg").read_text() == drawn


def test_config_readme_names_every_plot_and_metric_set():
    text = (ROOT / "config" / "README.md").read_text()
    assert [name for name in MODULES.names() if name not in text] == []
    assert [name for name in catalogue.SETS if f"| `{name}` |" not in text] == []


YAML = ["profiles/slurm/config.yaml", "profiles/default/config.yaml", "CITATION.cff"]
YAML += [".snakemake-workflow-catalog.yml", "environment.yaml", ".pre-commit-config.yaml"]


@pytest.mark.parametrize("path", [*map(ROOT.joinpath, YAML), *WORKFLOWS], ids=str)
def test_yaml_files(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_the_list_of_opcodes_is_current():
    """`make opcodes` writes it."""
    text = (ROOT / "docs" / "executing.md").read_text()
    assert runpy.run_path(str(ROOT / "tools" / "opcodes.py"))["written"](text) == text


def test_licences_name_each_package_of_nvidia():
    pins = (path.read_text() for path in LOCKS if path.suffix == ".txt")
    locked = set(re.findall(r"^((?:cuda|ncu|nvidia|nvmath|nvtx)[\w-]*)==", "\n".join(pins), re.M))
    assert locked == set(
        re.findall(r"`((?:cuda|ncu|nv)[\w-]*)`", (ROOT / "docs" / "licences.md").read_text())
    )
