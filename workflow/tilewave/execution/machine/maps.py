"""Tensor maps: what a tensor copy is told of an array in global memory.

The 128 bytes that the driver encodes are not documented, and no program looks at them: here they
hold words of our own, which the copies of `tilewave.execution.machine.bulk` read.
"""

from dataclasses import dataclass

import numpy as np

from tilewave.basics.errors import BadLaunch, Unsupported
from tilewave.theory.tensor_map_limits import ALIGNMENT, RANKS, SWIZZLES, broken

WORDS = 16
# ---- the words, uint64. SHAPE: dimensions, bytes of an element << 8, swizzle << 16. Of each dimension:
# size - 1, elements that a box has of it, less 1, << 32, and element stride << 40; and its stride in bytes.
SEAL, ADDRESS, SHAPE, DIMENSIONS = range(4)
STRIDES = DIMENSIONS + RANKS[-1]
SEALED = STRIDES + RANKS[-1]
"""Words that the seal is of: a map that a kernel has changed is none."""
MARK, MIXER = 0x54494C455741_4D41, 0x9E37_79B9_7F4A_7C15


@dataclass(frozen=True)
class TensorMap:
    """An argument, by value or by its address: a box moves over an array of one to five dimensions.

    ``buffer`` names the argument (`arguments.Buffer`) whose memory the array is; ``sizes`` and ``box``
    count elements, the contiguous dimension first; ``strides`` are bytes from one element to the next
    along each dimension but the first; ``element_strides`` (empty: ones) say which elements of a box
    are copied, every one, every second and so on, of all dimensions but the first; ``swizzle`` 0,
    32, 64 or 128, the bytes within which 16-byte pieces of shared memory change places (CUDA driver
    API, cuTensorMapEncodeTiled).
    """

    name: str
    buffer: str
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()


def _checked(one: TensorMap, address: int, size: int) -> None:
    """Raises what `encoded` does."""

    def refuse(what: str, found: object, allowed: str) -> BadLaunch:
        return BadLaunch(f"tensor map {one.name}: {what} is {found}; allowed: {allowed}")

    rank, inner = len(one.sizes), one.box[0] * one.element
    steps = one.element_strides or (1,) * rank
    if rank not in RANKS or {len(one.strides) + 1, len(one.box), len(steps)} != {rank}:
        raise refuse("dimensions", rank, f"1 to {RANKS[-1]}, in the box and the strides too")
    if one.element not in (1, 2, 4, 8):
        raise refuse("bytes of an element", one.element, "1, 2, 4, 8")
    if min(*one.sizes, *one.box, *steps) < 1:
        raise refuse("sizes, box or element strides", (one.sizes, one.box, steps), "from 1 on")
    if one.swizzle not in SWIZZLES:
        raise refuse("swizzle", one.swizzle, ", ".join(map(str, SWIZZLES)))
    if told := broken(one.element, one.sizes, one.box, steps, one.strides, one.swizzle):
        raise BadLaunch(f"tensor map {one.name}: {told}")
    if one.swizzle and inner < one.swizzle:
        detail = f"rows of {inner} bytes in a swizzle of {one.swizzle}: how they lie is not known"
        raise Unsupported(f"tensor map {one.name}", detail=detail)
    if address % ALIGNMENT:
        raise refuse("address", hex(address), f"multiples of {ALIGNMENT}")
    reach = zip(one.sizes[1:], one.strides)
    needed = one.sizes[0] * one.element + sum((many - 1) * stride for many, stride in reach)
    if needed > size:
        raise refuse("its array", f"{needed} bytes", f"at most the {size} of {one.buffer}")


def encoded(one: TensorMap, address: int, size: int) -> bytes:
    """The 128 bytes of a map of a buffer of ``size`` bytes.

    Raises BadLaunch where the driver would refuse it, or where the array is larger than its buffer;
    Unsupported for a box whose rows do not fill the swizzle.
    """
    _checked(one, address, size)
    words = [0] * WORDS
    words[ADDRESS] = address
    words[SHAPE] = len(one.sizes) | one.element << 8 | one.swizzle << 16
    steps = one.element_strides or (1,) * len(one.sizes)
    for axis, (many, wide, step) in enumerate(zip(one.sizes, one.box, steps)):
        step = step if axis else 1  # the driver ignores the first one
        words[DIMENSIONS + axis] = (many - 1) | (-(-wide // step) - 1) << 32 | step << 40
    words[STRIDES + 1 : STRIDES + 1 + len(one.strides)] = one.strides
    seal = MARK
    for word in words[ADDRESS:SEALED]:
        seal = (seal ^ word) * MIXER % (1 << 64)
    words[SEAL] = seal
    return np.array(words, np.uint64).tobytes()
