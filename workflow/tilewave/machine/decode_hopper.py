"""Rules for what compute capability 9.0 has: warpgroups, mbarriers, bulk copies, clusters."""

from __future__ import annotations

import re

from tilewave.machine import codes as c
from tilewave.machine.decode import Form, opcode
from tilewave.machine.operands import RZ, Operand
from tilewave.tensor_map_limits import RANKS

MATRICES = re.compile(r"^gdesc\[UR(?P<first>\d+)\](?P<tail>(?:\.\w+)*)$")
SHAPE = re.compile(r"^64x(?P<columns>\d+)x(?P<depth>\d+)$")
GROUP = "gsb0"
TAILS = {"tnspA": c.INV0, "tnspB": c.INV1, "negA": c.NEG0, "negB": c.NEG1}


def _uniform(form: Form, operand: Operand) -> int:
    """The register of an address that is one uniform register."""
    plain = operand.kind == "memory" and len(operand.terms) == 1 and not operand.offset
    if not plain or not operand.terms[0].uniform or operand.terms[0].suffixes:
        raise form.fail(f"operand {operand.text}")
    return operand.terms[0].index


# ---------------------------------------------------------------- warpgroups


@opcode("HGMMA", "IGMMA")
def _gmma(form: Form) -> None:
    shape = SHAPE.match(form.modifiers[0]) if form.modifiers else None
    if shape is None:
        raise form.fail()
    form.modifiers.pop(0)
    columns, depth = int(shape["columns"]), int(shape["depth"])
    if form.base == "IGMMA":
        kinds = [one for one in form.modifiers if one in ("S8", "U8")]
        for one in kinds:
            form.modifiers.remove(one)
        if len(kinds) != 2 or depth != 32:
            raise form.fail()
        form.row[c.SUB] = depth | ((kinds[0] == "S8") | (kinds[1] == "S8") << 1) << 8
        words = 4
    else:
        wide = form.take("F32", "F16") == "F32"
        kind = form.take("BF16", "TF32")
        if depth != (8 if kind == "TF32" else 16):
            raise form.fail()
        origin = {None: c.T_F16, "BF16": c.T_BF16, "TF32": c.T_TF32}[kind]
        form.row[c.SUB] = depth | origin << 8 | wide << 16
        words = 4 if wide else 2
    if columns % 8 or not 8 <= columns <= 256:
        raise form.fail()
    form.op(c.HGMMA, c.G_MULTIPLY_BYTES if form.base == "IGMMA" else c.G_MULTIPLY, "tensor")
    form.row[c.WIDTH] = columns
    form.register_out(words * columns // 8)
    registers = form.operands.pop(0) if form.operands[0].kind == "register" else None
    matrices = MATRICES.match(form.operands.pop(0).text)
    if matrices is None:
        raise form.fail()
    form.row[c.A_UREG] = int(matrices["first"])
    for word in matrices["tail"].split(".")[1:]:
        if word not in TAILS or (registers is not None and word.endswith("A")):
            raise form.fail(f"not known here: {word}")
        form.set(TAILS[word])
    form.source(form.operands.pop(0), "int", words * columns // 8)
    if registers is not None:
        form.source(registers, "int", 4)
    if form.operands and form.operands[-1].text == GROUP:
        form.set(c.HIGH)
        form.operands.pop()
    if form.operands and form.is_predicate(form.operands[0]):
        form.predicate_in(form.operands.pop(0))


@opcode("WARPGROUP")
def _warpgroup(form: Form) -> None:
    if form.take("ARRIVE"):  # what a product reads is there
        form.op(c.CONTROL, c.NOTHING, "tensor")
        return
    if not form.take("DEPBAR") or not form.take("LE"):
        raise form.fail()
    group, count = form.operands.pop(0), form.operands.pop(0)
    if group.text != GROUP or count.kind != "integer":
        raise form.fail()
    form.op(c.HGMMA, c.G_WAIT, "tensor")
    form.row[c.SUB] = int(count.value)


# ---------------------------------------------------------------- mbarriers

# What an arrival changes: the arrivals pending, and the bytes (or copies) that are awaited.
ARRIVALS = {
    None: c.ONE_ARRIVAL | c.MORE_BYTES,
    "A1T0": c.ONE_ARRIVAL,
    "ART0": c.SOME_ARRIVALS,
    "A0TR": c.MORE_BYTES,
    "A0TX": c.FEWER_BYTES,
    "A0T1": c.ONE_BYTE_MORE,
}


@opcode("SYNCS")
def _syncs(form: Form) -> None:
    if form.take("EXCH"):
        if not form.take("64"):
            raise form.fail()
        form.op(c.MBARRIER, c.B_INIT, "barrier")
        if form.operands.pop(0).text != "URZ":
            raise form.fail()
        form.address(form.operands.pop(0))
        word = form.operands.pop(0)
        if word.kind != "uniform" or word.suffixes:
            raise form.fail()
        form.source(word, "int", 2)
        return
    if form.take("CCTL"):
        if not form.take("IV"):
            raise form.fail()
        form.op(c.MBARRIER, c.B_INVALIDATE, "barrier")
        form.address(form.operands.pop(0))
        return
    if form.take("PHASECHK"):
        if not form.take("TRANS64"):
            raise form.fail()
        form.op(c.MBARRIER, c.B_CHECK, "barrier")
        form.row[c.SUB] = form.take("TRYWAIT") is not None
        form.predicates_out([form.operands.pop(0)])
        form.address(form.operands.pop(0))
        _word(form)
        return
    if not form.take("ARRIVE") or not form.take("TRANS64"):
        raise form.fail()
    form.drop("RED", "TMASK")  # whether the word comes back; that the phase does not end with it
    drops = form.take("OPTOUT") is not None
    form.op(c.MBARRIER, c.B_ARRIVE, "barrier")
    how = form.take(*(name for name in ARRIVALS if name))
    form.row[c.SUB] = ARRIVALS[how] | (c.DROPS if drops else 0)
    form.register_out(2)
    if form.row[c.DST_UNIFORM]:
        raise form.fail()
    form.address(form.operands.pop(0))
    _word(form)


def _word(form: Form) -> None:
    """A register that a lane brings."""
    operand = form.operands.pop(0)
    if operand.kind != "register" or operand.suffixes or operand.negated or operand.inverted:
        raise form.fail()
    form.source(operand)


@opcode("ARRIVES")
def _arrives(form: Form) -> None:
    if not form.take("LDGSTSBAR") or not form.take("64"):
        raise form.fail()
    how = form.take("TRANSCNT", "ARVCNT")  # neither on sm_80
    form.op(c.MBARRIER, c.B_COPIES if how else c.B_PLAIN_COPIES, "barrier")
    form.row[c.SUB] = c.ONE_BYTE_FEWER if how == "TRANSCNT" else c.ONE_ARRIVAL
    form.address(form.operands.pop(0))
    form.source(Operand("register", "RZ", RZ))


# ---------------------------------------------------------------- bulk copies


def _hint(form: Form) -> None:
    """Drop the cache hint behind the operands."""
    if form.operands and form.operands[-1].text.startswith("desc["):
        form.operands.pop()


def _two_places(form: Form) -> None:
    form.row[c.A_UREG] = _uniform(form, form.operands.pop(0))
    form.row[c.G_UREG] = _uniform(form, form.operands.pop(0))


def _uniform_word(form: Form) -> int:
    operand = form.operands.pop(0)
    if operand.kind != "uniform" or operand.suffixes:
        raise form.fail()
    return operand.index


def _rank(form: Form) -> int:
    """Dimensions of a tensor copy."""
    found = form.take(*(f"{rank}D" for rank in RANKS))
    if found is None:
        raise form.fail("how many dimensions")
    return int(found[0])


@opcode("UTMALDG", "UTMASTG")
def _tensor_copy(form: Form) -> None:
    rank = _rank(form)
    storing = form.base == "UTMASTG"
    several = not storing and form.take("MULTICAST") is not None
    form.op(c.BULK, c.Y_STORE if storing else c.Y_LOAD, "asynchronous copy")
    form.row[c.SUB] = rank
    _hint(form)
    _two_places(form)
    if several:
        form.row[c.BANK] = _uniform_word(form)


@opcode("UBLKCP")
def _bytes_copy(form: Form) -> None:
    ways, form.modifiers = form.modifiers[:2], form.modifiers[2:]
    if ways not in (["S", "G"], ["G", "S"]):
        raise form.fail()
    several = form.take("MULTICAST") is not None
    form.op(c.BULK, c.Y_BYTES_IN if ways[0] == "S" else c.Y_BYTES_OUT, "asynchronous copy")
    _hint(form)
    _two_places(form)
    form.row[c.SUB] = _uniform_word(form)
    if several:
        form.row[c.BANK] = form.row[c.SUB]


@opcode("UTMACMDFLUSH")
def _flush(form: Form) -> None:
    form.op(c.BULK, c.Y_COMMIT, "asynchronous copy")


@opcode("UTMAPF")
def _tensor_prefetch(form: Form) -> None:
    """Nothing comes of it: there are no caches here."""
    _rank(form)
    form.drop("L2")
    form.operands.clear()
    form.op(c.CONTROL, c.NOTHING, "asynchronous copy")


@opcode("UTMACCTL", "UBLKPF", "ACQBULK", "PREEXIT")
def _prefetch(form: Form) -> None:
    """What fetches ahead, or orders whole grids: every access is done at once here."""
    form.modifiers.clear()
    form.operands.clear()
    form.op(c.CONTROL, c.NOTHING, "asynchronous copy")


@opcode("FENCE")
def _fence(form: Form) -> None:
    form.operands.clear()
    if form.take("VIEW") and form.take("ASYNC"):
        spaces = set(form.modifiers)
        form.modifiers.clear()
        if spaces != {"G"}:  # of shared memory, alone or among others
            form.op(c.BULK, c.Y_FENCE, "barrier")
            return
    form.modifiers.clear()
    form.op(c.CONTROL, c.NOTHING, "control")


# ---------------------------------------------------------------- clusters


@opcode("UCGABAR_ARV", "UCGABAR_WAIT")
def _cluster_barrier(form: Form) -> None:
    form.op(c.CLUSTER, c.K_ARRIVE if form.base == "UCGABAR_ARV" else c.K_WAIT, "barrier")


@opcode("USETMAXREG")
def _registers(form: Form) -> None:
    form.drop("CTAPOOL")
    kind = form.take("TRY_ALLOC", "DEALLOC")
    if kind is None:
        raise form.fail()
    taking = kind == "TRY_ALLOC"
    form.op(c.CLUSTER, c.K_TAKE_REGISTERS if taking else c.K_GIVE_REGISTERS, "control")
    if taking:
        form.predicates_out([form.operands.pop(0)])
    count = form.operands.pop(0)
    if count.kind != "integer":
        raise form.fail()
    form.row[c.SUB] = int(count.value)
