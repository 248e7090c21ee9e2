"""Branches, calls, barriers of a block and of a cluster."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form, signed
from tilewave.execution.machine.operands import SassOperand, parse
from tilewave.execution.machine.registry import opcode

# ---- control
(
    BRANCH, BRANCH_DIVERGENT, BRANCH_INDEXED, EXIT, SET_CONVERGE, CONVERGE, BREAK, WARP_SYNC, CALL,
    RETURN, BLOCK_SYNC, BLOCK_ARRIVE, BLOCK_REDUCE, NOTHING, TRAP, COPY_COMMIT, COPY_WAIT, PAUSE,
    BARRIER_MOVE, B2R, END_COLLECTIVE, FENCE, PUBLISH,
) = range(23)  # fmt: skip
# ---- clusters, and registers that warps hand on
K_ARRIVE, K_WAIT, K_TAKE_REGISTERS, K_GIVE_REGISTERS = range(4)


def _target(form: Form, operand: SassOperand | None = None) -> None:
    """Set the target, by default the next operand, from a byte address or a label; the loader turns both into rows."""
    operand = operand or form.operands.pop(0)
    if operand.kind == "integer":
        form.row[c.TARGET] = int(operand.value) // 16
    else:
        raise form.fail(f"target {operand.text}")


@opcode("BRA")
def _bra(form: Form) -> None:
    form.drop("U")
    kind = form.take("DIV", "CONV")
    divergent = kind is not None
    form.op(c.CONTROL, BRANCH_DIVERGENT if divergent else BRANCH)
    if not divergent and form.take("ANY"):
        form.row[c.SUB] = 1  # all lanes branch if any does
    target = form.operands.pop()
    if divergent:
        mask = form.operands.pop(0)
        form.source(SassOperand(mask.kind, mask.text, mask.index))
        form.row[c.SUB] = int(mask.inverted) | (2 if kind == "CONV" else 0)
    while form.operands:
        form.predicate_in(form.operands.pop(0))
    _target(form, target)


@opcode("BRX", "JMX", "BRXU")
def _brx(form: Form) -> None:
    form.op(c.CONTROL, BRANCH_INDEXED)
    form.source(form.operands.pop(0), "int", 2)
    base = form.operands.pop(0) if form.operands else parse("0x0")
    if base.kind == "integer":
        form.row[c.SUB] = signed(int(base.value))
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


@opcode("WARPSYNC")
def _warpsync(form: Form) -> None:
    form.op(c.CONTROL, WARP_SYNC)
    form.row[c.SUB] = form.take("EXCLUSIVE") is not None  # lanes of other masks meet separately
    collective = form.take("COLLECTIVE") is not None
    form.source(parse("0xffffffff") if form.take("ALL") else form.operands.pop(0))
    if collective:
        _target(form, form.operands.pop())


@opcode("CALL")
def _call(form: Form) -> None:
    form.drop("NOINC")
    kind = form.take("REL", "ABS")
    target = form.operands.pop()
    if kind == "ABS" and target.kind == "register" and not form.operands:
        # A function of the system, by its loaded address.
        form.op(c.CONTROL, RETURN)
        form.row[c.SUB] = 0
        form.source(target, "int", 2)
        return
    if kind is None or len(form.operands) > 1:
        raise form.fail()
    if form.operands:
        # The register is relative to the named function: the same jump as RET.
        form.op(c.CONTROL, RETURN)
        form.row[c.SUB] = kind == "REL"
        form.source(form.operands.pop(0), "int", 2)
    else:
        form.op(c.CONTROL, CALL)
    _target(form, target)


@opcode("RET")
def _ret(form: Form) -> None:
    form.drop("NODEC")
    form.row[c.SUB] = form.take("REL", "ABS") == "REL"
    form.op(c.CONTROL, RETURN)
    form.source(form.operands.pop(0), "int", 2)
    if form.operands:  # the return address is relative to this function
        _target(form, form.operands.pop(0))


def _block_barrier(form: Form) -> None:
    """Take predicates, a barrier of the block and maybe its number of threads."""
    form.trailing_predicates()
    form.next_sources(2 if len(form.operands) > 1 else 1)
