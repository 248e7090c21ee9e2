"""What a tensor map may be: the rules of cuTensorMapEncodeTiled (CUDA driver API)."""

from collections.abc import Sequence

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


def broken(
    element: int, sizes: Sequence[int], box: Sequence[int], steps: Sequence[int],
    strides: Sequence[int], swizzle: int,
) -> str:  # fmt: skip
    """Which rule a map breaks, empty where none: of elements of so many bytes, the contiguous dimension first;
    steps: of every how many elements the box takes one; strides: bytes, of all dimensions but the first."""
    if max(box) > BOX_LIMIT:
        return f"a box of {box} elements exceeds {BOX_LIMIT} an axis"
    if max(sizes) > SIZE_LIMIT:
        return f"an array of {sizes} elements exceeds {SIZE_LIMIT} an axis"
    if max(steps) > ELEMENT_STRIDE_LIMIT:
        return f"element strides {steps} exceed {ELEMENT_STRIDE_LIMIT}"
    inner = box[0] * element
    if inner % ALIGNMENT:
        return f"{inner} bytes, the box's inner side, are no multiple of {ALIGNMENT}"
    if swizzle and inner > swizzle:
        return f"{inner} bytes, the box's inner side, exceed swizzle {swizzle}"
    for axis, stride in enumerate(strides):
        between = f"along dimension {axis + 2}" if axis else "from row to row"
        if stride % ALIGNMENT:
            return f"{stride} bytes {between} are no multiple of {ALIGNMENT}"
        if not 0 <= stride < STRIDE_LIMIT:
            return f"{stride} bytes {between} exceed 2^40"
    return ""
