"""Comparison of two sides: times, counts, lines, and kernels."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from samples import DATA, ROOT, write_kernel
from tilewave.__main__ import main
from tilewave.basics.errors import UserError
from tilewave.commands import compare
from tilewave.report.comparing import changes, output, sides
from tilewave.report.comparing import page as pages
from tilewave.report.comparing.changes import Comparison
from tilewave.report.comparing.sides import OCCUPANCY, Side, of_recording, with_occupancy
from tilewave.theory import ratios
from tilewave.theory.occupancy import SmLimits

CARD = {"gpu": "NVIDIA H200", "uuid": "GPU-1", "driver": "580"}


def side(label: str, times: dict[str, np.ndarray] | None = None, **more: Any) -> Side:
    """Return a side with these durations (us) by case, each paired with `baseline` if given."""
    baseline, instructions = more.pop("baseline", None), more.pop("instructions", [])
    rows = [
        {"case": case, "stage": "time", "series": name, "index": index, "value": value}
        for case, values in (times or {}).items()
        for name, series in (("duration_us", values), ("baseline_us", baseline))
        if series is not None
        for index, value in enumerate(series)
    ]
    names = list(dict.fromkeys([*(times or {}), *(row["case"] for row in instructions)]))
    about = {"operation": "matmul", "verdict": "correct", "registers": 32.0, "spill_bytes": 0.0}
    cases = pd.DataFrame({"case": names, **about})
    records = pd.DataFrame({"case": names, "stage": "time", "environment": "e"})
    environments = {"e": CARD | more.pop("card", {})}
    columns = ["case", "stage", "series", "index", "value"]
    return Side(label, cases.assign(**more), records, pd.DataFrame(rows, columns=columns),
                pd.DataFrame(instructions), environments)  # fmt: skip


def two_runs(slowed: float, pairs: int = 50) -> pd.DataFrame:
    """Compare pairs of runs, the second slowed; each run has its own clock, page placement and 0.4 % noise."""
    dice = np.random.default_rng(3)
    tables = []
    for _ in range(pairs):
        runs = []
        for factor in (1.0, slowed):
            clock, pages = 1 + dice.uniform(-0.05, 0.05), 1 + dice.normal(0, 0.02)
            durations, baseline = (100 * clock * (1 + dice.normal(0, 0.004, 20)) for _ in range(2))
            runs.append(side("run", {"k@64": factor * pages * durations}, baseline=baseline))
        tables.append(changes.times(*runs))
    return pd.concat(tables)


def in_turn(slowed: float, pairs: int = 50) -> pd.DataFrame:
    """Compare pairs timed in turn, 20 samples each, while the clock falls by 3 %."""
    dice, fall = np.random.default_rng(5), np.linspace(1, 1.03, 20)
    rows = []
    for number in range(pairs):
        for name, factor in (("duration_us", slowed), ("baseline_us", 1.0)):
            values = 100 * factor * fall * (1 + dice.normal(0, 0.003, 20))
            columns = {"case": f"k@{number}", "stage": "time", "series": name}
            rows += [columns | {"index": at, "value": value} for at, value in enumerate(values)]
    return changes.times_in_turn(pd.DataFrame(rows))


@pytest.mark.parametrize("how", [two_runs, in_turn])
def test_a_kernel_against_itself_is_the_same(how: Callable[..., pd.DataFrame]) -> None:
    assert (how(1.0, pairs=200)["verdict"] != ratios.SAME).mean() <= 0.02


@pytest.mark.parametrize(
    ("how", "slowed"), [(in_turn, 1.02), (in_turn, 0.97), (two_runs, 1.15), (two_runs, 0.85)]
)
def test_a_change_is_seen(how: Callable[..., pd.DataFrame], slowed: float) -> None:
    times = how(slowed)
    assert (times["verdict"] == ("slower" if slowed > 1 else "faster")).mean() >= 0.95
    assert times["ratio"].median() == pytest.approx(slowed, abs=0.006)
    assert (times["low"] <= times["ratio"]).all() and (times["ratio"] <= times["high"]).all()


def test_times_that_cannot_be_compared() -> None:
    dice = np.random.default_rng(1)
    old, new = ({"k@64": 100 + dice.normal(0, 0.1, 10)} for _ in range(2))
    times = changes.times(side("a", old), side("b", new, card={"uuid": "GPU-2"})).iloc[0]
    assert (times["verdict"], times["why"]) == ("not comparable", "another card: GPU-1, then GPU-2")
    assert changes.times(side("a", old), side("b", old)).empty  # one measurement
    noisy = {"k@64": 100 + dice.normal(0, 30, 10)}
    times = changes.times(side("a", old), side("b", noisy))
    assert times["verdict"].tolist() == [ratios.AMBIGUOUS]


def instruction(line: int, text: str, excess: float, **more: Any) -> dict[str, Any]:
    return {
        "case": "k@64", "stage": "counters", "address": 16 * line, "file": "k.cu", "line": line, "text": text,
        "executed": 8.0, "wavefronts_shared": 8 + excess, "wavefronts_shared_ideal": 8.0,
    } | more  # fmt: skip


def test_counts_and_lines() -> None:
    store, load = "tile[y][x] = a;", "sum += tile[x][y];"
    before = side("a", instructions=[instruction(3, store, 0), instruction(5, load, 4)])
    after = side(
        "b", instructions=[instruction(4, store, 0), instruction(6, load, 12)],
        registers=40.0, verdict="wrong",
    )  # fmt: skip
    counts = changes.counts(before, after).set_index("count")[["before", "after"]]
    assert counts.T.to_dict("list") == {
        "wavefronts_shared": [20, 28], "wavefronts_shared_excess": [4, 12], "registers": [32, 40],
    }  # fmt: skip
    (line,) = changes.lines(before, after).to_dict("records")  # the moved line is the same line
    assert line == {"case": "k@64", "place": "k.cu:6", "text": load, "before": 4, "after": 12}
    comparison = Comparison.of(before, after)
    assert "k.cu:6" in output.text(comparison) and "| k.cu:6 |" in output.markdown(comparison)
    json.dumps(comparison.document())
    rules = output.rules("wrong,excess,registers,spills,slower:3%")
    expected = ["correct, now wrong", "wavefronts shared excess 4 to 12", "registers 32 to 40"]
    assert output.failures(comparison, rules) == [f"k@64: {change}" for change in expected]
    unchecked = side("c", instructions=[instruction(3, store, 0)], verdict="not checked")
    (line,) = output.failures(Comparison.of(unchecked, after), output.rules("wrong"))
    assert line == "k@64: not checked, now wrong"
    assert compare.judged(Comparison.of(before, unchecked), "") == (3, [])
    assert compare.judged(Comparison.of(before, after), "") == (0, [])


def test_functions_of_a_series_share_addresses() -> None:
    """Each launch has its own instruction at an address."""
    first = instruction(3, "a", 1, function="one")
    seconds = (instruction(3, "b", excess, function="two") for excess in (0, 2))
    counts = changes.counts(*(side("x", instructions=[first, second]) for second in seconds))
    row = counts.set_index("count").loc["wavefronts_shared_excess"]
    assert (row["before"], row["after"]) == (1, 3)


def test_slower_by_so_many_percent_fails_and_rules_that_are_none() -> None:
    base, noise = np.full(10, 100.0), np.linspace(-0.1, 0.1, 10)
    times = {"a": 100 + noise, "b": 110 - noise}
    pair = (side(name, {"k@64": us}, baseline=base) for name, us in times.items())
    comparison = Comparison.of(*pair)
    assert output.failures(comparison, output.rules("slower:3%")) == ["k@64: 10.0 % slower"]
    assert output.failures(comparison, output.rules("slower:12")) == []
    for text in ("faster", "slower:x", "excess:3%"):
        with pytest.raises(UserError, match="--fail-on"):
            output.rules(text)


def test_occupancy_of_recorded_cases_is_what_nsight_compute_gives() -> None:
    recording = of_recording(ROOT / "resources" / "recorded" / "nvidia_h200")
    measured = recording.records.query("metric == 'sm__maximum_warps_per_active_cycle_pct'")
    computed = recording.cases.set_index("case")[OCCUPANCY]
    both = measured.set_index("case")[["value"]].join(computed).dropna()
    assert len(both) > 300
    np.testing.assert_allclose(both[OCCUPANCY], both["value"], atol=0.06)


PADDED = "__shared__ float tile[32][33];"


def kernels(folder: Path, padded: bool, operation: str = "transpose") -> Path:
    """Write a transposition, with or without padding, and an unchanged kernel."""
    write_kernel(folder, "other")
    text = (DATA / "transposed.cu").read_text().replace("OPERATION", operation)
    tile = PADDED if padded else PADDED.replace("33", "32")
    (folder / "transposed.cu").write_text(text.replace("PADDED", tile))
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True, cwd=folder)


def repository(folder: Path) -> None:
    """Make a git repository whose last commit removed the padding of a kernel in the folder `mine`."""
    git(folder, "init", "-b", "main")
    for padded in (True, False):
        kernels(folder / "mine", padded)
        git(folder, "add", "mine")
        git(folder, "commit", "-m", "a")


def test_two_folders_of_kernels(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "workflow" / "tilewave" / "kernel" / "operations", alone / "mine",
                    ignore=lambda _, names: {*names} - {"transpose.py"})  # fmt: skip
    (alone / "mine" / "transpose.py").rename(alone / "mine" / "turned.py")
    for name, padded in (("before", True), ("after", False)):
        kernels(alone / name, padded, "turned")
    files = ["--json", "changes.json", "--markdown", "changes.md", "--page", "page"]
    operations = ["--operations", "mine"]
    options = ["--shapes", "64x64", "--fail-on", "excess", *operations]
    assert main(["compare", "before", "after", *options, *files]) == 1
    printed = capsys.readouterr().out
    assert "before to after: 1 case on both sides; no case timed on both sides; " in printed
    assert "counts differ in 1 case\n" in printed
    line = (alone / "after" / "transposed.cu").read_text()[: -len("}\n")].count("\n")
    assert f"transposed.cu:{line}" in printed and "Failed" in printed
    document = json.loads((alone / "changes.json").read_text())
    (least,) = document["least"]
    assert least["after_us"] > least["before_us"] and "Least times" in printed
    assert [row["after"] for row in document["lines"]] == [4 * 32 * 31]
    assert (alone / "changes.md").read_text().startswith("**before to after")
    page = (alone / "page" / "index.html").read_text()
    code = re.sub("<.*?>", " ", page[page.index('id="code"') :])
    assert "occupancy percent 100" in code and "shared bytes 4,224 → 4,096" in code
    counts = re.sub("<.*?>", " ", page[page.index('id="counts"') :])
    assert counts.index("wavefronts shared excess") < counts.index("shared bytes")
    assert "NVIDIA" not in page
    assert "− " + "    " + PADDED in code and re.search(f"{line} +0 +3968 ", code)
    assert re.search("Machine code: [0-9]+ instructions before", code)
    assert main(["compare", "after", "before", *options]) == 0
    assert main(["compare", "before", "before", *operations]) == 0


LINE = "        /*{:04x}*/  IADD R{}, R1 ;\n"
LISTING = ".text.k:\n" + "".join(LINE.format(16 * at, at) for at in range(900))


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """The page has verdicts, a figure, and a diff that says how many lines it hides."""
    base, noise, sides = np.full(10, 100.0), np.linspace(-0.1, 0.1, 10), []
    for factors, code in (((1, 1, 1), "IADD"), ((1.2, 0.8, 1.01), "IMAD")):
        times = {f"k{case}@64": factor * (100 + noise) for case, factor in enumerate(factors)}
        text = LISTING.replace("IADD", code)
        changed = side(code, times, baseline=base)
        sides.append(replace(changed, listing=lambda _, text=text: text))
    comparison = Comparison.of(*sides)
    page = pages.write(tmp_path / "new", comparison).read_text()
    assert not re.findall(r'(?:src|href|srcset)="(?!#|data:)', page)
    text = re.sub("<.*?>", " ", page)
    for count in ("1  faster", "1  slower", "1  same", "0  ambiguous", "0  not comparable"):
        assert count in text
    assert page.count("data:image/svg+xml") == 1
    assert "900 lines added, 900 removed" in text and "more are not shown" in text
    assert "IADD 900 → 0, IMAD 0 → 900" in text
    few = output.text(comparison)
    assert few.index("  slower\n") < few.index("  faster\n")


def test_occupancy_and_moved_lines() -> None:
    """Occupancy is a resource; a line that moves into a header is the same line."""
    at = instruction(5, "sum += tile[x][y];", 4)
    limits = SmLimits.of(90)
    sides = [
        side(name, instructions=[at | {"file": file}], block_threads=256.0, registers=registers)
        for name, file, registers in (("a", "k.cu", 32.0), ("b", "k.cuh", 128.0))
    ]
    old, new = (replace(each, cases=with_occupancy(each.cases, limits)) for each in sides)
    counts = changes.counts(old, new).set_index("count")[["before", "after"]]
    assert counts.loc[OCCUPANCY].tolist() == [100, 25]
    assert changes.lines(old, new).empty
    assert with_occupancy(old.cases, None)[OCCUPANCY].isna().all()


def test_the_workflow_for_repositories_of_kernels(alone, capfd):
    """The workflow's steps run in a shell."""
    repository(alone)
    text = (ROOT / ".github" / "workflows" / "compare.yml").read_text()
    steps = {step.get("id"): step for step in yaml.safe_load(text)["jobs"]["compare"]["steps"]}
    command = f'tilewave() {{ {sys.executable} -m tilewave "$@"; }}\n' + steps["compare"]["run"]
    variables = {"BASE": "HEAD~1", "KERNELS": "mine", "SHAPES": "64x64", "FAIL_ON": "wrong,excess"}
    environ = os.environ | variables
    done = subprocess.run(["bash", "-ec", command], env=environ, cwd=alone, check=False)
    assert done.returncode == 1
    assert "excess" in (alone / "comparison.md").read_text()
    assert (alone / "comparison" / "index.html").is_file()


def test_a_report_is_not_held_against_kernels(alone, capsys):
    kernels(alone / "mine", True)
    recording = str(ROOT / "resources" / "recorded" / "nvidia_h200")
    for arguments in ([recording, "mine"], ["mine", recording], [recording]):
        assert main(["compare", *arguments]) == 2
        assert "on both sides" in capsys.readouterr().err


def test_git_revisions(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository(alone)
    common = ["--kernels", "mine", "--shapes", "64x64"]
    assert main(["compare", "HEAD~1..HEAD", *common]) == 0
    assert "counts differ in 1" in capsys.readouterr().out
    shutil.copy(kernels(alone / "again", True) / "transposed.cu", alone / "mine" / "transposed.cu")
    assert main(["compare", "HEAD", *common]) == 0  # against the working tree
    assert "HEAD to the working tree" in capsys.readouterr().out
    assert main(["compare", "nowhere", *common]) == 2
    assert "revision" in capsys.readouterr().err


def test_a_revision_has_the_headers_that_front_matter_names(alone, monkeypatch, capsys):
    """Also from a subfolder; messages name the revision."""
    repository(alone)
    text = (alone / "mine" / "transposed.cu").read_text()
    text = text.replace("block:", "compiler: {include: [../headers]}\nblock:")
    (alone / "mine" / "transposed.cu").write_text(text)
    (alone / "headers").mkdir()
    (alone / "headers" / "one.cuh").touch()
    git(alone, "add", ".")
    git(alone, "commit", "-m", "b")
    monkeypatch.chdir(alone / "mine")
    for number, folder in enumerate((".", "transposed.cu", str(alone / "mine"))):
        where = alone / "written" / str(number)
        (path,) = sides.revision("HEAD", [folder], where)
        assert path.is_relative_to(where) and (where / "headers" / "one.cuh").is_file()
    headers = ["--include", "../headers"]
    assert main(["compare", "../mine", "../mine", *headers]) == 0, "dots are no range of revisions"
    (alone / "mine" / "bare.cu").touch()
    git(alone, "add", ".")
    git(alone, "commit", "-m", "c")
    message = r"^HEAD:mine/bare\.cu: .*no front matter.*`tilewave wrap HEAD:"
    with pytest.raises(UserError, match=message):
        sides.revision("HEAD", ["bare.cu"], alone / "bad")
    capsys.readouterr()
    assert main(["compare", "HEAD", "--kernels", ".", *headers]) == 0
    printed = capsys.readouterr().out
    assert printed.count("skipped: ") == 1
    assert "skipped: bare.cu: the file has no front matter" in printed
    (alone / "mine" / "transposed.cu").write_text(text.replace("ceil(n", "ceil(q"))
    assert main(["compare", "HEAD", "--kernels", ".", *headers]) == 1
    failed = capsys.readouterr().out.split("Failed")[1]
    assert "skipped: transposed.cu:8: grid.0: unknown name q" in failed
