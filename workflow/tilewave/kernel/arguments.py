"""A kernel's arguments: what front matter names, beside what the compiled kernel takes.

A cubin says how many bytes each parameter has (EIATTR_KPARAM_INFO), and no more: a number is given in
the width that the kernel wants, and what has no such width is a mistake in the front matter.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave.kernel.job import Job
from tilewave.kernel.launches import Argument, Typed
from tilewave.theory.dtypes import scalar_type

ADDRESS, TENSOR_MAP, MAP_ALIGNMENT = 8, 128, 64
"""Bytes of a pointer (to a tensor map, too), of a tensor map by value, and what it is aligned to."""
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
REAL = {2: np.float16, 4: np.float32, 8: np.float64}

Number = Any
"""A NumPy scalar, as the kernel's memory holds it."""
Value = tuple[str, Number | None]
"""An argument's name with its number, or with None where it is a buffer or a tensor map."""


@dataclass(frozen=True)
class StructLayout:
    """A struct by value: its bytes, and its members, each at so many of them from the start."""

    size: int
    members: tuple[tuple[int, Value], ...]


def _whole(name: object, value: int, size: int) -> Number:
    """A whole number in so many bytes, signed or not. Raises ValueError where it does not fit."""
    if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        raise ValueError(
            f"argument {name}: {value} does not fit into the {size} bytes of the kernel's"
        )
    return np.array([value % (1 << 8 * size)], f"u{size}").view(WHOLE[size])[0]


def _real(value: float, size: int, job: Job) -> Number:
    """Alpha or beta in so many bytes; two of them are bf16 where C or the sum is."""
    if size == 2 and "bf16" in (job.dtypes.get("c"), job.dtypes.get("accumulate")):
        return np.uint16(np.float32(value).view(np.uint32) >> 16)  # exact: few digits
    return REAL[size](value)


def _kind(
    name: Argument, job: Job, buffers: Collection[str], maps: Collection[str]
) -> tuple[str, tuple[int, ...], int]:
    """What an argument is, the bytes that it may have, and those that it has where nobody says."""
    if name is None:
        return "a null pointer", (ADDRESS,), ADDRESS
    if isinstance(name, float):
        return "a number", tuple(REAL), np.dtype(scalar_type(job.dtypes.get("accumulate"))).itemsize
    if isinstance(name, int):
        return "a whole number", tuple(WHOLE), 4
    if name in buffers:
        return "a buffer's address", (ADDRESS,), ADDRESS
    if name in maps:
        return "a tensor map", (ADDRESS, TENSOR_MAP), TENSOR_MAP
    if name in ("alpha", "beta"):
        scalar = np.dtype(scalar_type(job.dtypes.get("accumulate")))
        if scalar.kind == "i":
            return "a whole number", tuple(WHOLE), scalar.itemsize
        return "a number", tuple(REAL), scalar.itemsize
    if name in job.numbers:
        return "a whole number", tuple(WHOLE), 4
    names = [*buffers, *maps, "alpha", "beta", *job.numbers]
    raise ValueError(f"argument {name!r} is none of {', '.join(names)}")


def values(
    job: Job,
    buffers: Collection[str],
    maps: Collection[str],
    alpha: float,
    beta: float,
    sizes: Sequence[int] | None = None,
) -> list[Value | StructLayout]:
    """A job's arguments in the kernel's order.

    A name is one of ``buffers``, one of ``maps`` (tensor maps), alpha or beta, a scalar of the probe
    case, or a size; a number stands for itself, None for a null pointer, a tuple for a struct, whose
    members lie as C++ puts them. sizes: bytes of each parameter of the compiled kernel; None where they
    are not known, as those of a struct's members: then whole numbers are int, and alpha and beta as
    `dtypes.scalar_type` has them.

    Raises ValueError for a name that is none of these, and where their number or their sizes are not
    the kernel's.
    """
    names = job.arguments
    if sizes is not None and len(sizes) != len(names):
        has = f" ({', '.join(map(str, sizes))} bytes)" if sizes else ""
        given = f" ({', '.join(map(as_text, names))})" if names else ""
        raise ValueError(
            f"the kernel takes {len(sizes)} arguments{has}, and front matter gives {len(names)}{given}"
        )
    numbers = {**job.numbers, "alpha": alpha, "beta": beta}

    def wrong(place: int, size: int, given: str) -> ValueError:
        return ValueError(
            f"argument {place + 1}: the kernel takes {size} bytes, and front matter gives {given}"
        )

    def value(name: Argument, place: int, size: int | None) -> Value:
        what, widths, plain = _kind(name, job, buffers, maps)
        size = plain if size is None else size
        if size not in widths:
            raise wrong(place, size, f"{name}: {what}, {' or '.join(map(str, widths))} bytes")
        if name in buffers or name in maps:
            return str(name), None
        number_value: Any = numbers[name] if isinstance(name, str) else name or 0
        real = what == "a number"
        number = (
            _real(float(number_value), size, job) if real else _whole(name, int(number_value), size)
        )
        return str(name), number

    def member(name: Argument, place: int) -> tuple[int, int, list[tuple[int, Value]]]:
        """Bytes and alignment of a struct or of what lies in one, and its values with their places."""
        if isinstance(name, tuple):
            return _laid_out([member(part, place) for part in name])
        if isinstance(name, Typed):
            if name.value not in numbers and isinstance(name.value, str):
                raise ValueError(f"argument {place + 1}: {as_text(name)} is no number")
            typed = _typed(name, numbers.get(name.value, name.value))
            return typed.itemsize, typed.itemsize, [(0, (str(name.value), typed))]
        size = _kind(name, job, buffers, maps)[2]
        return size, min(size, MAP_ALIGNMENT), [(0, value(name, place, size))]

    arranged: list[Value | StructLayout] = []
    for place, name in enumerate(names):
        size = None if sizes is None else sizes[place]
        if isinstance(name, tuple):
            struct_size, _, members = member(name, place)
            if size not in (None, struct_size):
                raise wrong(place, size, f"{as_text(name)}: a struct, {struct_size} bytes")
            arranged.append(StructLayout(struct_size, tuple(members)))
        else:
            arranged.append(value(name, place, size))
    return arranged


def _typed(name: Typed, value: Any) -> Number:
    """A number of a struct's member that has a type. Raises ValueError where it does not fit."""
    size = int(name.dtype[1:]) // 8
    if name.dtype[0] == "i" and value != int(value):
        raise ValueError(f"argument {as_text(name)} is {value}, no whole number")
    return _whole(name.value, int(value), size) if name.dtype[0] == "i" else REAL[size](value)


def _laid_out(
    members: Sequence[tuple[int, int, list[tuple[int, Value]]]],
) -> tuple[int, int, list[tuple[int, Value]]]:
    """Bytes, alignment and values of a struct of these members; an empty one has a byte, as in C++."""
    end, widest, placed = 0, 1, []
    for size, alignment, values in members:
        start = -(-end // alignment) * alignment
        placed += [(start + at, value) for at, value in values]
        end, widest = start + size, max(widest, alignment)
    return max(-(-end // widest) * widest, 1), widest, placed


def as_text(name: Argument) -> str:
    """An argument as front matter has it."""
    if isinstance(name, tuple):
        return f"[{', '.join(map(as_text, name))}]"
    return f"{{{name.dtype}: {name.value}}}" if isinstance(name, Typed) else str(name)
