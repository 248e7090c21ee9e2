"""The model of time, against cycles that an H200 needed (`sm__cycles_active.max` of its recording)."""

import json
from pathlib import Path

import numpy as np
import pytest

from samples import table
from tilewave import execution
from tilewave.basics.errors import NoTime
from tilewave.commands import execute
from tilewave.compiling import sass
from tilewave.execution.machine import pipes, sm, timing
from tilewave.theory.data_sheets import SHORT

ROOT = Path(__file__).resolve().parents[2]
LADDER = ROOT / "kernels" / "ladder"
NEAR = 0.25


def time_of(kernel: str, *arguments: str) -> dict:
    return execute.time_of(execute.options_of([str(LADDER / kernel), "--time", *arguments]))


@pytest.mark.parametrize(("kernel", "arguments", "cycles"), table("execution")["measured cycles"])
def test_cycles_are_near_the_measured_ones(kernel: str, arguments: list[str], cycles: int) -> None:
    predicted = time_of(kernel, *arguments)
    assert predicted["cycles"] == pytest.approx(cycles, rel=NEAR)
    assert predicted["microseconds"] == pytest.approx(predicted["cycles"] / 1980, rel=1e-3)


def test_waits_name_lines() -> None:
    waits = time_of("matmul_naive.cu", "--shape", "2048")["waits"]
    assert sum(row["share"] for row in waits) <= 1
    assert waits == sorted(waits, key=lambda row: -row["share"])
    assert "sum +=" in waits[0]["text"] or "[" in waits[0]["text"]


def test_a_gpu_without_constants_has_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    options = execute.options_of(
        [str(LADDER / "matmul_tiled.cu"), "--time", "--shape", "64", "--gpu", "a100", "--json"]
    )
    options.machine = None
    assert execute.run(options) == 3
    assert "9.0" in json.loads(capsys.readouterr().out)["reason"]


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> object:
    options = execute.options_of([str(LADDER / "matmul_tiled.cu"), "--shape", "64"])
    _, job, _ = execute.planned(options, tmp_path_factory.mktemp("tiled"))
    cubin = Path(job.cubin)
    return execution.engine().load(cubin.read_bytes(), job.entry, sass.of_cubin(cubin))


def test_control_bits_tell_what_waits_for_what(tiled: object) -> None:
    """Each store to shared memory waits for the scoreboard that a load from global memory sets."""
    table = pipes.table(tiled)
    opcodes = [instruction.opcode for instruction in tiled.instructions]
    loads = np.array([opcode.startswith("LDG") for opcode in opcodes])
    stores = np.array([opcode.startswith("STS") for opcode in opcodes])
    set_by_loads = {int(board) for board in table[loads, sm.WRITES]}
    assert set_by_loads and -1 not in set_by_loads
    for waits in table[stores, sm.WAITS].astype(int):
        assert any(waits >> board & 1 for board in set_by_loads)
    assert set(table[[opcode.startswith("FFMA") for opcode in opcodes], sm.PIPE]) == {sm.FMA}


def test_samples_are_blocks_of_the_first_and_the_last_sm() -> None:
    assert timing.samples(1, 132) == [[0], [0]]
    assert timing.samples(264, 132) == [[0, 132], [263, 131]]
    assert timing.samples(1000, 132) == [[0, 528], [999, 471]]


def test_a_launch_without_a_time_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MOST_CYCLES", 100)
    assert "more than 100 cycles" in time_of("matmul_tiled.cu", "--shape", "64")["reason"]
    assert issubclass(NoTime, ValueError) and "h200" in SHORT
