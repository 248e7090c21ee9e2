"""The config of a report on a user's kernels: the studies that fit any kernel, if no config was written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import ROOT, SHIPPED
from tilewave.basics.tables import table_beside
from tilewave.kernel import operations
from tilewave.kernel.discovery import gathered, kernel_files
from tilewave.kernel.front_matter import SUFFIXES, Kernel, load_kernel

RESULTS, REPORTS = "tilewave-results", "tilewave-report"
TABLES = table_beside(__file__)
CEILINGS: Sequence[str] = TABLES["ceilings"]
TIMED: Mapping[int, Sequence[int | str]] = TABLES["timed"]
CHECKED: Sequence[Sequence[int]] = TABLES["checked"]
PRODUCTS = ("matmul", "batched_matmul")
MOST_VARIANTS = 16
"""Limit of variants, one macro changed at a time: a kernel with more is checked once for each dtype."""


def _shipped(name: str) -> Path | None:
    """Return a kernel file that comes with Tilewave, None if there is no such name."""
    paths = (path for path in kernel_files(ROOT / SHIPPED) if path.stem == name)
    return next((path for path in paths if path.suffix in SUFFIXES), None)


def _named(names: Iterable[str]) -> list[str]:
    """Return kernel files that come with Tilewave, spelled as in `kernel_folders`."""
    paths = (_shipped(name) for name in names)
    return [path.relative_to(ROOT).as_posix() for path in paths if path]


def _followed(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Return Tilewave's kernels that these follow, and those that they follow in turn."""
    followed: dict[str, Kernel] = {}
    waiting = list(kernels.values())
    while waiting:
        name = waiting.pop(0).front.follows
        path = _shipped(name) if name and name not in {**kernels, **followed} else None
        if name and path:
            followed[name] = load_kernel(path)
            waiting.append(followed[name])
    return followed


def _sizes(operation: str) -> tuple[str, ...]:
    return operations.load(operation, SHIPPED).dimensions


def _computes(kernel: Kernel) -> bool:
    """Return whether a kernel's operation needs FLOPs, and so has a place under a roofline."""
    definition = operations.load(kernel.front.operation, SHIPPED)
    sizes = dict.fromkeys(definition.dimensions, 1)
    dtypes = dict.fromkeys(definition.operands or ("x",), "f32")  # some depend on the kernel
    return definition.work(sizes, dtypes).flops > 0


def _checked(operation: str) -> list[str]:
    count = len(_sizes(operation))
    more = (2,) * (count - len(CHECKED[0]))
    shapes = (sizes if count > 3 else sizes[1 : 1 + count] for sizes in CHECKED)
    return ["x".join(map(str, (*more, *sizes))) for sizes in shapes]


def _requested(operation: str, shapes: Sequence[str], timed: bool) -> list[int | str]:
    """Return the shapes at which an operation is timed and counted: the user's that fit it, or a default."""
    count = len(_sizes(operation))
    fitting = [shape for shape in shapes if shape.count("x") in (0, count - 1)]
    return list(fitting or (TIMED.get(count) if timed else None) or _checked(operation)[-1:])


def small(operation: str, shapes: Sequence[str]) -> list[int | str]:
    """Return the shapes at which an operation is executed: the user's that fit it, else two small ones."""
    return _requested(operation, shapes, False) if shapes else list(_checked(operation)[1:])


def blocks(
    kernels: Iterable[Kernel], shapes: Callable[[str], Sequence[int | str]], **more: Any
) -> list[dict[str, Any]]:
    named: dict[str, list[str]] = {}
    for kernel in kernels:
        named.setdefault(kernel.front.operation, []).append(kernel.name)
    return [
        {"operation": operation, "kernels": names, **more}
        | ({} if operation == "probe" else {"shapes": list(shapes(operation))})
        for operation, names in named.items()
    ]


def _refuse(shapes: Sequence[str], kernels: Iterable[Kernel]) -> None:
    kinds = {kernel.front.operation for kernel in kernels} - {"probe"}
    for shape in shapes:
        if not any(shape in _requested(kind, [shape], False) for kind in kinds):
            sizes = ", ".join("x".join(_sizes(kind)) for kind in sorted(kinds))
            allowed = f"sizes as {sizes}" if kinds else "nothing, because probes have no shapes"
            raise UserError(HERE, "--shapes", shape, allowed)


def config(
    folders: Sequence[str],
    shapes: Sequence[str] = (),
    *,
    timed: bool,
    operation_folders: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the config for the kernels of these folders: a block without `macros` has one variant for each dtype.
    shapes: to time and count, besides those that are checked. timed: whether there is a GPU or a recording of one;
    without, the CPU executes small shapes. Raises UserError for folders without a usable kernel."""
    left_out: dict[str, UserError] = {}
    kernels = gathered([Path(folder).expanduser() for folder in folders], left_out)
    if not kernels:
        problem = f"--kernels has no usable kernel in {', '.join(folders)}"
        remedy = f"Give folders with kernel files ({' '.join(SUFFIXES)})"
        if left_out:
            problem += f"; {len(left_out)} skipped"
            remedy = f"Fix the first: {next(iter(left_out.values()))}"
        raise UserError.because(HERE, problem, remedy, "--kernels")
    _refuse(shapes, kernels.values())
    followed = _followed(kernels)
    nearest = {kernel.front.follows for kernel in kernels.values()}
    shown = [*(kernel for name, kernel in followed.items() if name in nearest), *kernels.values()]
    measured = [each for each in shown if each.front.operation != "probe" or each.front.work]
    moving = [kernel for kernel in measured if kernel.front.operation not in (*PRODUCTS, "probe")]
    beside = _named(followed)
    studies: dict[str, dict[str, Any]] = {}

    def add(plot: str, *cases: Mapping[str, Any], **more: Any) -> None:
        studies[plot] = {"plot": plot, **TABLES["studies"][plot], "cases": list(cases), **more}

    def requested_shapes(operation: str) -> list[int | str]:
        return _requested(operation, shapes, timed)

    def largest(operation: str) -> list[int | str]:
        return requested_shapes(operation)[-1:]

    def checked(operation: str) -> list[int | str]:
        return [*_checked(operation), *(_requested(operation, shapes, False) if shapes else [])]

    products = [kernel for kernel in measured if kernel.front.operation == "matmul"]
    if timed and products:
        add("ladder", *blocks(products, requested_shapes), time=True)
    computing = list(filter(_computes, measured))
    if timed and computing:
        roofs = [name for name in CEILINGS if name not in kernels]
        beside += _named(roofs)
        below = blocks(computing, largest, counters="memory")
        add("roofline", *below, {"operation": "probe", "kernels": roofs}, time=True)
    copies = ["copy"] if timed and moving and "copy" not in kernels else []
    beside += _named(copies)
    copied = [{"operation": "copy", "kernels": copies, "shapes": list(TIMED[1])}] if copies else []
    further = [kernel for kernel in measured if kernel.front.operation not in ("matmul", "probe")]
    if timed and further:
        memory = blocks(moving, largest, counters="memory")
        add("operations", *blocks(further, requested_shapes), *memory, *copied, time=True)
    add("wavefronts", *blocks(shown, largest), counters="memory")
    varied = [kernel for kernel in kernels.values() if kernel.front.operation != "probe"]
    one_by_one = blocks(varied, checked, macros="one_at_a_time", most=MOST_VARIANTS)
    add("correctness", *blocks(shown, checked), *one_by_one)
    return {
        "kernel_folders": [*folders, *dict.fromkeys(beside)],
        "operation_folders": list(operation_folders),
        "output": {"results": RESULTS, "reports": REPORTS},
        "strict": True,
        "studies": studies,
    }
