"""Loads, stores and atomics."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families.integer import MOVE
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.registry import opcode

# ---- atomics
(
    A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC,
) = range(10)  # fmt: skip

WIDTHS = {"U8": 1, "S8": -1, "U16": 2, "S16": -2, "32": 4, "64": 8, "128": 16}


def bytes_a_lane(form: Form) -> int:
    """Return bytes a lane, negative if a narrow load extends the sign."""
    # LDS.U.64 of sm_75: U has no meaning for 64 bits.
    if "64" in form.modifiers or "128" in form.modifiers:
        form.drop("U")
    name = form.take(*WIDTHS)
    return WIDTHS[name] if name else 4


@opcode("LDC", "ULDC", "LDCU")
def _ldc(form: Form) -> None:
    width = bytes_a_lane(form)
    words = max(1, abs(width) // 4)
    place = form.operands[1]
    if place.kind != "constant":
        raise form.fail()
    if not place.terms and width in (4, 8):
        form.op(c.INTEGER, MOVE)
        form.destination(words)
        form.source(form.operands.pop(0), "int", words)
        return
    form.op(c.LOAD, c.CONST_BANK)
    form.row[c.WIDTH] = width
    form.destination(words)
    form.row[c.BANK] = place.bank
    form.address(form.operands.pop(0))


HINTS = (
    "E", "CONSTANT", "STRONG", "WEAK", "GPU", "SYS", "CTA", "SM", "VC", "EF", "EL", "LU", "EU", "NA",
    "LTC64B", "LTC128B", "LTC256B", "PRIVATE", "MMIO", "VCPRIVATE",
)  # fmt: skip


def _load(form: Form) -> None:
    form.flag("STRONG", c.STRONG)
    form.drop(*HINTS)
    width = form.row[c.WIDTH] = bytes_a_lane(form)
    form.register_out(max(1, abs(width) // 4))
    form.place()
    form.trailing_predicates()


def _store(form: Form) -> None:
    form.flag("STRONG", c.STRONG)
    form.drop(*HINTS)
    form.row[c.WIDTH] = abs(bytes_a_lane(form))
    form.place()
    form.index(c.DST, "register")  # what is stored


def _matrices(form: Form) -> None:
    if form.need("M88", "MT88") == "MT88":
        form.set(c.TRANSPOSED)
    form.row[c.WIDTH] = form.words = int(form.take("2", "4") or 1)


ATOMICS = ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "EXCH", "CAS", "INC", "DEC")
# Types of an atomic's number, and the words that it fills; packed numbers have an x or a V in the name.
FLOATS = {
    "F32": (c.T_F32, 1), "F64": (c.T_F64, 2),
    "F16x2": (c.T_F16, 1), "F16x4": (c.T_F16, 2), "F16x8": (c.T_F16, 4),
    "BF16x2": (c.T_BF16, 1), "BF16_V2": (c.T_BF16, 1), "BF16x4": (c.T_BF16, 2),
    "BF16x8": (c.T_BF16, 4), "F32x2": (c.T_F32, 2), "F32x4": (c.T_F32, 4),
}  # fmt: skip
NUMBERS = {
    **FLOATS, "S32": (c.S32, 1), "U32": (c.U32, 1), "U64": (c.U64, 2), "S64": (c.S64, 2),
    "64": (c.U64, 2), "32": (c.U32, 1), "128": (c.U32, 4),
}  # fmt: skip


@opcode("ATOM", "ATOMG", "RED", "REDG", "ATOMS", "REDS")
def _atomic(form: Form) -> None:
    form.drop(*HINTS)
    returns = form.base.startswith("ATOM")
    spins = form.flag("CAST", c.SATURATE)  # it returns whether it swapped
    form.drop("SPIN")
    extra = form.flag("POPC", c.POPC)
    name = "CAS" if spins else form.need(*ATOMICS)
    name = "ADD" if extra else name  # one for each lane: POPC.INC
    type_ = form.take(*NUMBERS) or "U32"
    kind, words = NUMBERS[type_]
    if type_ in FLOATS:
        form.drop("RN")
        if type_ != "F64":
            form.flag("FTZ", c.FTZ)
        if type_ not in ("F32", "F64") and name != "ADD":
            raise form.fail()
    space = {"S": c.SHARED, "G": c.GLOBAL}.get(form.base[-1], c.GENERIC)
    form.op(c.ATOMIC, ATOMICS.index(name))
    form.row[c.SUB] = kind | space << 8 | int(returns) << 16
    if words > 1 and kind not in (c.U64, c.S64, c.T_F64):
        form.set(c.PAIRS)
        if name not in ("ADD", "EXCH", "CAS"):
            raise form.fail()
    form.row[c.WIDTH] = 4 * words
    if returns:
        # The predicate tells whether a compare-and-swap swapped, or that the address is not shared;
        # a generic access here always succeeds.
        form.predicates_out(form.leading_predicates())
        if form.operands[0].kind == "register":
            form.register_out(words)
    form.row[c.DST_WORDS] = words
    form.address(form.operands.pop(0))
    if name == "CAS":
        # compare and new value
        form.next_sources(2, "int", words)
    elif not extra:
        form.source(form.operands.pop(0), "int", words)
    if form.row[c.FLAGS] & c.PAIRS:  # several words of a lane must be in registers
        kinds_of_sources = form.row[c.SOURCES + c.KIND :: c.SOURCE_COLUMNS][: form.sources]
        if not all(kinds_of_sources == c.REGISTER):
            raise form.fail()
