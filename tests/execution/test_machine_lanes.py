"""Fast and general ways give the same bits; dead words of loads are not read."""

import ctypes

import numpy as np
import pytest

from samples import table
from tilewave.basics import elf
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import handlers, lanes, launch, liveness, program, views
from tilewave.execution.machine.decode import Raw, decode

INSTRUCTIONS = table("instructions")
TEXTS = INSTRUCTIONS["fast"]

EDGES = np.array(
    [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F800000,
     0xBF800000, 0x00000001, 0x007FFFFF, 0x00800000, 31, 32, 33, 64, 0x7BFF7BFF, 0x7C00FC00,
     0x7FF00000, 0xFFF80000, 0x3FF00000, 0x477FF000, 0x47800000],
    np.uint32,
)  # fmt: skip


def image() -> elf.Image:
    return elf.Image("k", 90, 16, (), 0x210, 0, 0, {0: bytes(0x240)})


def state(row: np.ndarray, seed: int, finite: bool = False):
    rows = np.stack([row, decode(Raw(16, "EXIT"))])
    instructions = tuple(program.Instruction(16 * k, "", "") for k in range(2))
    block, _ = launch.state_of(
        program.Program(image(), instructions, rows, {}), (1, 1, 1), (32, 1, 1), [], 0,
        launch.Limits(),
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 32, (1, 255, 32), dtype=np.uint32)
    edges = rng.choice(EDGES, values.shape)
    block.registers[:, :255] = np.where(rng.random(values.shape) < 0.5, values, edges)
    block.uniforms[:, :64] = rng.integers(0, 1 << 32, (1, 64), dtype=np.uint32)
    block.predicates[0, :7] = rng.integers(0, 1 << 32, 7, dtype=np.uint32)
    block.predicates[0, [7, 15]] = 0xFFFFFFFF
    if finite:
        block.registers[:, :255] &= 0xBFFFFFFF
        block.uniforms[:, :64] &= 0xBFFFFFFF
    return block


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F3A51])
@pytest.mark.parametrize("text", TEXTS)
def test_same_bits(text: str, mask: int, finite: bool) -> None:
    opcode, _, operands = text.partition(" ")
    row = decode(Raw(0, opcode, operands))
    short, general = state(row, 7, finite), state(row, 7, finite)
    kind = int(short.code[0, c.FAST])
    assert kind != lanes.SLOW, "this form should go the short way"
    done = lanes.fast(
        kind, short.code[0], short.code.ctypes.data, short.registers.ctypes.data,
        short.uniforms.ctypes.data, short.predicates[0], np.uint32(mask),
    )  # fmt: skip
    if not done:
        # A NaN of f64 goes the general way, and nothing is written.
        assert kind in (lanes.DFMA, lanes.DADD, lanes.DMUL) and not finite
        assert np.array_equal(short.registers, state(row, 7, finite).registers)
        return
    # The general way, from a row that is not prepared for the fast one.
    loaded = program.Program(image(), (), np.stack([row, row]), {})
    general.code[0] = launch._resolved(loaded, general.constants)[0]
    m = views.table(general)
    handler = handlers.COMPILED[int(general.code[0, c.FAMILY])]
    handler.ctypes(m.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), 0, 0, mask)
    assert np.array_equal(short.registers[0, :255], general.registers[0, :255])
    assert np.array_equal(short.predicates, general.predicates)
    assert np.any(short.registers != state(row, 7, finite).registers) or "SETP" in text


@pytest.mark.parametrize(
    "text",
    [
        "IADD3.X R9,R1,R2,RZ,P1,!PT", "IADD3 R9,P0,R1,R2,RZ", "FFMA.FTZ R9,R1,R2,R3", "FADD.RZ R9,R1,R2",
        "SHF.L.W.U32.HI R9,R1,R2,R3", "ISETP.GE.AND.EX P0,PT,R1,R2,PT,P1", "HFMA2 R9,R1,R2,R3",
        "HADD2.F32 R9,R1.H0_H0,R2.H0_H0", "UIADD3 UR4,UR5,UR6,URZ", "UISETP.GE.AND UP0,UPT,UR4,UR5,UPT",
        "LOP3.LUT P0,R9,R1,R2,R3,0x80,!PT", "F2FP.BF16.F32.PACK_AB R9,R1,R2", "LEA.HI R9,R1,R2,RZ,0x3",
    ],
)  # fmt: skip
def test_general_only(text: str) -> None:
    """Rows with carries, modes or other registers go the general way."""
    opcode, _, operands = text.partition(" ")
    assert state(decode(Raw(0, opcode, operands)), 1).code[0, c.FAST] == lanes.SLOW


def dead(*texts: str) -> int:
    rows = []
    for number, text in enumerate(texts):
        guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
        opcode, _, operands = rest.partition(" ")
        rows.append(decode(Raw(16 * number, opcode, operands, guard)))
    stacked = np.stack(rows)
    liveness.mark(stacked)
    return int(stacked[0, c.DEAD])


@pytest.mark.parametrize(("texts", "expected"), INSTRUCTIONS["dead"])
def test_dead(texts: list[str], expected: int) -> None:
    assert dead(*texts) == expected
