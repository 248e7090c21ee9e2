"""What a tensor map may be: the rules of cuTensorMapEncodeTiled (CUDA driver API)."""

RANKS = range(1, 6)
"""Dimensions of a map."""
SIZE_LIMIT = 1 << 32
"""Elements along a dimension."""
STRIDE_LIMIT = 1 << 40
"""Bytes that a stride must stay below."""
ELEMENT_STRIDE_LIMIT = 8
"""Of every how many elements a box may take one."""
BOX_LIMIT = 256
"""Elements of a box in one direction."""
ALIGNMENT = 16
"""Bytes of which the array's address, its strides and the inner side of a box are multiples."""
# Allowed values, in bytes -> the end of the driver's name.
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
L2_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
