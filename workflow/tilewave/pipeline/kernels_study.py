"""The config of a report on somebody's own kernels: the studies that any kernel can have, where no
config was written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import ROOT, SHIPPED
from tilewave.kernel import operations
from tilewave.kernel.discovery import gathered
from tilewave.kernel.front_matter import SUFFIXES, Kernel, kernel_files, load_kernel

RESULTS, REPORTS = "tilewave-results", "tilewave-report"
CEILINGS = ("ceilings_memory", "ceilings_math", "ceilings_wgmma")
"""Probes whose measured rates are the roofs of the roofline."""
PRODUCTS = ("matmul", "batched_matmul")
TIMED: Mapping[int, Sequence[int | str]] = {
    1: (2**26,),
    2: (8192,),
    3: (1024, 2048, 4096),
    4: ("16x1024x1024x1024",),
}
"""Shapes that are timed, by the number of an operation's dimensions."""
CHECKED = (3, 129, 67, 53), (8, 264, 136, 96), (4, 256, 256, 256)
"""Sizes that are checked: no multiple of anything, multiples of 8, and some that most tiles divide. An
operation of fewer dimensions takes the last ones of three, one of more twos in front of these."""
MOST_VARIANTS = 16
"""Of a kernel with more variants, one macro changed at a time, those of each dtype are checked."""


def _shipped(name: str) -> Path | None:
    """A kernel file that comes with Tilewave."""
    found = (path for path in kernel_files(ROOT / SHIPPED) if path.stem == name)
    return next((path for path in found if path.suffix in SUFFIXES), None)


def _named(names: Iterable[str]) -> list[str]:
    """Kernel files that come with Tilewave as `kernel_folders` names them."""
    paths = (_shipped(name) for name in names)
    return [path.relative_to(ROOT).as_posix() for path in paths if path]


def _followed(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Kernels of Tilewave that these follow, and those that they follow in turn."""
    found: dict[str, Kernel] = {}
    waiting = list(kernels.values())
    while waiting:
        name = waiting.pop(0).front.follows
        path = _shipped(name) if name and name not in {**kernels, **found} else None
        if name and path:
            found[name] = load_kernel(path)
            waiting.append(found[name])
    return found


def _sizes(operation: str) -> tuple[str, ...]:
    return operations.load(operation, SHIPPED).dimensions


def _computes(operation: str) -> bool:
    """Whether an operation needs FLOPs: a roofline has no place for others."""
    one = operations.load(operation, SHIPPED)
    sizes, dtypes = dict.fromkeys(one.dimensions, 1), dict.fromkeys(one.operands, "f32")
    return one.work(sizes, dtypes).flops > 0


def _checked(operation: str) -> list[str]:
    """Shapes at which an operation is checked."""
    count = len(_sizes(operation))
    more = (2,) * (count - len(CHECKED[0]))
    made = (sizes if count > 3 else sizes[1 : 1 + count] for sizes in CHECKED)
    return ["x".join(map(str, (*more, *sizes))) for sizes in made]


def _asked(operation: str, shapes: Sequence[str], timed: bool) -> list[int | str]:
    """Shapes at which an operation is timed and counted: those asked for that have as many sizes."""
    count = len(_sizes(operation))
    meant = [shape for shape in shapes if shape.count("x") in (0, count - 1)]
    return list(meant or (TIMED.get(count) if timed else None) or _checked(operation)[-1:])


def small(operation: str, shapes: Sequence[str]) -> list[int | str]:
    """Shapes at which an operation is executed: those asked for that fit it, else two small ones."""
    return _asked(operation, shapes, False) if shapes else list(_checked(operation)[1:])


def blocks(
    kernels: Iterable[Kernel], shapes: Callable[[str], Sequence[int | str]], **more: Any
) -> list[dict[str, Any]]:
    """A block of cases for each operation of the kernels, at the shapes for the operation."""
    named: dict[str, list[str]] = {}
    for kernel in kernels:
        named.setdefault(kernel.front.operation, []).append(kernel.name)
    return [
        {"operation": operation, "kernels": names, **more}
        | ({} if operation == "probe" else {"shapes": list(shapes(operation))})
        for operation, names in named.items()
    ]


def _refuse(shapes: Sequence[str], kernels: Iterable[Kernel]) -> None:
    """A shape must fit one of the operations."""
    kinds = {kernel.front.operation for kernel in kernels} - {"probe"}
    for shape in shapes:
        if not any(shape in _asked(kind, [shape], False) for kind in kinds):
            allowed = (
                ", ".join("x".join(_sizes(kind)) for kind in sorted(kinds)) or "none of a probe"
            )
            raise UserError(HERE, "--shapes", shape, f"sizes as {allowed}")


def config(
    folders: Sequence[str],
    shapes: Sequence[str] = (),
    *,
    timed: bool,
    operation_folders: Sequence[str] = (),
) -> dict[str, Any]:
    """The config for the kernels of these folders.

    shapes: to time and count, beside which some are checked; where none are named, some that fit the
    operation. timed: whether there is a GPU, or figures recorded of one; without, small shapes are
    executed on the CPU. operation_folders: of operations of their own. Raises UserError for folders
    without kernels that can be used, and for mistakes in a file that is named itself.
    """
    left_out: dict[str, UserError] = {}
    own = gathered([Path(folder).expanduser() for folder in folders], left_out)
    if not own:
        allowed = f"folders with kernel files ({' '.join(SUFFIXES)})"
        for first in itertools.islice(left_out.values(), 1):
            allowed += f"; {len(left_out)} left out, the first: {first}"
        raise UserError(HERE, "--kernels", ", ".join(folders), allowed)
    _refuse(shapes, own.values())
    followed = _followed(own)
    nearest = {kernel.front.follows for kernel in own.values()}
    shown = [*(one for name, one in followed.items() if name in nearest), *own.values()]
    measured = [one for one in shown if one.front.operation != "probe" or one.front.work]
    moving = [one for one in measured if one.front.operation not in (*PRODUCTS, "probe")]
    beside = _named(followed)
    each: dict[str, Any] = {"macros": "each_dtype"}

    def asked(operation: str) -> list[int | str]:
        return _asked(operation, shapes, timed)

    def largest(operation: str) -> list[int | str]:
        return asked(operation)[-1:]

    def checked(operation: str) -> list[int | str]:
        return [*_checked(operation), *(_asked(operation, shapes, False) if shapes else [])]

    studies: dict[str, Any] = {}
    products = [one for one in measured if one.front.operation == "matmul"]
    if timed and products:
        studies["ladder"] = {
            "plot": "ladder", "title": "Speed", "time": True,
            "question": "What share of cuBLAS does each kernel reach at which size?",
            "cases": blocks(products, asked, **each),
        }  # fmt: skip
    computing = [one for one in measured if _computes(one.front.operation)]
    if timed and computing:
        roofs = [name for name in CEILINGS if name not in own]
        beside += _named(roofs)
        studies["roofline"] = {
            "plot": "roofline", "title": "Roofline", "time": True,
            "question": "Which measured ceiling, of arithmetic or of the memory, is each kernel under?",
            "cases": [
                *blocks(computing, largest, counters="memory", **each),
                {"operation": "probe", "kernels": roofs},
            ],
        }  # fmt: skip
    copies = ["copy"] if timed and moving and "copy" not in own else []
    beside += _named(copies)
    copied = [{"operation": "copy", "kernels": copies, "shapes": list(TIMED[1])}] if copies else []
    others = [one for one in measured if one.front.operation not in ("matmul", "probe")]
    if timed and others:
        studies["operations"] = {
            "plot": "operations", "title": "Speed of other operations", "time": True,
            "question": "What share of cuBLAS, or of a copy, does each kernel reach at which size?",
            "cases": [
                *blocks(others, asked, **each),
                *blocks(moving, largest, counters="memory", **each),
                *copied,
            ],
        }  # fmt: skip
    studies["wavefronts"] = {
        "plot": "wavefronts", "title": "Shared-memory wavefronts", "counters": "memory",
        "question": "Which instructions need more shared-memory wavefronts than their data does?",
        "cases": blocks(shown, largest, **each),
    }  # fmt: skip
    varied = [one for one in own.values() if one.front.operation != "probe"]
    studies["correctness"] = {
        "plot": "correctness", "title": "Correctness",
        "question": "Is every variant right where sizes are neither square nor divisible?",
        "cases": [
            *blocks(shown, checked, **each),
            *blocks(varied, checked, macros="one_at_a_time", most=MOST_VARIANTS),
        ],
    }  # fmt: skip
    return {
        "kernel_folders": [*folders, *dict.fromkeys(beside)],
        "operation_folders": list(operation_folders),
        "output": {"results": RESULTS, "reports": REPORTS},
        "studies": studies,
    }
