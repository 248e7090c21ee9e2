"""Predicates, votes of a warp, exchanges between its lanes."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import PT, SassOperand, parse
from tilewave.execution.machine.registry import opcode

# ---- predicates and votes
(
    L_PLOP3, L_P2R, L_R2P, L_VOTE, L_MATCH, L_REDUX, L_LEADER, L_SCALAR,
) = range(8)  # fmt: skip
# ---- exchanges between lanes
X_SHUFFLE, X_TRANSPOSE = range(2)


@opcode("PLOP3", "UPLOP3")
def _plop3(form: Form) -> None:
    form.drop("LUT")
    form.op(c.LOGIC, L_PLOP3)
    form.predicate_out(2)
    second, first = form.operands.pop(), form.operands.pop()
    form.row[c.SUB] = int(first.value) | int(second.value) << 8
    if len(form.operands) != 3:
        raise form.fail()
    if all(form.is_predicate(operand) for operand in form.operands):
        form.trailing_predicates()
        return
    # An operand may be a register's sign.
    for bit in (c.NEG0, c.NEG1, c.NEG2):
        operand = form.operands.pop(0)
        if form.is_predicate(operand):
            form.predicate_in(operand)
            form.source(parse("RZ"))
            continue
        if operand.suffixes != ("SIGN",) or operand.negated or operand.absolute:
            raise form.fail()
        form.set(bit)
        form.predicate_in(SassOperand("predicate", "PT", PT, inverted=operand.inverted))
        form.source(SassOperand(operand.kind, operand.text, operand.index))


def _bank(form: Form, besides: int) -> None:
    """Take the byte of the register that moves, and the predicates: a warp's, the default, or the uniform ones."""
    form.row[c.SUB] = 8 * form.number("=B0", "B1", "B2", "B3")
    bank = form.operands.pop(0).text if len(form.operands) > besides else "PR"
    if bank not in ("PR", "UPR"):
        raise form.fail()
    form.row[c.BANK] = 8 if bank == "UPR" else 0


def _outputs(form: Form) -> None:
    """Take a vote's outputs; its last predicate is an input."""
    outputs: list[SassOperand] = []
    if form.operands[0].kind in ("register", "uniform"):
        form.register_out()
    while len(form.operands) > 1 and form.is_predicate(form.operands[0]):
        outputs.append(form.operands.pop(0))
    form.predicates_out(outputs)
