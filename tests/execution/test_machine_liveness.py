"""Words of wide shared loads that nobody reads: they are no reads of what is there."""

import numpy as np
import pytest

from tilewave.execution.machine import codes as c
from tilewave.execution.machine import liveness
from tilewave.execution.machine.decode import Raw, decode


def dead(*texts: str) -> int:
    rows = []
    for number, text in enumerate(texts):
        guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
        opcode, _, operands = rest.partition(" ")
        rows.append(decode(Raw(16 * number, opcode, operands, guard)))
    stacked = np.stack(rows)
    liveness.mark(stacked)
    return int(stacked[0, c.DEAD])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # three of four words are used
        (("LDS.128 R4,[R0]", "FADD R1,R4,R5", "FADD R1,R1,R6", "EXIT"), 8),
        # a pair, a store of four words and a wide address read every register of theirs
        (("LDS.128 R4,[R0]", "DADD R8,R4,R6", "EXIT"), 0),
        (("LDS.128 R4,[R0]", "STS.128 [R1],R4", "EXIT"), 0),
        (("LDS.64 R4,[R0]", "LDG.E R1,desc[UR4][R4.64]", "EXIT"), 0),
        (("LDS.64 R4,[R0]", "HMMA.16816.F32 R8,R4,R12,R8", "EXIT"), 0),
        # written before it is read, but not under a guard
        (("LDS.64 R4,[R0]", "FADD R1,R4,R4", "MOV R5,R1", "FADD R1,R5,R5", "EXIT"), 2),
        (("LDS.64 R4,[R0]", "FADD R1,R4,R4", "@P0 MOV R5,R1", "FADD R1,R5,R5", "EXIT"), 0),
        # read on one of two ways, or in the next turn of a loop
        (("LDS.64 R4,[R0]", "@P0 BRA 0x30", "EXIT", "FADD R1,R4,R5", "EXIT"), 0),
        (("LDS.64 R4,[R0]", "FADD R1,R4,R1", "@P0 BRA 0x10", "EXIT"), 2),
        # where a return leads is not known
        (("LDS.64 R4,[R0]", "RET.REL.NODEC R20,0x0"), 0),
    ],
)
def test_dead(texts: tuple[str, ...], expected: int) -> None:
    assert dead(*texts) == expected
