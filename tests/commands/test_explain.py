"""``tilewave explain`` on stand-ins of reports."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from fake_ncu import BASE, RULES, FakeMetric, FakeRange, SampledAction, samples
from tilewave.__main__ import main
from tilewave.commands import explain
from tilewave.gpu.ncu import launches

SOURCE = "__shared__ float tile[32][32];\n\nsum += tile[x][y];\ntile[y][x] = 0;\n"


def action(excess: int, microseconds: float, source: bool = True) -> SampledAction:
    """Return a launch whose load at line 3 has these excess wavefronts."""
    shared = {BASE + 32: 2 + excess, BASE + 48: 4}
    counters = {
        **samples(),
        "memory_l1_wavefronts_shared": FakeMetric(6 + excess, "", shared),
        "gpu__time_duration.sum": FakeMetric(microseconds, "us"),
        **dict(zip(explain.SIZES.values(), (8, 256, 32))),
        "device__attribute_display_name": FakeMetric("NVIDIA H200"),
    }
    launch = SampledAction(counters, RULES)
    lines, name = {BASE + 32: 3, BASE + 48: 4} if source else {}, "/home/me/k.cu"
    places = {
        address: SimpleNamespace(file_name=lambda: name, line=lambda line=line: line)
        for address, line in lines.items()
    }
    launch.source_files, launch.source_info = lambda: {name: SOURCE}, places.get
    return launch


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reports of one kernel, the later with bank conflicts, and one without source or kernels."""
    contents = {"a": [action(0, 10.0)], "b": [action(62, 12.0)], "empty": []}
    contents["bare"] = [action(6, 1.0, source=False)] * 2
    opened = {f"{name}.ncu-rep": [FakeRange(actions)] for name, actions in contents.items()}
    monkeypatch.setattr(launches, "load_report", lambda path: opened[path.name])
    monkeypatch.chdir(tmp_path)


def test_a_launch_has_its_limit_rules_and_lines(reports, capsys) -> None:
    assert main(["explain", "b.ncu-rep", "--json", "b.json"]) == 0
    text = capsys.readouterr().out
    assert "tiled: 12,000 ns, 8 blocks, 256 block threads, 32 registers" in text
    assert "62 of 68 shared wavefronts (91.2 %) are excess, 100.0 % of them at k.cu:3" in text
    assert "Barrier Stalls: Warps wait (ncu: 12 %)" in text
    assert re.search(r"  k\.cu:3 +sum \+= tile\[x\]\[y\]; +barrier +9 +10 +62\n", text)
    (kernel,) = json.loads(Path("b.json").read_text())["kernels"]
    assert kernel["metrics"]["gpu__time_duration.sum"] == 12e3
    assert sum(row["executed"] for row in kernel["rows"]) == kernel["metrics"]["inst_executed"]
    assert main(["explain", "bare.ncu-rep", "--lines", "1"]) == 0
    bare = capsys.readouterr().out
    assert "\ntiled (2): " in bare and bare.count("LDS.64 R2") == 2


def test_two_reports_name_the_line_and_the_rule(reports, capsys) -> None:
    assert main(["explain", "a.ncu-rep", "b.ncu-rep", "--fail-on", "excess,slower:5%"]) == 1
    difference = capsys.readouterr().out.split("a.ncu-rep to b.ncu-rep")[1]
    assert "1 slower; counts differ in 1 case" in difference and "20.0 % slower" in difference
    assert "k.cu:3" in difference and "tiled: wavefronts shared excess 0 to 62" in difference
    assert main(["explain", "b.ncu-rep", "a.ncu-rep", "--fail-on", "excess,slower"]) == 0


def test_mistakes(reports, capsys) -> None:
    messages = {
        "empty.ncu-rep": "no kernel",
        "a.ncu-rep --kernel gemm": "no kernel with gemm.*tiled",
        "a.ncu-rep b.ncu-rep --fail-on spills": "excess, registers, slower",
        "a.ncu-rep --fail-on excess": "compares two",
    }
    for arguments, message in messages.items():
        assert main(["explain", *arguments.split()]) == 2
        assert re.search(message, capsys.readouterr().err)
