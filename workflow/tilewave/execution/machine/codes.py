"""Numbers that decoded instructions and the interpreter share.
A decoded instruction is a row of int32. Its family names the function that executes it. OP and SUB
have a meaning in their family only."""

from tilewave.basics.tables import table_beside

NAMES: dict[str, tuple[str, ...]] = {key: tuple(of) for key, of in table_beside(__file__).items()}

# ---- columns of a row
(
    FAMILY, OP, SUB, FLAGS, GUARD, GUARD_NOT, DST, DST_WORDS, DST_UNIFORM, PD0, PD1, NSRC,
    PIN0, PIN0_NOT, PIN1, PIN1_NOT, PIN2, PIN2_NOT, WIDTH, TARGET, MEMO,
    A_REG, A_WIDE, A_SHIFT, A_UREG, A_UWIDE, A_OFFSET,
    G_REG, G_WIDE, G_SHIFT, G_UREG, G_UWIDE, G_OFFSET,
    BARRIER, BANK, FAST, DEAD,
) = range(37)  # fmt: skip
SOURCES = 37
# ---- columns of each of the four sources, from SOURCES + slot * SOURCE_COLUMNS
(
    KIND, INDEX, WORDS, SWIZZLE, AND, XOR, AND_HIGH, XOR_HIGH, ADD, VALUE, VALUE_HIGH,
) = range(11)  # fmt: skip
SOURCE_COLUMNS = 11
COLUMNS = SOURCES + 4 * SOURCE_COLUMNS

# ---- where a source comes from
NONE, REGISTER, UNIFORM, VALUE_KIND, CONSTANT = range(5)
# ---- which part of a 32-bit source is meant
WHOLE, LOW_TWICE, HIGH_TWICE, BYTE0, BYTE1, BYTE2, BYTE3, LOW_HALF, HIGH_HALF, SWAPPED = range(10)

# ---- families
(
    INTEGER, F32, F64, F16, CONVERT, MUFU, LOGIC, LANES, SPECIAL, HMMA, DMMA, IMMA,
    LOAD, STORE, ATOMIC, MATRIX, COPY, HGMMA, MBARRIER, BULK, CLUSTER, CONTROL,
) = range(22)  # fmt: skip

# ---- functions that code calls and the driver provides, by their symbols
SYSTEM_CALLS = ("__assertfail", "vprintf")
ASSERT_FAIL, PRINT = range(2)
# ---- types of atomics, conversions, tensor operands
(
    U32, S32, U64, S64, T_F32, T_F64, T_F16, T_BF16, U16, S16, U8, S8, T_TF32, T_E4M3, T_E5M2, S4, U4,
) = range(17)  # fmt: skip

# ---- flags
FTZ, SATURATE, RELU, CARRY_IN, SIGNED, WRAP, HIGH, EXTENDED, UNSIGNED64 = (1 << n for n in range(9))
BOOL_OR, BOOL_XOR, BF16, NAN_ABS, POPC, TRANSPOSED, ZERO_FILL, BYPASS, TO_F32 = (
    1 << n for n in range(9, 18)
)
NEG0, NEG1, NEG2, SHIFT_AMOUNT, INV0, INV1, INV2 = (1 << n for n in range(18, 25))
SIGN_PRODUCT, PAIRS, MAY_TEST, STRONG, EXPOSED = (1 << n for n in range(25, 30))

# ---- rounding
NEAREST, DOWN, UP, ZERO = range(4)

COMPARISONS = NAMES["comparisons"]

# ---- memory spaces
GLOBAL, SHARED, LOCAL, CONST_BANK, GENERIC = range(5)

SPECIAL_REGISTERS = NAMES["special_registers"]
