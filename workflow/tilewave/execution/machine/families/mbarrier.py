"""mbarriers."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form

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


def _arrival(form: Form) -> None:
    drops = form.take("OPTOUT") is not None
    how = form.take(*(name for name in ARRIVALS if name))
    form.row[c.SUB] = ARRIVALS[how] | (DROPS if drops else 0)
    form.register_out(2)
    if form.row[c.DST_UNIFORM]:
        raise form.fail()


def _wide_place(form: Form) -> None:
    """Take an address whose second register names an mbarrier."""
    form.place()
    if not form.row[c.A_WIDE] or form.row[c.A_OFFSET]:
        raise form.fail()
