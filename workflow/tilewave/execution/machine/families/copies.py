"""Asynchronous copies: of a warp (LDGSTS), and bulk ones of one thread (TMA)."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families.control import COPY_WAIT, NOTHING
from tilewave.execution.machine.families.memory import HINTS, bytes_a_lane
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.registry import opcode
from tilewave.theory.tensor_map_limits import RANKS

# ---- bulk copies (tensor copies have SUB 2, the dimensions), their groups, the fence before them
Y_LOAD, Y_STORE, Y_BYTES_IN, Y_BYTES_OUT, Y_COMMIT, Y_FENCE = range(6)


def _ldgsts(form: Form) -> None:
    form.drop(*HINTS)
    form.flag("ZFILL", c.HIGH)  # low bits of the source address: bytes at the end become zeros
    form.row[c.WIDTH] = abs(bytes_a_lane(form))
    form.place()
    form.place(c.G_REG)
    if form.trailing_predicates():
        form.set(c.ZERO_FILL)


def _depbar(form: Form) -> None:
    scoreboard, form.row[c.SUB] = form.operands.pop(0), form.whole()
    if scoreboard.kind != "scoreboard":
        raise form.fail()
    form.op(c.CONTROL, NOTHING if scoreboard.index else COPY_WAIT)
    form.operands.clear()


def _hint(form: Form) -> None:
    """Drop the cache hint behind the operands."""
    if form.operands and form.operands[-1].text.startswith("desc["):
        form.operands.pop()


def _two_places(form: Form) -> None:
    """Take two addresses, each of which is a uniform register."""
    for column in (c.A_UREG, c.G_UREG):
        operand = form.operands.pop(0)
        if operand.kind != "memory" or len(operand.terms) != 1 or operand.offset:
            raise form.fail(f"operand {operand.text}")
        if not operand.terms[0].uniform or operand.terms[0].suffixes:
            raise form.fail(f"operand {operand.text}")
        form.row[column] = operand.terms[0].index


def _rank(form: Form) -> None:
    """Take the dimensions of a tensor copy."""
    dimensions = form.take(*(f"{rank}D" for rank in RANKS))
    if dimensions is None:
        raise form.fail("the number of dimensions is missing")
    form.row[c.SUB] = int(dimensions[0])


@opcode("UBLKCP")
def _bytes_copy(form: Form) -> None:
    ways, form.modifiers = form.modifiers[:2], form.modifiers[2:]
    if ways not in (["S", "G"], ["G", "S"]):
        raise form.fail()
    several = form.take("MULTICAST") is not None
    form.op(c.BULK, Y_BYTES_IN if ways[0] == "S" else Y_BYTES_OUT)
    _hint(form)
    _two_places(form)
    form.index(c.SUB, "uniform")
    if several:
        form.row[c.BANK] = form.row[c.SUB]


def _no_operands(form: Form) -> None:
    form.operands.clear()


@opcode("FENCE")
def _fence(form: Form) -> None:
    if form.take("VIEW") and form.take("ASYNC") and {*form.modifiers} != {"G"}:
        form.op(c.BULK, Y_FENCE)  # of shared memory, alone or among others
    else:
        form.op(c.CONTROL, NOTHING)
    form.ignore()
