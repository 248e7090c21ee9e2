"""The numbers by which decoded instructions and the interpreter understand each other.

A decoded instruction is a row of int32. Families say which function executes it; OP and SUB mean
something inside the family only.
"""

from __future__ import annotations

# ---- columns of a row
(
    FAMILY, OP, SUB, FLAGS, GUARD, GUARD_NOT, DST, DST_WORDS, DST_UNIFORM, PD0, PD1, NSRC,
    PIN0, PIN0_NOT, PIN1, PIN1_NOT, PIN2, PIN2_NOT, WIDTH, TARGET, CLASS, MEMO,
    A_REG, A_WIDE, A_SHIFT, A_UREG, A_UWIDE, A_OFFSET,
    G_REG, G_WIDE, G_SHIFT, G_UREG, G_UWIDE, G_OFFSET,
    BARRIER, BANK, FAST, DEAD,
) = range(38)  # fmt: skip
SOURCES = 38
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

# ---- integer operations
(
    MOVE, ADD3, ADD2, MUL_ADD, MUL_ADD_WIDE, MUL_ADD_HIGH, MINMAX, ADD_MINMAX, ABSOLUTE,
    SHIFT_ADD, SHIFT_ADD_HIGH, LUT3, FUNNEL, COMPARE, SELECT, PERMUTE, REVERSE, FIND_ONE, COUNT_ONES,
    MASK, EXTEND, DOT4, DOT2, ABS_DIFF, COMPARE64, ADD64, FLOAT_SELECT, ADD3_WIDE, MINMAX3, SPACE_OF,
    ADD_SATURATED, PACKED, MINMAX_WIDE,
) = range(33)  # fmt: skip
# ---- PACKED: two or four numbers in a word (in SUB, above the numbers' width in bits)
P_ADD, P_MINMAX, P_MINMAX3, P_ADD_MINMAX, P_ABS_DIFF, P_SUM_ABS_DIFF = range(6)
# ---- float operations (f32, f64, f16 families)
(
    F_ADD, F_MUL, F_FMA, F_MINMAX, F_COMPARE, F_CHECK, F_SET, F_WIDEN, F_MINMAX3, F_CHOOSE,
) = range(10)  # fmt: skip
# ---- conversions
(
    C_F2F, C_F2I, C_I2F, C_ROUND, C_PACK, C_I2I, C_PACK_INT, C_TF32, C_TO_FP8, C_FROM_FP8,
) = range(10)  # fmt: skip
# ---- MUFU
(
    M_RCP, M_RSQ, M_SQRT, M_EX2, M_LG2, M_SIN, M_COS, M_TANH, M_RCP64H, M_RSQ64H,
) = range(10)  # fmt: skip
# ---- predicates and votes
(
    L_PLOP3, L_P2R, L_R2P, L_VOTE, L_MATCH, L_REDUX, L_LEADER, L_SCALAR,
) = range(8)  # fmt: skip
# ---- exchanges between lanes
(
    X_SHUFFLE, X_TRANSPOSE,
) = range(2)  # fmt: skip
# ---- control
(
    BRANCH, BRANCH_DIVERGENT, BRANCH_INDEXED, EXIT, SET_CONVERGE, CONVERGE, BREAK, WARP_SYNC, CALL,
    RETURN, BLOCK_SYNC, BLOCK_ARRIVE, BLOCK_REDUCE, NOTHING, TRAP, COPY_COMMIT, COPY_WAIT, PAUSE,
    BARRIER_MOVE, B2R, END_COLLECTIVE,
) = range(21)  # fmt: skip
# ---- atomics
(
    A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC,
) = range(10)  # fmt: skip
# ---- warpgroup instructions (of HGMMA: type and shape in SUB as HMMA has them, columns in WIDTH)
G_MULTIPLY, G_MULTIPLY_BYTES, G_WAIT = range(3)
# ---- mbarriers: what an arrival adds to the count (SUB: A_*), and to the bytes awaited
# (the PLAIN ones: of sm_80, where other instructions read and write the word too)
B_INIT, B_ARRIVE, B_CHECK, B_COPIES, B_INVALIDATE, B_PLAIN_ARRIVE, B_PLAIN_COPIES = range(7)
(
    ONE_ARRIVAL, SOME_ARRIVALS, MORE_BYTES, FEWER_BYTES, ONE_BYTE_MORE, ONE_BYTE_FEWER, DROPS,
) = (1 << n for n in range(7))  # fmt: skip
# ---- bulk copies (tensor copies have SUB 2, the dimensions), their groups, the fence before them
Y_LOAD, Y_STORE, Y_BYTES_IN, Y_BYTES_OUT, Y_COMMIT, Y_FENCE = range(6)
# ---- clusters, and registers that warps hand on
K_ARRIVE, K_WAIT, K_TAKE_REGISTERS, K_GIVE_REGISTERS = range(4)
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
SIGN_PRODUCT, PAIRS, MAY_TEST = (1 << n for n in range(25, 28))

# ---- of SUB of the tensor cores: HMMA adds as Ampere does; IMMA of bits; DMMA cuts
TWO_STEPS, IMMA_AND, IMMA_XOR, IMMA_NARROW, DMMA_CUT = 1 << 17, 1 << 10, 1 << 11, 1 << 12, 1 << 16

# ---- rounding
NEAREST, DOWN, UP, ZERO = range(4)

# ---- comparisons
COMPARISONS = (
    "F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM",
    "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T",
)  # fmt: skip

# ---- memory spaces
GLOBAL, SHARED, LOCAL, CONST_BANK, GENERIC = range(5)

# ---- special registers
SPECIAL_REGISTERS = (
    "SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_LANEID",
    "SR_CgaCtaId", "SR_CLOCKLO", "SR_CLOCKHI", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK",
    "SR_GEMASK", "SR_NTID.X", "SR_NTID.Y", "SR_NTID.Z", "SR_TID", "SRZ", "SR_GLOBALTIMERLO",
    "SR_GLOBALTIMERHI", "SR_SWINHI", "SR_SMEMSZ", "SR_SWINLO", "SR_NCTAID.X",
    "SR_NCTAID.Y", "SR_NCTAID.Z", "SR_CLUSTERID.X", "SR_CLUSTER_CTAID.X", "SR_WARPID",
    "SR_VIRTUALSMID", "SR_VIRTID", "SR_VIRTCFG",
)  # fmt: skip

# ---- classes of instructions, for totals and the profile
CLASSES = (
    "integer", "f32", "f64", "f16", "conversion", "special function", "predicate", "warp", "tensor",
    "move", "global load", "global store", "shared load", "shared store", "ldmatrix",
    "asynchronous copy", "atomic", "local", "constant load", "control", "barrier",
)  # fmt: skip
