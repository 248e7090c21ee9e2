"""Tensor maps: what a tensor copy is told of a matrix in global memory.

The 128 bytes that the driver encodes are not documented, and no program looks at them: here they
hold words of our own, which the copies of `tilewave.machine.bulk` read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewave.machine.errors import BadLaunch, Unsupported
from tilewave.tensor_map_limits import ALIGNMENT, BOX_LIMIT, SWIZZLES

WORDS = 16
# ---- the words, uint64
(MAGIC, ADDRESS, ELEMENT, SIZE_X, SIZE_Y, PITCH, BOX_X, BOX_Y, SWIZZLE) = range(9)
MARK = 0x54494C455741_4D41


@dataclass(frozen=True)
class TensorMap:
    """An argument: a box moves over a matrix of two dimensions.

    ``buffer`` names the argument (`launch.Buffer`) whose memory the matrix is; ``sizes`` and
    ``box`` count elements, the contiguous dimension first; ``pitch`` is the bytes of a row and what
    lies behind it; ``swizzle`` 0, 32, 64 or 128, the bytes within which 16-byte pieces of shared
    memory change places (CUDA driver API, cuTensorMapEncodeTiled).
    """

    name: str
    buffer: str
    element: int
    sizes: tuple[int, int]
    pitch: int
    box: tuple[int, int]
    swizzle: int = 0


def encoded(one: TensorMap, address: int, size: int) -> bytes:
    """The 128 bytes of a map of a buffer of ``size`` bytes.

    Raises BadLaunch where the driver would refuse it, or where the matrix is larger than its buffer;
    Unsupported for a box whose rows do not fill the swizzle.
    """

    def refuse(what: str, found: object, allowed: str) -> BadLaunch:
        return BadLaunch(f"tensor map {one.name}: {what} is {found}; allowed: {allowed}")

    inner = one.box[0] * one.element
    if one.element not in (1, 2, 4, 8):
        raise refuse("bytes of an element", one.element, "1, 2, 4, 8")
    if min(one.sizes) < 1 or max(one.sizes) > 1 << 32:
        raise refuse("sizes", one.sizes, "1 to 2^32")
    if min(one.box) < 1 or max(one.box) > BOX_LIMIT:
        raise refuse("box", one.box, f"1 to {BOX_LIMIT} elements")
    if inner % ALIGNMENT:
        raise refuse("a row of the box", f"{inner} bytes", f"multiples of {ALIGNMENT}")
    if one.swizzle not in SWIZZLES:
        raise refuse("swizzle", one.swizzle, ", ".join(map(str, SWIZZLES)))
    if one.swizzle and inner > one.swizzle:
        raise refuse("a row of the box", f"{inner} bytes", f"at most the swizzle's {one.swizzle}")
    if one.swizzle and inner < one.swizzle:
        detail = f"rows of {inner} bytes in a swizzle of {one.swizzle}: how they lie is not known"
        raise Unsupported(f"tensor map {one.name}", detail=detail)
    if one.pitch % ALIGNMENT or one.pitch < one.sizes[0] * one.element:
        least = one.sizes[0] * one.element
        raise refuse("pitch", one.pitch, f"multiples of {ALIGNMENT} from {least} on")
    if address % ALIGNMENT:
        raise refuse("address", hex(address), f"multiples of {ALIGNMENT}")
    needed = one.pitch * (one.sizes[1] - 1) + one.sizes[0] * one.element
    if needed > size:
        raise refuse("its matrix", f"{needed} bytes", f"at most the {size} of {one.buffer}")
    words = np.zeros(WORDS, np.uint64)
    words[: SWIZZLE + 1] = (
        MARK, address, one.element, *one.sizes, one.pitch, *one.box, one.swizzle,
    )  # fmt: skip
    return words.tobytes()
