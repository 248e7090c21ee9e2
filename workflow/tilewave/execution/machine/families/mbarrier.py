"""mbarriers."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import parse
from tilewave.execution.machine.registry import opcode

# ---- mbarriers: what an arrival adds to the count (SUB: A_*), and to the bytes awaited
# (the PLAIN ones: of sm_80, where other instructions read and write the word too)
(
    B_INIT, B_ARRIVE, B_CHECK, B_COPIES, B_INVALIDATE, B_PLAIN_ARRIVE, B_PLAIN_COPIES, B_STORE,
) = range(8)  # fmt: skip
(
    ONE_ARRIVAL, SOME_ARRIVALS, MORE_BYTES, FEWER_BYTES, ONE_BYTE_MORE, ONE_BYTE_FEWER, DROPS,
) = (1 << n for n in range(7))  # fmt: skip


# What an arrival changes: the arrivals pending, and the bytes (or copies) that are awaited.
ARRIVALS = {
    None: ONE_ARRIVAL | MORE_BYTES,
    "A1T0": ONE_ARRIVAL,
    "ART0": SOME_ARRIVALS,
    "A0TR": MORE_BYTES,
    "A0TX": FEWER_BYTES,
    "A0T1": ONE_BYTE_MORE,
}


@opcode("SYNCS")
def _syncs(form: Form) -> None:
    if form.take("EXCH"):
        form.need("64")
        form.op(c.MBARRIER, B_INIT)
        if form.operands.pop(0).text != "URZ":
            raise form.fail()
        form.address(form.operands.pop(0))
        form.source(form.plain("uniform"), "int", 2)
        return
    if form.take("CCTL"):
        form.need("IV")
        form.op(c.MBARRIER, B_INVALIDATE)
        form.address(form.operands.pop(0))
        return
    if form.take("PHASECHK"):
        form.need("TRANS64")
        form.op(c.MBARRIER, B_CHECK)
        form.row[c.SUB] = form.take("TRYWAIT") is not None
        form.predicate_out()
        form.address(form.operands.pop(0))
        form.source(form.plain())
        return
    form.need("ARRIVE")
    form.need("TRANS64")
    form.drop("RED", "TMASK")  # RED returns no word; TMASK keeps the phase open
    drops = form.take("OPTOUT") is not None
    form.op(c.MBARRIER, B_ARRIVE)
    how = form.take(*(name for name in ARRIVALS if name))
    form.row[c.SUB] = ARRIVALS[how] | (DROPS if drops else 0)
    form.register_out(2)
    if form.row[c.DST_UNIFORM]:
        raise form.fail()
    form.address(form.operands.pop(0))
    form.source(form.plain())


@opcode("ARRIVES")
def _arrives(form: Form) -> None:
    form.need("LDGSTSBAR")
    form.need("64")
    how = form.take("TRANSCNT", "ARVCNT")  # neither on sm_80
    form.op(c.MBARRIER, B_COPIES if how else B_PLAIN_COPIES)
    form.row[c.SUB] = ONE_BYTE_FEWER if how == "TRANSCNT" else ONE_ARRIVAL
    form.address(form.operands.pop(0))
    form.source(parse("RZ"))


STORED = {None: 4, "64": 8, "128": 16}


@opcode("STAS")
def _stas(form: Form) -> None:
    """Decode st.async: the second of its two address registers names the mbarrier."""
    form.op(c.MBARRIER, B_STORE)
    width = form.row[c.WIDTH] = STORED[form.take("64", "128")]
    form.address(form.operands.pop(0))
    if not form.row[c.A_WIDE] or form.row[c.A_OFFSET]:
        raise form.fail()
    form.source(form.plain(), "int", width // 4)
