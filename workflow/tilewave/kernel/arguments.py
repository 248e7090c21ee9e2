"""A kernel's arguments: from front matter's names to the values that the compiled kernel takes.
A cubin holds no more than each parameter's bytes (EIATTR_KPARAM_INFO). A number gets that width."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave.kernel.job import Job
from tilewave.kernel.launches import Argument, Typed
from tilewave.theory.dtypes import scalar_type

ADDRESS, TENSOR_MAP = 8, 128
"""Bytes of a pointer (to a tensor map too), and of a tensor map by value."""
MAP_ALIGNMENTS = 64, 128
"""Of a tensor map in a struct: cuda.h before 13.0 declares 64 bytes, since 13.0 128."""
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
REAL = {2: np.float16, 4: np.float32, 8: np.float64}

Number = Any
"""A NumPy scalar, as the kernel's memory holds it."""
Value = tuple[str, Number | None]
"""An argument's name with its number, or with None where it is a buffer or a tensor map."""


@dataclass(frozen=True)
class StructLayout:
    """A struct by value: its bytes, and its members with their offsets in bytes."""

    size: int
    members: tuple[tuple[int, Value], ...]


def _whole(name: object, value: int, size: int) -> Number:
    """Return a whole number in so many bytes, signed or not. Raises ValueError where it does not fit."""
    if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        raise ValueError(f"argument {name}: {value} does not fit into the {size} bytes it has")
    return np.array([value % (1 << 8 * size)], f"u{size}").view(WHOLE[size])[0]


def _real(value: float, size: int, job: Job) -> Number:
    """Return alpha or beta in so many bytes. Two bytes are bf16 where C or the sum is bf16."""
    if size == 2 and "bf16" in (job.dtypes.get("c"), job.dtypes.get("accumulate")):
        return np.uint16(np.float32(value).view(np.uint32) >> 16)  # exact: few digits
    return REAL[size](value)


def _kind(
    name: Argument, job: Job, buffers: Collection[str], maps: Collection[str]
) -> tuple[str, tuple[int, ...], int]:
    """Return the kind of an argument, the bytes that it may have, and its default."""
    if name is None:
        return "a null pointer", (ADDRESS,), ADDRESS
    if isinstance(name, int):
        return "a whole number", tuple(WHOLE), 4
    if name in buffers:
        return "a buffer's address", (ADDRESS,), ADDRESS
    if name in maps:
        return "a tensor map", (ADDRESS, TENSOR_MAP), TENSOR_MAP
    if isinstance(name, float) or name in ("alpha", "beta"):
        scalar = np.dtype(scalar_type(job.dtypes.get("accumulate")))
        if scalar.kind == "i" and not isinstance(name, float):
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
    """Return a job's arguments in the kernel's order.

    A name is one of ``buffers``, one of ``maps`` (tensor maps), alpha or beta, a scalar of the probe
    case, or a size. A number stands for itself, None for a null pointer, a tuple for a struct, whose
    members lie as in C++. sizes: bytes of each parameter of the compiled kernel. Without them, as for a
    struct's members, whole numbers are int, and alpha and beta have type `dtypes.scalar_type`.

    Raises ValueError for any other name, and where the number or the sizes of arguments are not the kernel's.
    """
    names = job.arguments
    if sizes is not None and len(sizes) != len(names):
        has = f" ({', '.join(map(str, sizes))} bytes)" if sizes else ""
        listed = f" ({', '.join(map(as_text, names))})" if names else ""
        takes = f"the kernel takes {len(sizes)} arguments{has}"
        raise ValueError(f"{takes}, and front matter gives {len(names)}{listed}")
    numbers = {**job.numbers, "alpha": alpha, "beta": beta}

    def wrong(index: int, size: int, argument: str) -> ValueError:
        takes = f"argument {index + 1}: the kernel takes {size} bytes"
        return ValueError(f"{takes}, and front matter gives {argument}")

    def value(name: Argument, index: int, size: int | None) -> Value:
        kind, widths, plain = _kind(name, job, buffers, maps)
        size = plain if size is None else size
        if size not in widths:
            raise wrong(index, size, f"{name}: {kind}, {' or '.join(map(str, widths))} bytes")
        if name in buffers or name in maps:
            return str(name), None
        raw: Any = numbers[name] if isinstance(name, str) else name or 0
        real = kind == "a number"
        number = _real(float(raw), size, job) if real else _whole(name, int(raw), size)
        return str(name), number

    def member(name: Argument, index: int, most: int) -> tuple[int, int, list[tuple[int, Value]]]:
        """Return a struct's bytes, alignment, and values with offsets. most: a member's largest alignment."""
        if isinstance(name, tuple):
            return _laid_out([member(part, index, most) for part in name])
        if isinstance(name, Typed):
            if name.value not in numbers and isinstance(name.value, str):
                raise ValueError(f"argument {index + 1}: {as_text(name)} is no number")
            typed = _typed(name, numbers.get(name.value, name.value))
            return typed.itemsize, typed.itemsize, [(0, (str(name.value), typed))]
        size = _kind(name, job, buffers, maps)[2]
        return size, min(size, most), [(0, value(name, index, size))]

    arranged: list[Value | StructLayout] = []
    for index, name in enumerate(names):
        size = None if sizes is None else sizes[index]
        if isinstance(name, tuple):
            layouts = [member(name, index, alignment) for alignment in MAP_ALIGNMENTS]
            fitting = [layout for layout in layouts if size in (None, layout[0])]
            if size is not None and not fitting:
                raise wrong(index, size, f"{as_text(name)}: a struct, {layouts[0][0]} bytes")
            arranged.append(StructLayout(fitting[0][0], tuple(fitting[0][2])))
        else:
            arranged.append(value(name, index, size))
    return arranged


def _typed(name: Typed, value: Any) -> Number:
    """Return the number of a typed member of a struct. Raises ValueError where it does not fit."""
    size = int(name.dtype[1:]) // 8
    if name.dtype[0] == "i" and value != int(value):
        raise ValueError(f"argument {as_text(name)} is {value}, no whole number")
    return _whole(name.value, int(value), size) if name.dtype[0] == "i" else REAL[size](value)


def _laid_out(
    members: Sequence[tuple[int, int, list[tuple[int, Value]]]],
) -> tuple[int, int, list[tuple[int, Value]]]:
    """Return bytes, alignment and values of a struct of these members. An empty one has a byte, as in C++."""
    end, widest, placed = 0, 1, []
    for size, alignment, values in members:
        start = -(-end // alignment) * alignment
        placed += [(start + at, value) for at, value in values]
        end, widest = start + size, max(widest, alignment)
    return max(-(-end // widest) * widest, 1), widest, placed


def as_text(name: Argument) -> str:
    if isinstance(name, tuple):
        return f"[{', '.join(map(as_text, name))}]"
    return f"{{{name.dtype}: {name.value}}}" if isinstance(name, Typed) else str(name)
