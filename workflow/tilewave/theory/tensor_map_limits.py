"""Limits of a tensor map: the rules of cuTensorMapEncodeTiled (CUDA driver API)."""

from collections.abc import Sequence

RANKS = range(1, 6)
"""Numbers of dimensions of a map."""
SIZE_LIMIT = 1 << 32
"""The most elements along a dimension."""
STRIDE_LIMIT = 1 << 40
"""Bytes below which a stride must be."""
ELEMENT_STRIDE_LIMIT = 8
"""The largest element stride of a box."""
BOX_LIMIT = 256
"""The most elements of a box along a dimension."""
ALIGNMENT = 16
"""Alignment in bytes of the array's address, its strides and the inner side of a box."""
# Allowed values, in bytes -> the end of the driver's name.
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
L2_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}


def broken(
    element: int, sizes: Sequence[int], box: Sequence[int], steps: Sequence[int],
    strides: Sequence[int], swizzle: int,
) -> str:  # fmt: skip
    """Return the rule that a map breaks, or an empty text. The contiguous dimension is first.
    element: bytes of an element. steps: element strides of the box. strides: bytes, of all dimensions but the first."""
    if max(box) > BOX_LIMIT:
        return f"a box of {box} elements exceeds {BOX_LIMIT} along a dimension"
    if max(sizes) > SIZE_LIMIT:
        return f"an array of {sizes} elements exceeds {SIZE_LIMIT} along a dimension"
    if max(steps) > ELEMENT_STRIDE_LIMIT:
        return f"element strides {steps} exceed {ELEMENT_STRIDE_LIMIT}"
    inner = box[0] * element
    if inner % ALIGNMENT:
        return f"the box's inner side of {inner} bytes is not a multiple of {ALIGNMENT}"
    if swizzle and inner > swizzle:
        return f"the box's inner side of {inner} bytes exceeds swizzle {swizzle}"
    for axis, stride in enumerate(strides):
        between = f"along dimension {axis + 2}" if axis else "from row to row"
        if stride % ALIGNMENT:
            return f"the stride {between} is {stride} bytes, not a multiple of {ALIGNMENT}"
        if not 0 <= stride < STRIDE_LIMIT:
            return f"the stride {between} is {stride} bytes, not below 2^40"
    return ""
