"""The results do not depend on the folder of the checkout or on the environment.
TILEWAVE_PYTHONS="PYTHON3.12 PYTHON3.13" tries other interpreters that have the packages of requirements/base.txt."""

import os
import shutil
import subprocess
import sys

import pytest

from samples import ROOT
from small_study import STUDY, Run, mount, same, tables, unmounted

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("nvidia", "cuda", "nvmath"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
"""A `sitecustomize` that hides NVIDIA's packages."""


def checkout(to):
    """Copy the tracked files of this checkout."""
    command = ["git", "ls-files", "-z"]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


@pytest.fixture
def home(tmp_path):
    return checkout(tmp_path / "checkout")


def run(home, folder, **how):
    """Run the study from a checkout in a folder, and return the output."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(STUDY)
    return Run(folder, home=home, **how).passed()


def read_only(folder):
    """Make a folder read-only, even for root."""
    mount("--bind", str(folder), str(folder))
    mount("-o", "remount,bind,ro", str(folder))


def test_blanks_quotes_and_umlauts(tmp_path, reference):
    odd = tmp_path / "a b (ü, ß) 'c'"
    run(checkout(odd / "the checkout"), odd / "the run")
    same(odd / "the run", reference)


def test_a_read_only_checkout(tmp_path, home, reference):
    with unmounted(home):
        read_only(home)
        run(home, tmp_path / "run")
    same(tmp_path / "run", reference)


def test_no_home(tmp_path, home, reference):
    run(home, tmp_path / "run", env={"HOME": None, "XDG_CACHE_HOME": None})
    same(tmp_path / "run", reference)
    (empty := tmp_path / "empty").mkdir()
    with unmounted(empty):
        read_only(empty)
        cache = os.environ.get("TILEWAVE_CACHE") or str(tmp_path / "cache")
        variables = {"HOME": str(empty), "XDG_CACHE_HOME": str(tmp_path / "xdg"), "TILEWAVE_CACHE": cache}  # fmt: skip
        run(home, tmp_path / "other", env=variables)
    same(tmp_path / "other", reference)


def test_the_plainest_locale(tmp_path, reference):
    plain = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run(checkout(tmp_path / "checkout ü"), tmp_path / "run", env=plain)
    same(tmp_path / "run", reference)


def test_a_checkout_that_was_moved(tmp_path, home, reference):
    run(home, home)
    there = home.rename(tmp_path / "elsewhere")
    assert "measured" not in run(there, there)
    same(there, reference)


def test_all_lies_behind_links(tmp_path, home, reference):
    (tmp_path / "link").symlink_to(home)
    for name in ("real", "store"):
        (tmp_path / name).mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    (tmp_path / "real" / ".tilewave").symlink_to(tmp_path / "store")
    run(tmp_path / "link", tmp_path / "run")
    same(tmp_path / "run", reference)


def test_without_packages_of_nvidias(tmp_path, home):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDDEN)
    paths = f"{tmp_path / 'site'}{os.pathsep}{home / 'workflow'}"
    run(home, tmp_path / "run", env={"PYTHONPATH": paths})
    records = tables(tmp_path / "run")["records"]
    assert set(records["status"]) == {"not measured"} and all(records["reason"])


@pytest.mark.parametrize("python", os.environ.get("TILEWAVE_PYTHONS", sys.executable).split())
def test_an_interpreter(tmp_path, home, reference, python):
    run(home, tmp_path / "run", python=python)
    same(tmp_path / "run", reference)
