"""Branches, calls, barriers of a block and of a cluster."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form, signed
from tilewave.execution.machine.operands import SassOperand
from tilewave.execution.machine.registry import opcode

# ---- control
(
    BRANCH, BRANCH_DIVERGENT, BRANCH_INDEXED, EXIT, SET_CONVERGE, CONVERGE, BREAK, WARP_SYNC, CALL,
    RETURN, BLOCK_SYNC, BLOCK_ARRIVE, BLOCK_REDUCE, NOTHING, TRAP, COPY_COMMIT, COPY_WAIT, PAUSE,
    BARRIER_MOVE, B2R, END_COLLECTIVE, FENCE, PUBLISH,
) = range(23)  # fmt: skip
# ---- clusters, and registers that warps hand on
K_ARRIVE, K_WAIT, K_TAKE_REGISTERS, K_GIVE_REGISTERS = range(4)


def _target(form: Form, at: int = 0) -> None:
    """Take the target, a byte address or a label; the loader turns both into rows."""
    operand = form.operands.pop(at)
    if operand.kind != "integer":
        raise form.fail(f"target {operand.text}")
    form.row[c.TARGET] = int(operand.value) // 16


def _lanes(form: Form, how: int) -> None:
    """Take the lanes that branch."""
    mask = form.operands.pop(0)
    form.source(SassOperand(mask.kind, mask.text, mask.index))
    form.row[c.SUB] = int(mask.inverted) | how


def _base(form: Form) -> None:
    if form.operands and form.operands[0].kind == "integer":
        form.row[c.SUB] = signed(form.whole())
    form.operands.clear()


def _leading(form: Form) -> None:
    for predicate in form.leading_predicates():
        form.predicate_in(predicate)


@opcode("BMOV")
def _bmov(form: Form) -> None:
    form.drop("32", "CLEAR", "PQUAD")
    to, origin = form.operands.pop(0), form.operands.pop(0)
    form.op(c.CONTROL, BARRIER_MOVE)
    if to.kind == "barrier":
        form.row[[c.BARRIER, c.SUB]] = to.index, 1
        form.source(origin)
    else:
        form.row[[c.BARRIER, c.DST]] = origin.index, to.index


@opcode("CALL")
def _call(form: Form) -> None:
    form.drop("NOINC")
    kind = form.take("REL", "ABS")
    if kind == "ABS" and [operand.kind for operand in form.operands] == ["register"]:
        # A function of the system, by its loaded address.
        form.op(c.CONTROL, RETURN)
        form.next_sources(1, "int", 2)
        return
    _target(form, -1)
    if kind is None:
        raise form.fail()
    if form.operands:
        # The register is relative to the named function: the same jump as RET.
        form.op(c.CONTROL, RETURN)
        form.row[c.SUB] = kind == "REL"
        form.next_sources(1, "int", 2)
    else:
        form.op(c.CONTROL, CALL)


def _relative(form: Form) -> None:
    """Take the function to which a return address is relative, if it is."""
    if form.operands:
        _target(form)


def _block_barrier(form: Form) -> None:
    """Take predicates, a barrier of the block and maybe its number of threads."""
    form.trailing_predicates()
    form.next_sources(2 if len(form.operands) > 1 else 1)
