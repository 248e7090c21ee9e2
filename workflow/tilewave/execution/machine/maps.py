"""Tensor maps: descriptions of arrays in global memory for tensor copies.
The 128 bytes that the driver encodes are not documented, and no program reads them. Here they hold
another encoding, which the copies of `bulk` read."""

from dataclasses import dataclass

import numpy as np

from tilewave.basics.errors import BadLaunch, Unsupported
from tilewave.theory.tensor_map_limits import ALIGNMENT, RANKS, SWIZZLES, broken

WORDS = 16
# ---- the words, uint64. SHAPE: dimensions, bytes of an element << 8, swizzle << 16. Each dimension has
# size - 1, box size - 1 << 32, element stride << 40, and in another word its stride in bytes.
SEAL, ADDRESS, SHAPE, DIMENSIONS = range(4)
STRIDES = DIMENSIONS + RANKS[-1]
SEALED = STRIDES + RANKS[-1]
"""End of the words that the seal covers; it reveals a map that a kernel has changed."""
MARK, MIXER = 0x54494C455741_4D41, 0x9E37_79B9_7F4A_7C15


@dataclass(frozen=True)
class TensorMap:
    """An argument, by value or by its address: a box moves over an array of one to five dimensions.

    ``buffer`` names the argument (`arguments.Buffer`) that holds the array. ``sizes`` and ``box`` count
    elements, the contiguous dimension first. ``strides`` are bytes between elements along each dimension
    except the first. ``element_strides`` (empty: ones) select every element, every second and so on, in
    all dimensions except the first. ``swizzle`` is 0, 32, 64 or 128, the bytes within which 16-byte
    pieces of shared memory are permuted (CUDA driver API, cuTensorMapEncodeTiled).
    """

    name: str
    buffer: str
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()


def _checked(tensor: TensorMap, address: int, size: int) -> None:
    """Check a tensor map; raise as `encoded` does."""

    def refuse(what: str, value: object, allowed: str) -> BadLaunch:
        return BadLaunch(f"tensor map {tensor.name}: {what} is {value}. Allowed: {allowed}")

    sizes, box = tensor.sizes, tensor.box
    rank, inner = len(sizes), box[0] * tensor.element
    steps = tensor.element_strides or (1,) * rank
    if rank not in RANKS or {len(tensor.strides) + 1, len(box), len(steps)} != {rank}:
        raise refuse("the rank", rank, f"1 to {RANKS[-1]}, the same for box and strides")
    if tensor.element not in (1, 2, 4, 8):
        raise refuse("the element size", tensor.element, "1, 2, 4, 8")
    if min(*sizes, *box, *steps) < 1:
        raise refuse("(sizes, box, element strides)", (sizes, box, steps), "1 or more")
    if tensor.swizzle not in SWIZZLES:
        raise refuse("the swizzle", tensor.swizzle, ", ".join(map(str, SWIZZLES)))
    if problem := broken(tensor.element, sizes, box, steps, tensor.strides, tensor.swizzle):
        raise BadLaunch(f"tensor map {tensor.name}: {problem}")
    if tensor.swizzle and inner < tensor.swizzle:
        detail = f"rows of {inner} bytes in a swizzle of {tensor.swizzle} are not supported"
        raise Unsupported(f"tensor map {tensor.name}", detail=detail)
    if address % ALIGNMENT:
        raise refuse("the address", hex(address), f"multiples of {ALIGNMENT}")
    reach = zip(sizes[1:], tensor.strides)
    needed = sizes[0] * tensor.element + sum((many - 1) * stride for many, stride in reach)
    if needed > size:
        raise refuse("the array", f"{needed} bytes", f"at most {size}, the size of {tensor.buffer}")


def encoded(tensor: TensorMap, address: int, size: int) -> bytes:
    """Encode a map of a buffer of ``size`` bytes, in 128 bytes.
    Raises BadLaunch if the driver would refuse it, or if the array is larger than its buffer;
    Unsupported for a box whose rows do not fill the swizzle."""
    _checked(tensor, address, size)
    encoding = [0] * WORDS
    encoding[ADDRESS] = address
    encoding[SHAPE] = len(tensor.sizes) | tensor.element << 8 | tensor.swizzle << 16
    steps = tensor.element_strides or (1,) * len(tensor.sizes)
    for axis, (count, extent, step) in enumerate(zip(tensor.sizes, tensor.box, steps)):
        step = step if axis else 1  # the driver ignores the first one
        encoding[DIMENSIONS + axis] = (count - 1) | (-(-extent // step) - 1) << 32 | step << 40
    encoding[STRIDES + 1 : STRIDES + 1 + len(tensor.strides)] = tensor.strides
    seal = MARK
    for word in encoding[ADDRESS:SEALED]:
        seal = (seal ^ word) * MIXER % (1 << 64)
    encoding[SEAL] = seal
    return np.array(encoding, np.uint64).tobytes()
