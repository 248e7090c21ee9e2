"""An operation of somebody's own: its mistakes are told with file, line and what may stand there."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.comparison import Tolerance
from tilewave.errors import UserError
from tilewave.jobs import Job, Timing
from tilewave.launches import LaunchPlan
from tilewave.operations.base import Operand, Operation

METHODS = ("reference", "tolerance", "inputs", "work", "runs", "given", "streamed", "output")


def checked(made: type[Operation], file: Path) -> None:
    """Look at what the class declares, and let its methods tell where they fail. Raises UserError."""
    sizes = made.dimensions
    if isinstance(sizes, str) or not sizes or not all(isinstance(one, str) for one in sizes):
        raise UserError(file, "dimensions", sizes, 'names of the sizes: ("rows", "columns")')
    if made.arrays is Operation.arrays:
        _check_operands(made.operands, sizes, file)
    if made.reference is Operation.reference:
        raise UserError(file, "reference", None, "a method: what each output must hold")
    for name in METHODS:
        method = getattr(made, name)
        if method is not getattr(Operation, name):
            setattr(made, name, _told(method, name, file))


def _check_operands(operands: Mapping[str, Operand], sizes: tuple[str, ...], file: Path) -> None:
    if not isinstance(operands, Mapping) or not any(
        getattr(one, "written", False) for one in operands.values()
    ):
        allowed = "name -> Operand(...), one of them with written=True"
        raise UserError(file, "operands", operands, allowed)
    for name, one in operands.items():
        if isinstance(one.extents, str):
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
        if name == "reference":
            return _reference(self, given[0], found, file)
        if name == "tolerance" and not isinstance(found, Tolerance):
            raise UserError(file, name, found, "a tilewave.comparison.Tolerance")
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
        seed=1, launch=LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1), limit_s=1.0, timing=Timing(1.0, 1),
        clock_control="none", cache_control="none",
    )  # fmt: skip
    given = operation.inputs(job)
    for scalars in operation.runs(job):
        for name in operation.reference(job, given, *scalars):
            operation.tolerance(job, name, *scalars)
    operation.work(shape, dtypes)


def _reference(operation: Operation, job: Job, found: Any, file: Path) -> dict[str, np.ndarray]:
    wanted = {name: operation.extents(job, name) for name in operation.outputs(job)}
    shapes = {name: np.shape(one) for name, one in dict(found or {}).items()}
    if shapes != wanted:
        told = ", ".join(f"{name} of shape {sizes}" for name, sizes in wanted.items())
        raise UserError(file, "reference", shapes, f"each output by its name: {told}")
    return {name: np.asarray(one, np.float64) for name, one in found.items()}
