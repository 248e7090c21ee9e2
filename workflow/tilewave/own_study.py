"""The config of a report on somebody's own kernels: the studies that any kernel can have, where no
config was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave import operations
from tilewave.errors import UserError
from tilewave.home import ROOT
from tilewave.kernels import SUFFIXES, Kernel, find_kernels, load_kernel

RESULTS, REPORTS = "tilewave-results", "tilewave-report"
SHIPPED = "kernels"
CEILINGS = ("ceilings_memory", "ceilings_math", "ceilings_wgmma")
"""Probes whose measured rates are the roofs of the roofline."""
TIMED: Mapping[int, list[int]] = {1: [2**24], 2: [4096], 3: [1024, 2048, 4096]}
"""Shapes that are timed, by the number of an operation's dimensions."""
ODD, EVEN, SMALL = (129, 67, 53), (264, 136, 96), 256
"""Sizes that are checked: no multiple of anything, multiples of 8, and one that most tiles divide."""
MOST_VARIANTS = 16
"""Of a kernel with more variants, one macro changed at a time, those of each dtype are checked."""


def _shipped(name: str) -> Path | None:
    """A kernel file that comes with Tilewave."""
    paths = ((ROOT / SHIPPED / name).with_suffix(suffix) for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


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


def _shapes(operation: str, timed: bool, where: object) -> list[int | str]:
    """Shapes for an operation where none are named."""
    count = len(operations.load(operation, where).dimensions)
    if timed:
        return list(TIMED.get(count, [SMALL]))
    checked = ["x".join(map(str, sizes[:count])) for sizes in (ODD, EVEN) if count <= len(sizes)]
    return [*checked, SMALL]


def _blocks(
    kernels: Iterable[Kernel], shapes: Sequence[str], timed: bool, last: bool = False, **more: Any
) -> list[dict[str, Any]]:
    """A block of cases for each operation of the kernels; at the last shape only where ``last``."""
    named: dict[str, list[str]] = {}
    for kernel in kernels:
        named.setdefault(kernel.front.operation, []).append(kernel.name)
    blocks = []
    for operation, names in named.items():
        block = {"operation": operation, "kernels": names, **more}
        if operation != "probe":
            meant = list(shapes) or _shapes(operation, timed, SHIPPED)
            block["shapes"] = meant[-1:] if last else meant
        blocks.append(block)
    return blocks


def config(
    folders: Sequence[str], shapes: Sequence[str] = (), *, timed: bool, only: str = ""
) -> dict[str, Any]:
    """The config for the kernels of these folders.

    shapes: of all cases; where none are named, some that fit the operation. timed: whether there is a
    GPU, or figures recorded of one; without, small shapes are executed on the CPU. Raises UserError for
    folders without kernels, and for mistakes in their front matter.
    """
    kernels = find_kernels(Path(folder).expanduser() for folder in folders)
    if not kernels:
        found = ", ".join(folders)
        raise UserError(
            "kernels", "folder", found, f"folders with kernel files ({' '.join(SUFFIXES)})"
        )
    beside = _followed(kernels)
    nearest = {own.front.follows for own in kernels.values()}
    shown = [*(one for name, one in beside.items() if name in nearest), *kernels.values()]
    products = [one for one in shown if one.front.operation == "matmul"]
    rated = [one for one in shown if one.front.operation != "probe" or one.front.work]
    each: dict[str, Any] = {"macros": "each_dtype"}
    studies: dict[str, Any] = {}
    if timed and products:
        studies["ladder"] = {
            "plot": "ladder", "title": "Speed", "time": True,
            "question": "What share of cuBLAS does each kernel reach at which size?",
            "cases": _blocks(products, shapes, timed, **each),
        }  # fmt: skip
    roofs = [name for name in CEILINGS if name not in kernels]
    if timed and rated:
        studies["roofline"] = {
            "plot": "roofline", "title": "Roofline", "time": True,
            "question": "Which measured ceiling, of arithmetic or of the memory, is each kernel under?",
            "cases": [
                *_blocks(rated, shapes, timed, last=True, counters="memory", **each),
                {"operation": "probe", "kernels": roofs},
            ],
        }  # fmt: skip
    studies["wavefronts"] = {
        "plot": "wavefronts", "title": "Shared-memory wavefronts", "counters": "memory",
        "question": "Which instructions need more shared-memory wavefronts than their data does?",
        "cases": _blocks(shown, shapes, timed, last=True, **each),
    }  # fmt: skip
    studies["correctness"] = {
        "plot": "correctness", "title": "Correctness",
        "question": "Is every variant right where sizes are neither square nor divisible?",
        "cases": [
            *_blocks(shown, shapes, False, **each),
            *_blocks(
                (one for one in kernels.values() if one.front.operation != "probe"),
                shapes, False, macros="one_at_a_time", most=MOST_VARIANTS,
            ),
        ],
    }  # fmt: skip
    files = [one.path.name for one in beside.values()]
    if "roofline" in studies:
        files += [f"{name}.cu" for name in roofs]
    return {
        "kernel_folders": [*folders, *(f"{SHIPPED}/{name}" for name in dict.fromkeys(files))],
        "only": only,
        "output": {"results": RESULTS, "reports": REPORTS},
        "studies": studies,
    }
