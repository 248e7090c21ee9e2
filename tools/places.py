"""The same results wherever the checkout lies and whatever the surroundings: a table in Markdown.

    .venv/bin/python tools/places.py [--python PYTHON ...]

Each row runs a small study from a copy of this checkout. ``--python`` adds rows for other interpreters that
have the packages of requirements/base.txt. Exit code 1 where a row is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from crashes import ROOT, STUDY, TABLES, Wrong, tables

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("nvidia", "cuda", "nvmath"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
"""Of a `sitecustomize`: as if no package of NVIDIA's were installed."""


def checkout(to: Path) -> Path:
    """A copy of what git has of this checkout."""
    to.mkdir(parents=True)
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    for name in filter(None, files.decode().split("\0")):
        if not name.startswith(("tests/", "docs/")):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


def run(
    home: Path, folder: Path, env: dict[str, str] | None = None, python: str = sys.executable
) -> str:
    """Run the study from a checkout in a folder; what was said. Raises Wrong where it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(STUDY)
    command = [python, "-m", "snakemake", "--snakefile", str(home / "Snakefile"), TABLES]
    command += ["--cores", "2", "--configfile", "small.yaml"]
    own = {**os.environ, "PYTHONPATH": str(home / "workflow")} if env is None else env
    done = subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, errors="replace"
    )
    if done.returncode or "Traceback" in done.stderr:
        raise Wrong(done.stderr[-3000:])
    return done.stderr


def same(folder: Path) -> None:
    """Raises Wrong where a folder's tables are not those of the first run."""
    for name, found in tables(folder).items():
        try:
            pd.testing.assert_frame_equal(found, REFERENCE[name])
        except AssertionError as error:
            raise Wrong(f"{name} differ: {error}") from None


REFERENCE: dict[str, pd.DataFrame] = {}


def _with(home: Path, **env: str | None) -> dict[str, str]:
    made = {**os.environ, "PYTHONPATH": str(home / "workflow"), **env}
    return {name: value for name, value in made.items() if value is not None}


def blanks(work: Path) -> str:
    odd = work / "a b (ü, ß) 'c'"
    run(checkout(odd / "the checkout"), odd / "the run")
    same(odd / "the run")
    return "the same results"


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody can write, not even root."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def read_only_checkout(work: Path) -> str:
    home = checkout(work / "checkout")
    with read_only(home):
        run(home, work / "run")
    same(work / "run")
    return "the same results, in a folder of their own"


def no_home(work: Path) -> str:
    home = checkout(work / "checkout")
    run(home, work / "run", _with(home, HOME=None, XDG_CACHE_HOME=None))
    same(work / "run")
    empty = work / "empty"
    empty.mkdir()
    with read_only(empty):
        cache = {"TILEWAVE_CACHE": os.environ.get("TILEWAVE_CACHE") or str(work / "cache")}
        run(
            home,
            work / "other",
            _with(home, HOME=str(empty), XDG_CACHE_HOME=str(work / "xdg"), **cache),
        )
    same(work / "other")
    return "the same results, also with a home that is read-only and TILEWAVE_CACHE elsewhere"


def plain_c(work: Path) -> str:
    home = checkout(work / "checkout ü")
    plain = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run(home, work / "run", _with(home, **plain))
    same(work / "run")
    return "the same results"


def moved(work: Path) -> str:
    home = checkout(work / "checkout")
    run(home, home)
    there = home.rename(work / "elsewhere")
    said = run(there, there)
    if "measured" in said:
        raise Wrong(f"measured again:\n{said}")
    same(there)
    return "nothing is measured again"


def linked(work: Path) -> str:
    home = checkout(work / "checkout")
    (work / "link").symlink_to(home)
    (work / "real").mkdir()
    (work / "run").symlink_to(work / "real")
    (work / "store").mkdir()
    (work / "real" / ".tilewave").symlink_to(work / "store")
    run(work / "link", work / "run")
    same(work / "run")
    return "the same results: checkout, run folder and store behind links"


def without_nvidia(work: Path) -> str:
    home = checkout(work / "checkout")
    (work / "site").mkdir()
    (work / "site" / "sitecustomize.py").write_text(HIDDEN)
    paths = f"{work / 'site'}{os.pathsep}{home / 'workflow'}"
    run(home, work / "run", _with(home, PYTHONPATH=paths))
    found = tables(work / "run")["records"]
    if set(found["status"]) != {"not measured"}:
        raise Wrong(f"statuses {set(found['status'])}")
    return f"all {found['case'].nunique()} cases *not measured*: {found['reason'].iloc[0]}"


PLACES: dict[str, Callable[[Path], str]] = {
    "path with blanks, quotes and umlauts": blanks,
    "read-only checkout": read_only_checkout,
    "no HOME": no_home,
    "LANG=C": plain_c,
    "checkout that was moved": moved,
    "symbolic links": linked,
    "no NVIDIA packages (their imports fail)": without_nvidia,
}


def other(python: str) -> Callable[[Path], str]:
    """A row for another interpreter."""

    def ran(work: Path) -> str:
        home = checkout(work / "checkout")
        run(home, work / "run", python=python)
        same(work / "run")
        return "the same results"

    return ran


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="*", default=[], help="other interpreters")
    parser.add_argument("--only", nargs="*", help="rows, by their names")
    options = parser.parse_args()
    rows, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="tilewave-places-") as folder:
        work = Path(folder).resolve()
        run(ROOT, work / "reference")
        REFERENCE.update(tables(work / "reference"))
        for python in options.python:
            told = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout
            PLACES[told.strip()] = other(python)
        for number, (name, tried) in enumerate(PLACES.items()):
            if options.only and name not in options.only and not name.startswith("Python"):
                continue
            try:
                told = tried(work / str(number))
            except Wrong as error:
                wrong.append(f"{name}: {error}")
                told = "**wrong**"
            except subprocess.CalledProcessError as error:
                told = f"not tried: {error.cmd[0]} is not allowed"
            print(f"{name}: {told}", file=sys.stderr, flush=True)
            rows.append(f"| {name} | {told} |")
    print("\n".join(["| where | what came of it |", "|---|---|", *rows]))
    print("\n".join(wrong), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
