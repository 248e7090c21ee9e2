"""A kernel's file, its headers and its machine code with the counters of one case, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from tilewave.compiling import origins, sass
from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel
from tilewave.plots.base import present


@dataclass(frozen=True)
class InstructionCounts:
    """Sums over instructions, named as the columns; None where no instruction has the counter."""

    executed: float | None = None
    wavefronts_shared: float | None = None
    wavefronts_shared_ideal: float | None = None
    wavefronts_shared_excess: float | None = None
    sectors_global: float | None = None
    sectors_global_ideal: float | None = None
    samples: float | None = None


@dataclass(frozen=True)
class AnnotatedLine:
    """A line of a file.

    counts: sums over the instructions of this line; called: sums over those of the header lines that it
    calls, in the kernel file only.
    """

    number: int
    text: str
    counts: InstructionCounts
    called: InstructionCounts


@dataclass(frozen=True)
class File:
    """A file with all its lines."""

    name: str
    lines: tuple[AnnotatedLine, ...]


@dataclass(frozen=True)
class Annotated:
    """A case's files: the kernel's first, then the headers of its instructions.

    unplaced: counts that belong to no line. Only memory, barrier and tensor instructions are counted; all
    are sampled.
    """

    case: str
    source: str
    environment: str
    files: tuple[File, ...]
    total: InstructionCounts
    unplaced: InstructionCounts


@dataclass(frozen=True)
class AnnotatedInstruction:
    """An instruction of the listing; its counts are None where it has no row."""

    address: int
    text: str
    origin: Origin
    counts: InstructionCounts


COUNTERS = [field.name for field in fields(InstructionCounts)]
SAMPLED = ["case", "function", "address", "samples", *(field.name for field in fields(Origin))]


def _sums(rows: pd.DataFrame, by: Sequence[str]) -> dict[Any, InstructionCounts]:
    """Sum the counters by the values of these columns."""
    numbers = rows.reindex(columns=COUNTERS).apply(pd.to_numeric).astype(float)
    sums = numbers.groupby([rows[name] for name in by]).sum(min_count=1)
    return {
        key: InstructionCounts(*(value if present(value) else None for value in values))
        for key, values in zip(sums.index, sums.to_numpy().tolist(), strict=True)
    }


def _counts(rows: pd.DataFrame) -> InstructionCounts:
    return _sums(rows.assign(all=0), ["all"]).get(0, InstructionCounts())


def rows_of(
    instructions: pd.DataFrame, case: str, stalls: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return a case's rows from a GPU, else from its execution, followed by its samples."""
    rows = instructions[instructions["case"] == case]
    counted = rows[rows["stage"] != result.EXECUTE]
    rows = counted if len(counted) else rows
    if stalls is None or not len(rows) or not (stalls["case"] == case).any():
        return rows
    sampled = stalls[stalls["case"] == case]
    return pd.concat([rows, sampled[[name for name in SAMPLED if name in sampled]]])


def _lines(name: str, text: str, rows: pd.DataFrame, kernel: bool) -> tuple[AnnotatedLine, ...]:
    in_file, elsewhere = rows[rows["file"] == name], rows[rows["file"] != name]
    by_line = _sums(in_file, ["line"])
    calls = _sums(elsewhere, ["kernel_line"]) if kernel else {}
    return tuple(
        AnnotatedLine(
            number,
            text,
            by_line.get(number, InstructionCounts()),
            calls.get(number, InstructionCounts()),
        )
        for number, text in enumerate(text.splitlines(), 1)
    )


def annotated(
    kernel: Kernel, instructions: pd.DataFrame, case: str, stalls: pd.DataFrame | None = None
) -> Annotated | None:
    """Return the files of a case with the counters of each line; None where nothing was counted.

    instructions, stalls: the run's tables, with the columns of `Origin`.
    """
    rows = rows_of(instructions, case, stalls)
    if not len(rows):
        return None
    texts = origins.by_last_name(origins.kernel_texts(kernel))
    used = {kernel.path.name, *rows["file"]}
    return Annotated(
        case,
        str(rows["source"].iloc[0]),
        str(rows["environment"].iloc[0]),
        tuple(
            File(name, _lines(name, text, rows, kernel=name == kernel.path.name))
            for name, text in texts.items()
            if name in used
        ),
        _counts(rows),
        _counts(rows[rows["line"] == 0]),
    )


def machine_code(
    kernel: Kernel, listing: str, function: str, rows: pd.DataFrame
) -> Sequence[AnnotatedInstruction]:
    """Return a function's instructions in order, each with its origin and its counts.

    listing: text from `sass.as_text`; rows: from `rows_of`.
    """
    if "function" in rows:  # only with several launches
        rows = rows[rows["function"].fillna(function) == function]
    texts = origins.kernel_texts(kernel)
    by_address: Mapping[int, Origin] = origins.of_listing(listing, function, texts)
    counted = _sums(rows, ["address"])
    return [
        AnnotatedInstruction(
            instruction.address,
            instruction.text,
            by_address.get(instruction.address, NOWHERE),
            counted.get(instruction.address, InstructionCounts()),
        )
        for instruction in sass.parse(listing)
        if instruction.function == function
    ]
