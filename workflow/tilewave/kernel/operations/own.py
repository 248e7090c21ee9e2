"""An operation of somebody's own: its mistakes are told with file, line and what may stand there."""

import functools
import math
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics.errors import UserError
from tilewave.kernel.inputs import storage
from tilewave.kernel.job import BlockTiming, Job
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.operations.base import Operand, Operation, Work
from tilewave.kernel.tolerance import Tolerance

METHODS = ("reference", "tolerance", "inputs", "work", "runs", "given", "streamed", "output")
REFERENCE = "a method: what each output must hold; the name of a kernel file that gives it; or None: nothing is checked"


def checked(made: type[Operation], file: Path) -> None:
    """Look at what the class declares, and let its methods tell where they fail. Raises UserError."""
    sizes = made.dimensions
    named = isinstance(sizes, tuple | list) and all(isinstance(one, str) for one in sizes)
    if not sizes or not named:
        raise UserError(file, "dimensions", sizes, 'names of the sizes: ("rows", "columns")')
    if made.arrays is Operation.arrays:
        _check_operands(made.operands, sizes, file)
    if made.reference is Operation.reference:
        raise UserError(file, "reference", None, REFERENCE)
    if made.reference is None or isinstance(made.reference, str):
        made.kernel = made.reference and kernel(made.reference, file)
        made.reference = Operation.reference
    elif not callable(made.reference):
        raise UserError(file, "reference", made.reference, REFERENCE)
    for name in METHODS:
        method = getattr(made, name)
        if method is not getattr(Operation, name):
            setattr(made, name, _told(method, name, file))


def kernel(name: str, file: Path) -> Path:
    """The kernel file that a reference names, from the operation's folder on. Raises UserError."""
    found = (file.parent / name).resolve()
    if not found.is_file():
        raise UserError(file, "reference", name, "a kernel file that exists, from this folder on")
    return found


def _check_operands(operands: Mapping[str, Operand], sizes: tuple[str, ...], file: Path) -> None:
    given = operands.values() if isinstance(operands, Mapping) else ()
    if not any(getattr(one, "written", False) for one in given):
        allowed = "name -> Operand(...), one of them with written=True"
        raise UserError(file, "operands", operands, allowed)
    for name, one in operands.items():
        if not isinstance(one, Operand):
            raise UserError(file, f"operands.{name}", one, 'Operand(("rows", "columns"), ...)')
        if not isinstance(one.extents, tuple | list):
            raise UserError(file, f"operands.{name}", one.extents, f"({one.extents!r},)")
        for size in one.extents:
            if size not in sizes and not (isinstance(size, int) and size > 0):
                allowed = f"{', '.join(sizes)} (dimensions), or a positive whole number"
                raise UserError(file, f"operands.{name}", size, allowed)


def _told(method: Callable[..., Any], name: str, file: Path) -> Callable[..., Any]:
    """The method; what it raises is a UserError at the line of its file, and what it gives is what it should."""

    @functools.wraps(method)
    def told(self: Operation, *given: Any, **named: Any) -> Any:
        try:
            found = method(self, *given, **named)
        except UserError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((one.lineno for one in frames[::-1] if one.filename == str(file)), 1)
            said = f"{type(error).__name__}: {error}"
            raise UserError(f"{file}:{line}", name, said, "code that runs") from error
        if name in ("reference", "inputs"):
            return (_reference if name == "reference" else _inputs)(self, given[0], found, file)
        kind = {"work": Work, "tolerance": Tolerance}.get(name, object)
        if not isinstance(found, kind):
            raise UserError(file, name, found, f"a {kind.__module__}.{kind.__name__}")
        return found

    return told


def try_out(
    operation: Operation, shape: Mapping[str, int], dtypes: Mapping[str, str], case: str
) -> None:
    """Ask it for inputs, reference and tolerance once, so that a mistake ends the run before it begins. Raises
    UserError."""
    job = Job(
        stage="check", case=case, kernel="", variant="", provider="nvrtc", operation=operation.name, source="",
        entry="", arguments=(*operation.operands, *operation.scalars), shape=shape, dtypes=dtypes, layouts={},
        seed=1, launch=LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1), limit_s=1.0, timing=BlockTiming(1.0, 1),
        clock_control="none", cache_control="none",
    )  # fmt: skip
    given = operation.inputs(job)
    judged = type(operation).reference is not Operation.reference
    for scalars in operation.runs(job) if judged else ():
        for name in operation.reference(job, given, *scalars):
            operation.tolerance(job, name, *scalars)
    operation.work(shape, dtypes)


def _inputs(operation: Operation, job: Job, found: Any, file: Path) -> Any:
    """All operands that have values before a launch, each of memory's dtype and size."""
    wanted = {
        name: (str(storage(operation.dtype(job, name))), math.prod(operation.extents(job, name)))
        for name, one in operation.arrays(job).items() if one.given
    }  # fmt: skip
    known = found if isinstance(found, Mapping) else {}
    for name, (dtype, count) in wanted.items():
        one = known.get(name)
        has = (str(one.dtype), one.size) if isinstance(one, np.ndarray) else None
        if has != (dtype, count):
            raise UserError(file, f"inputs.{name}", has, f"an array of {count} {dtype}")
    return found


def _reference(operation: Operation, job: Job, found: Any, file: Path) -> dict[str, np.ndarray]:
    wanted = {name: operation.extents(job, name) for name in operation.outputs(job)}
    known = found if isinstance(found, Mapping) else {"": found}
    shapes = {name: np.shape(one) for name, one in known.items()}
    if shapes != wanted:
        told = ", ".join(f"{name} of shape {sizes}" for name, sizes in wanted.items())
        raise UserError(file, "reference", shapes, f"each output by its name: {told}")
    return {name: np.asarray(one, np.float64) for name, one in found.items()}
