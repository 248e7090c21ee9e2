"""The folders that a run may write: new or empty ones, and those of an earlier run."""

import os
import re
from pathlib import Path

import pytest

from samples import ROOT, config
from tilewave.basics.errors import UserError
from tilewave.pipeline import outputs, parameters
from tilewave.pipeline.config import parse

WHERE = "my.yaml"


@pytest.fixture
def here(alone):
    """The working folder, with a user's project in it."""
    (alone / "mine").mkdir()
    (alone / "file").write_text("text")
    return alone


def check(**output):
    parsed = parse(config(output=output, kernel_folders=["mine", "kernels"]), WHERE)
    outputs.check(parsed, WHERE)
    return parsed


@pytest.mark.parametrize(
    "named",
    [
        ".", "..", "../beside", "a/../../b", "/", "~", "~/x", "mine", ".git", ".git/x", ".tilewave/x",
        "resources/recorded", "resources/recorded/gpu", "/proc/self/x", "/dev/shm/x", "/sys/x", "file", "file/x", "kernels", "kernels/x",
        "a\nb", "a{x}", "a*", "x" * 201, "ü" * 101, str(ROOT), str(ROOT / "kernels"), str(ROOT / "workflow/x"),
        str(ROOT / ".git"), str(ROOT.parent),
    ],
)  # fmt: skip
def test_no_folder_of_a_run(here, named):
    before = sorted(here.rglob("*"))
    for kind in outputs.KINDS:
        with pytest.raises(UserError) as caught:
            check(**{kind: named})
        message = str(caught.value)
        assert message.startswith(f"{WHERE}: output") and "\n" not in message, message
        assert re.search(r"\. [A-Z]", message)
    assert sorted(here.rglob("*")) == before


def test_neither_in_the_other(here):
    for results, reports in (("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", "./a/.")):
        with pytest.raises(UserError, match="a folder apart from"):
            check(results=results, reports=reports)


def test_a_link_is_where_it_leads(here):
    (here / "link").symlink_to("mine")
    (here / "loop").symlink_to("loop")
    for name in ("link", "loop"):
        with pytest.raises(UserError, match=r"output\.results"):
            check(results=name)


def test_what_is_not_ours_is_not_written_over(here):
    folder = here / "paper"
    (folder / "figures").mkdir(parents=True)
    (folder / "README.md").write_text("my paper")
    with pytest.raises(UserError, match=f"an earlier run: it has a file {outputs.MARKER}"):
        check(reports="paper")
    parameters.mark("new", "other/new")
    (folder / "figures").rmdir()
    parameters.mark("new", "paper")
    (folder / "notes.txt").write_text("beside a report")
    check(results="new", reports="paper")
    (here / "begun" / "logs").mkdir(parents=True)  # as Snakemake makes them before the first job
    check(results="begun", reports="paper")


def test_a_folder_of_runs_is_a_runs(here):
    parameters.mark("r/small", "p/small")
    check(results="r", reports="p")
    Path("r/mine.txt").write_text("")
    with pytest.raises(UserError, match=r"output\.results is 'r'"):
        check(results="r", reports="p")


def test_a_checkout_may_write_its_folders(monkeypatch):
    monkeypatch.chdir(ROOT)
    check()
    check(results="results/smoke", reports="reports/smoke")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(here):
    (here / "shut").mkdir(mode=0o500)
    with pytest.raises(UserError, match="can be written"):
        check(results="shut/x")
