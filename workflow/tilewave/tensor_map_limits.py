"""What a tensor map may be: the rules of cuTensorMapEncodeTiled (CUDA driver API)."""

BOX_LIMIT = 256
"""Elements of a box in one direction."""
ALIGNMENT = 16
"""Bytes of which the matrix's address, its row pitch and the inner side of a box are multiples."""
# Allowed values, in bytes -> the end of the driver's name.
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
L2_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
