"""A kernel's arguments: what front matter names, beside what the compiled kernel takes.

A cubin says how many bytes each parameter has (EIATTR_KPARAM_INFO), and no more: a number is given in
the width that the kernel wants, and what has no such width is a mistake in the front matter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tilewave.dtypes import scalar_type
from tilewave.jobs import Job
from tilewave.launches import Argument

ADDRESS, TENSOR_MAP = 8, 128
"""Bytes of a pointer (to a tensor map, too), and of a tensor map by value."""
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
REAL = {2: np.float16, 4: np.float32, 8: np.float64}

Number = Any
"""A NumPy scalar, as the kernel's memory holds it."""
Value = tuple[str, Number | None]
"""An argument's name with its number, or with None where it is a buffer or a tensor map."""


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
    known = [*buffers, *maps, "alpha", "beta", *job.numbers]
    raise ValueError(f"argument {name!r} is none of {', '.join(known)}")


def values(
    job: Job,
    buffers: Collection[str],
    maps: Collection[str],
    alpha: float,
    beta: float,
    sizes: Sequence[int] | None = None,
) -> list[Value]:
    """A job's arguments in the kernel's order.

    A name is one of ``buffers``, one of ``maps`` (tensor maps), alpha or beta, a scalar of the probe
    case, or a size; a number stands for itself, None for a null pointer. sizes: bytes of each parameter of the compiled kernel; None where they are not
    known: then whole numbers are int, and alpha and beta as `dtypes.scalar_type` has them.

    Raises ValueError for a name that is none of these, and where their number or their sizes are not
    the kernel's.
    """
    names = job.arguments
    if sizes is not None and len(sizes) != len(names):
        has = f" ({', '.join(map(str, sizes))} bytes)" if sizes else ""
        given = f" ({', '.join(map(str, names))})" if names else ""
        raise ValueError(
            f"the kernel takes {len(sizes)} arguments{has}, and front matter gives {len(names)}{given}"
        )
    made: list[Value] = []
    numbers = {**job.numbers, "alpha": alpha, "beta": beta}
    for place, name in enumerate(names):
        what, widths, plain = _kind(name, job, buffers, maps)
        size = plain if sizes is None else sizes[place]
        if size not in widths:
            or_ = " or ".join(map(str, widths))
            raise ValueError(
                f"argument {place + 1}: the kernel takes {size} bytes, and front matter gives {name}: "
                f"{what}, {or_} bytes"
            )
        if name in buffers or name in maps:
            made.append((str(name), None))
            continue
        value: Any = numbers[name] if isinstance(name, str) else name or 0
        real = what == "a number"
        number = _real(float(value), size, job) if real else _whole(name, int(value), size)
        made.append((str(name), number))
    return made
