"""``tilewave explain`` on stand-ins of reports."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from fake_ncu import BASE, RULES, FakeMetric, FakeRange, SampledAction, samples
from tilewave.__main__ import main
from tilewave.gpu.ncu import launches

SOURCE = "__shared__ float tile[32][32];\n\nsum += tile[x][y];\ntile[y][x] = 0;\n"


def action(excess: int, microseconds: float, source: bool = True) -> SampledAction:
    """Return a launch whose load at line 3 has these excess wavefronts."""
    shared = {BASE + 32: 2 + excess, BASE + 48: 4}
    counters = {
        **samples(),
        "memory_l1_wavefronts_shared": FakeMetric(6 + excess, "", shared),
        "gpu__time_duration.sum": FakeMetric(microseconds, "us"),
        "launch__grid_size": 8,
        "launch__block_size": 256,
        "launch__registers_per_thread": 32,
        "device__attribute_display_name": FakeMetric("NVIDIA H200"),
        "device__attribute_multiprocessor_count": 132,
        "breakdown": FakeMetric("text"),
    }
    launch = SampledAction(counters, RULES)
    lines = {BASE + 32: 3, BASE + 48: 4}
    launch.source_files = lambda: {"/home/me/k.cu": SOURCE if source else ""}
    launch.source_info = lambda address: (
        SimpleNamespace(file_name=lambda: "/home/me/k.cu", line=lambda: lines[address])
        if source and address in lines
        else None
    )
    return launch


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two reports of one kernel, the later with bank conflicts, and one without source or kernels."""
    contents = {
        "a": [action(0, 10.0)], "b": [action(62, 12.0)], "bare": [action(6, 1.0, source=False)] * 2, "empty": [],
    }  # fmt: skip
    opened = {f"{name}.ncu-rep": [FakeRange(actions)] for name, actions in contents.items()}
    monkeypatch.setattr(launches, "load_report", lambda path: opened[path.name])
    monkeypatch.chdir(tmp_path)
    return list(opened)


def test_a_launch_has_its_limit_rules_and_lines(reports, capsys) -> None:
    assert main(["explain", "b.ncu-rep", "--json", "b.json"]) == 0
    text = capsys.readouterr().out
    assert "tiled: 12,000 ns, 8 blocks, 256 block threads, 32 registers" in text
    assert "62 of 68 shared wavefronts are in excess, 100.0 % of them at k.cu:3" in text
    assert "Barrier Stalls: Warps wait. (ncu: 12 %)" in text
    first = next(
        line.split()
        for line in text.splitlines()
        if "k.cu:3" in line and "|" not in line and "excess" not in line
    )
    assert first == ["k.cu:3", *"sum += tile[x][y];".split(), "barrier", "9", "10", "62"]
    (kernel,) = json.loads(Path("b.json").read_text())["kernels"]
    assert kernel["metrics"]["gpu__time_duration.sum"] == 12e3
    assert sum(row["executed"] for row in kernel["rows"]) == kernel["metrics"]["inst_executed"]


def test_a_report_without_source_shows_instructions(reports, capsys) -> None:
    assert main(["explain", "bare.ncu-rep", "--lines", "1"]) == 0
    text = capsys.readouterr().out
    assert "\ntiled (2): " in text and text.count("LDS.64 R2") == 2


def test_two_reports_name_the_line_and_the_rule(reports, capsys) -> None:
    assert main(["explain", "a.ncu-rep", "b.ncu-rep", "--fail-on", "excess,slower:5%"]) == 1
    difference = capsys.readouterr().out.split("a.ncu-rep to b.ncu-rep")[1]
    assert "1 case on both sides; 1 slower; counts differ in 1 case" in difference
    assert "k.cu:3" in difference and "20.0 % slower" in difference
    assert "tiled: wavefronts shared excess 0 to 62" in difference
    assert main(["explain", "b.ncu-rep", "a.ncu-rep", "--fail-on", "excess,slower"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["empty.ncu-rep"], "no kernel"),
        (["a.ncu-rep", "--kernel", "gemm"], "no kernel with gemm.*tiled"),
        (["a.ncu-rep", "b.ncu-rep", "--fail-on", "spills"], "excess, registers, slower"),
        (["a.ncu-rep", "--fail-on", "excess"], "compares two"),
    ],
)
def test_mistakes(reports, capsys, arguments, message) -> None:
    assert main(["explain", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
