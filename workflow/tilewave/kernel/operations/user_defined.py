"""User-defined operations, whose mistakes are reported with file, line and remedy."""

import functools
import math
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics.errors import UserError, shown
from tilewave.kernel.expressions import Sizes, names_in
from tilewave.kernel.inputs import storage
from tilewave.kernel.job import BlockTiming, Job
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.operations.base import Operand, Operation, Work
from tilewave.kernel.tolerance import Tolerance

METHODS = ("reference", "tolerance", "inputs", "work", "runs", "given", "streamed", "output")
REFERENCE = "a method that returns what each output must hold, the name of a kernel file that computes it, or None to check nothing"


def checked(operation: type[Operation], file: Path) -> None:
    """Check the class's declarations, and guard its methods (`_guarded`). Raises UserError."""
    sizes = operation.dimensions
    named = isinstance(sizes, tuple | list) and all(isinstance(size, str) for size in sizes)
    if not sizes or not named:
        raise UserError(file, "dimensions", sizes, 'names of sizes, such as ("rows", "columns")')
    if operation.arrays is Operation.arrays:
        _check_operands(operation.operands, sizes, file)
    if operation.reference is Operation.reference:
        raise UserError(file, "reference", None, REFERENCE)
    if operation.reference is None or isinstance(operation.reference, str):
        operation.kernel = operation.reference and kernel(operation.reference, file)
        operation.reference = Operation.reference
    elif not callable(operation.reference):
        raise UserError(file, "reference", operation.reference, REFERENCE)
    for name in METHODS:
        method = getattr(operation, name)
        if method is not getattr(Operation, name):
            setattr(operation, name, _guarded(method, name, file))


def kernel(name: str, file: Path) -> Path:
    """Return the kernel file that a reference names, relative to the operation's folder. Raises UserError."""
    path = (file.parent / name).resolve()
    if not path.is_file():
        problem = f"reference: there is no kernel file {name}"
        remedy = f"Name a file, relative to {file.parent.name}/"
        raise UserError.because(file, problem, remedy, "reference")
    return path


def _check_operands(operands: Mapping[str, Operand], sizes: tuple[str, ...], file: Path) -> None:
    values = operands.values() if isinstance(operands, Mapping) else ()
    if not any(getattr(operand, "written", False) for operand in values):
        remedy = 'Write them as {"x": Operand(...)}, one of them with written=True'
        raise UserError.because(file, "operands: there is no output", remedy, "operands")
    for name, operand in operands.items():
        if not isinstance(operand, Operand):
            raise UserError(file, f"operands.{name}", operand, 'Operand(("rows", "columns"), ...)')
        if not isinstance(operand.extents, tuple | list):
            raise UserError(file, f"operands.{name}", operand.extents, f"({operand.extents!r},)")
        for size in operand.extents:
            named = names_in(str(size))
            if not (size > 0 if isinstance(size, int) else named and named <= {*sizes}):
                allowed = f"a dimension ({', '.join(sizes)}), or a positive whole number"
                raise UserError(file, f"operands.{name}", size, allowed)


def _guarded(method: Callable[..., Any], name: str, file: Path) -> Callable[..., Any]:
    """Return the method with checks: it raises UserError at the line of its file, and its result is checked."""

    @functools.wraps(method)
    def guarded(self: Operation, *arguments: Any, **keywords: Any) -> Any:
        try:
            output = method(self, *arguments, **keywords)
        except UserError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in frames[::-1] if frame.filename == str(file)), 1)
            problem = f"{name} fails: {type(error).__name__}: {error}"
            raise UserError.because(f"{file}:{line}", problem, "Correct it", name) from error
        if name in ("reference", "inputs"):
            check = _reference if name == "reference" else _inputs
            return check(self, arguments[0], output, file)
        kind = {"work": Work, "tolerance": Tolerance}.get(name, object)
        if not isinstance(output, kind):
            raise UserError(file, name, output, f"a {kind.__module__}.{kind.__name__}")
        return output

    return guarded


def try_out(operation: Operation, shape: Sizes, dtypes: Mapping[str, str], case: str) -> None:
    """Compute inputs, reference and tolerance once, so that a mistake is found before the run. Raises UserError."""
    job = Job(
        stage="check", case=case, kernel="", variant="", provider="nvrtc", operation=operation.name, source="",
        entry="", arguments=(*operation.operands, *operation.scalars), shape=shape, dtypes=dtypes, layouts={},
        seed=1, launch=LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1), limit_s=1.0, timing=BlockTiming(1.0, 1),
        clock_control="none", cache_control="none",
    )  # fmt: skip
    inputs = operation.inputs(job)
    judged = type(operation).reference is not Operation.reference
    for scalars in operation.runs(job) if judged else ():
        for name in operation.reference(job, inputs, *scalars):
            operation.tolerance(job, name, *scalars)
    operation.work(shape, dtypes)


def _inputs(operation: Operation, job: Job, arrays: Any, file: Path) -> Any:
    """Check that all operands with values before a launch have memory's dtype and size. Raises UserError."""
    wanted = {
        name: (str(storage(operation.dtype(job, name))), math.prod(operation.extents(job, name)))
        for name, operand in operation.arrays(job).items() if operand.given
    }  # fmt: skip
    by_name = arrays if isinstance(arrays, Mapping) else {}
    for name, (dtype, count) in wanted.items():
        array = by_name.get(name)
        has = (str(array.dtype), array.size) if isinstance(array, np.ndarray) else None
        if has != (dtype, count):
            raise UserError(file, f"inputs.{name}", has, f"an array of {count} {dtype}")
    return arrays


def _reference(operation: Operation, job: Job, outputs: Any, file: Path) -> dict[str, np.ndarray]:
    """Check that each output has its shape, or is None, which is not judged. Raises UserError."""
    by_name = outputs if isinstance(outputs, Mapping) else {"": outputs}
    outputs = {name: array for name, array in by_name.items() if array is not None}
    skipped = by_name.keys() - outputs.keys()
    names = [name for name in operation.outputs(job) if name not in skipped]
    wanted = {name: operation.extents(job, name) for name in names}
    shapes = {name: np.shape(array) for name, array in outputs.items()}
    if shapes != wanted:
        listed = ", ".join(f"{name} of shape {sizes}" for name, sizes in wanted.items())
        problem = f"reference returns arrays of shapes {shown(shapes)}"
        raise UserError.because(file, problem, f"Return each output by name: {listed}", "reference")
    return {name: np.asarray(array, np.float64) for name, array in outputs.items()}
