"""The wheel: its files and requirements, and the library that finds its files there.
`make wheel` installs it into an empty environment and writes a report there."""

import email
import json
import os
import re
import subprocess
import sys
import zipfile

import pytest

from samples import ROOT

TOOLS = ("build", "supply")
"""Requirements of a checkout alone."""
CARRIED = ("config", "kernels", "profiles/default", "resources/recorded", "workflow")
NAME = re.compile(r"[\w-]+")
PROGRAM = """
import json
from tilewave.records import environment; from tilewave.basics import paths as home, dependencies as library; from tilewave.pipeline import project
loaded = project.load({"studies": {"a": {"plot": "ladder", "title": "A", "cases": [{"shapes": [64]}]}}}, "a")
print(json.dumps([str(home.ROOT), environment.commit(), len(loaded.kernels), loaded.largest_recording().name,
                  library.templates_digest()]))
"""


def files(folder):
    paths = [path for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (path,) = folder.glob("tilewave-*-py3-none-any.whl")
    with zipfile.ZipFile(path) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def test_it_carries_the_workflow(wheel):
    wanted = {"Snakefile"}.union(*map(files, CARRIED))
    wanted = {
        name.removeprefix("workflow/") if name.startswith("workflow/tilewave/") else f"tilewave/_home/{name}"
        for name in wanted
    }  # fmt: skip
    carried = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    assert wanted <= carried
    rest = {name for name in carried - wanted if ".dist-info/" not in name}
    assert rest == {"tilewave/_home/commit.json"}


def test_its_requirements_are_those_of_the_in_files(wheel):
    (folder,) = wheel.glob("*.dist-info")
    metadata = email.message_from_string((folder / "METADATA").read_text())
    requirements = {NAME.match(line)[0].lower() for line in metadata.get_all("Requires-Dist")}
    for path in (ROOT / "requirements").glob("*.in"):
        lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
        names = {NAME.match(line)[0].lower() for line in lines}
        assert names and (not names & requirements if path.stem in TOOLS else names <= requirements)
    extras = {"browser", "dev", "execute", "gpu", "mcp", "ncu", "slurm"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    drawing = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert not re.search("numba|cuda|ncu|cublas", " ".join(drawing))
    assert metadata["License-Expression"] == "MIT" and metadata["Requires-Python"] == ">=3.11"
    assert "tilewave = tilewave.__main__:main" in (folder / "entry_points.txt").read_text()


def test_the_library_finds_its_files_there(wheel, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(wheel)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    root, commit, kernels, recording, templates = json.loads(done.stdout)
    assert root == str(wheel / "tilewave" / "_home")
    assert commit == json.loads((wheel / "tilewave/_home/commit.json").read_text())
    assert kernels > 30 and recording == "nvidia_h200" and len(templates) == 16
