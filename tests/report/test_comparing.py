"""Comparison of two sides: times, counts, lines, and kernels."""

import json
import os
import shutil
import subprocess
import sys
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
from tilewave.records.recorded import Recorded
from tilewave.report.comparing import changes, output, sides
from tilewave.report.comparing.changes import OCCUPANCY, Comparison, Side
from tilewave.report.comparing.sides import with_occupancy
from tilewave.theory import ratios
from tilewave.theory.occupancy import SmLimits


def side(label: str, *instructions: dict[str, Any], **more: Any) -> Side:
    names = list(dict.fromkeys(row["case"] for row in instructions)) or ["k@64"]
    about = {"operation": "matmul", "verdict": "correct", "registers": 32.0, "spill_bytes": 0.0}
    cases = pd.DataFrame({"case": names, **about}).assign(**more)
    return Side(label, cases, instructions=pd.DataFrame(list(instructions)))


def samples(times: dict[str, tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """Return samples of each case's durations (us) before and after, as taken in turn."""
    rows = [
        {"case": case, "series": series, "index": index, "value": value}
        for case, pair in times.items()
        for series, values in zip(("baseline_us", "duration_us"), pair)
        for index, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def in_turn(slowed: float, pairs: int = 50) -> pd.DataFrame:
    """Compare pairs timed in turn, 20 samples each, while the clock falls by 3 %."""
    dice, fall = np.random.default_rng(5), np.linspace(1, 1.03, 20)
    times = {
        f"k@{number}": tuple(
            100 * factor * fall * (1 + dice.normal(0, 0.003, 20)) for factor in (1.0, slowed)
        )
        for number in range(pairs)
    }
    return changes.times(samples(times))


def test_a_kernel_against_itself_is_the_same() -> None:
    assert (in_turn(1.0, pairs=200)["verdict"] != ratios.SAME).mean() <= 0.02


@pytest.mark.parametrize("slowed", [1.02, 0.97])
def test_a_change_is_seen(slowed: float) -> None:
    times = in_turn(slowed)
    assert (times["verdict"] == ("slower" if slowed > 1 else "faster")).mean() >= 0.95
    assert times["ratio"].median() == pytest.approx(slowed, abs=0.006)
    assert (times["low"] <= times["ratio"]).all() and (times["ratio"] <= times["high"]).all()


def test_a_noisy_time_is_ambiguous() -> None:
    dice = np.random.default_rng(1)
    before, after = (100 + dice.normal(0, noise, 10) for noise in (0.1, 30))
    times = changes.times(samples({"k@64": (before, after)}))
    assert times["verdict"].tolist() == [ratios.AMBIGUOUS]


def instruction(line: int, text: str, excess: float, **more: Any) -> dict[str, Any]:
    return {
        "case": "k@64", "stage": "counters", "address": 16 * line, "file": "k.cu", "line": line, "text": text,
        "executed": 8.0, "wavefronts_shared": 8 + excess, "wavefronts_shared_ideal": 8.0,
    } | more  # fmt: skip


def test_counts_and_lines() -> None:
    store, load = "tile[y][x] = a;", "sum += tile[x][y];"
    before = side("a", instruction(3, store, 0), instruction(5, load, 4))
    moved = instruction(4, store, 0), instruction(6, load, 12)
    after = side("b", *moved, registers=40.0, verdict="wrong")
    counts = changes.counts(before, after).set_index("count")[["before", "after"]]
    assert counts.T.to_dict("list") == {
        "wavefronts_shared": [20, 28], "wavefronts_shared_excess": [4, 12], "registers": [32, 40],
    }  # fmt: skip
    (line,) = changes.lines(before, after).to_dict("records")  # the moved line is the same line
    assert line == {"case": "k@64", "place": "k.cu:6", "text": load, "before": 4, "after": 12}
    comparison = Comparison(before, after)
    assert "k.cu:6" in output.text(comparison) and "| k.cu:6 |" in output.markdown(comparison)
    json.dumps(comparison.document())
    rules = output.rules("wrong,excess,registers,spills,slower:3%")
    expected = ["correct, now wrong", "wavefronts shared excess 4 to 12", "registers 32 to 40"]
    assert output.failures(comparison, rules) == [f"k@64: {change}" for change in expected]
    unchecked = side("c", instruction(3, store, 0), verdict="not checked")
    (line,) = output.failures(Comparison(unchecked, after), output.rules("wrong"))
    assert line == "k@64: not checked, now wrong"
    assert compare.judged(Comparison(before, unchecked), "") == (3, [])
    assert compare.judged(Comparison(before, after), "") == (0, [])


def test_functions_of_a_series_share_addresses() -> None:
    """Each launch has its own instruction at an address."""
    first = instruction(3, "a", 1, function="one")
    seconds = (instruction(3, "b", excess, function="two") for excess in (0, 2))
    counts = changes.counts(*(side("x", first, second) for second in seconds))
    row = counts.set_index("count").loc["wavefronts_shared_excess"]
    assert (row["before"], row["after"]) == (1, 3)


def test_slower_by_so_many_percent_fails_and_rules_that_are_none() -> None:
    noise = np.linspace(-0.1, 0.1, 10)
    timed = samples({"k@64": (100 + noise, 110 - noise)})
    comparison = Comparison(side("a"), side("b"), in_turn=timed)
    assert output.failures(comparison, output.rules("slower:3%")) == ["k@64: 10.0 % slower"]
    assert output.failures(comparison, output.rules("slower:12")) == []
    for text in ("faster", "slower:x", "excess:3%"):
        with pytest.raises(UserError, match="--fail-on"):
            output.rules(text)


GEOMETRY = {
    "launch__block_size": "block_threads",
    "launch__shared_mem_per_block_static": "shared_bytes",
    "launch__shared_mem_per_block_dynamic": "shared_bytes",
}


def test_occupancy_of_recorded_cases_is_what_nsight_compute_gives() -> None:
    recording = Recorded(ROOT / "resources" / "recorded" / "nvidia_h200")
    used = {name.rpartition(".")[0]: entry for name, entry in recording.compiled.items()}
    rows = []
    for record in recording.results():
        measured = record.by_metric.get("sm__maximum_warps_per_active_cycle_pct")
        entry = used.get(record.case.partition("@")[0], {})
        resources = entry.get("resources", {}).get(entry.get("symbol"), {})
        if measured is None or "registers" not in resources:
            continue
        row = {"measured": measured, "registers": resources["registers"], "shared_bytes": 0}
        for figure in record.figures:
            if column := GEOMETRY.get(figure["metric"]):
                row[column] = row.get(column, 0) + figure["value"]
        rows.append(row)
    limits = SmLimits.from_environment(recording.environments[recording.main_environment])
    cases = with_occupancy(pd.DataFrame(rows), limits).dropna()
    assert len(cases) > 300
    np.testing.assert_allclose(cases[OCCUPANCY], cases["measured"], atol=0.06)


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
    files = ["--json", "changes.json", "--markdown", "changes.md"]
    operations = ["--operations", "mine"]
    options = ["--shapes", "64x64", "--fail-on", "excess", *operations]
    assert main(["compare", "before", "after", *options, *files]) == 1
    printed = capsys.readouterr().out
    assert "before to after: 1 case on both sides; no case timed on both sides; " in printed
    assert "counts differ in 1 case\n" in printed
    line = (alone / "after" / "transposed.cu").read_text()[: -len("}\n")].count("\n")
    assert f"transposed.cu:{line}" in printed and "Failed" in printed
    document = json.loads((alone / "changes.json").read_text())
    (predicted,) = document["predicted"]
    assert predicted["after_us"] > predicted["before_us"] and "Predicted times" in printed
    assert [row["after"] for row in document["lines"]] == [4 * 32 * 31]
    assert (alone / "changes.md").read_text().startswith("**before to after")
    assert main(["compare", "before", "before", *options]) == 0


def test_slower_cases_come_first() -> None:
    noise = np.linspace(-0.1, 0.1, 10)
    factors = {f"k{case}@64": factor for case, factor in enumerate((0.8, 1.2, 1.005))}
    us = 100 + noise
    timed = samples({case: (us, factor * us) for case, factor in factors.items()})
    about = side("a").cases.loc[[0, 0, 0]].assign(case=[*factors])
    text = output.text(Comparison(Side("a", about), Side("b", about), in_turn=timed))
    assert "1 faster, 1 same, 1 slower" in text
    assert text.index("  slower\n") < text.index("  faster\n")


def test_occupancy_and_moved_lines() -> None:
    """Occupancy is a resource; a line that moves into a header is the same line."""
    at = instruction(5, "sum += tile[x][y];", 4)
    limits = SmLimits.of(90)
    sides = [
        side(name, at | {"file": file}, block_threads=256.0, registers=registers)
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
    assert json.loads((alone / "comparison.json").read_text())["compared"] == 1


def test_folders_without_kernels_are_refused(alone, capsys):
    assert main(["compare", str(ROOT / "resources"), str(ROOT / "resources")]) == 2
    assert "neither side has a kernel" in capsys.readouterr().err


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
