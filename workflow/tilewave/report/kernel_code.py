"""A kernel's code on its page: compiled variants, changes against the rung before, counters, and lanes.

Counters stand beside lines of source and machine code; lanes are those of accesses to shared memory.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import markupsafe
import pandas as pd

from tilewave.compiling import origins
from tilewave.compiling.origins import Origin
from tilewave.execution.lanes import captured
from tilewave.execution.lanes.layout import finding
from tilewave.kernel.front_matter import Kernel
from tilewave.pipeline.project import Project
from tilewave.records.columns import LAUNCHES
from tilewave.report import annotated, diffs
from tilewave.report.annotated import InstructionCounts
from tilewave.report.cells import Table, cell, number, plural, table
from tilewave.report.kernel_samples import HOT
from tilewave.report.summary import device_name
from tilewave.theory.occupancy import SmLimits, occupancy

_INSTRUCTION = re.compile(r"^ +(/\*[0-9a-f]{4,}\*/.*)$|^(\.text\..*)$", re.M)
DRAWN = 6
"""The most accesses that are drawn of a case."""
SEEN = 0.005
"""The least share of a case's samples with which an instruction without counters is listed."""
OPCODES = 15
"""The most opcodes in the comparison with the rung before."""


@dataclass(frozen=True)
class VariantView:
    """A variant compiled for one architecture."""

    name: str
    macros: str
    arch: str
    status: str
    reason: str
    registers: str
    shared: str
    spills: str
    sha256: str
    occupancy: str
    listing: str
    target: str


@dataclass(frozen=True)
class Change:
    """Changes of a kernel's source and machine code against the rung before."""

    added: int
    removed: int
    lines: list[tuple[str, str]]
    opcodes: Table | None


@dataclass(frozen=True)
class SourceLine:
    """A line of a file; cells: its counters, as `SourceFile.columns` names them."""

    line: int
    text: str
    cells: list[str]
    hot: bool
    waits: bool


@dataclass(frozen=True)
class SourceFile:
    """The shown lines of a file: all of the kernel's; of a header those with counters and neighbours."""

    name: str
    columns: tuple[str, ...]
    lines: list[SourceLine]


@dataclass(frozen=True)
class SassLine:
    """An instruction with its counters and its source line."""

    address: str
    text: str
    location: str
    executed: str
    wavefronts: str
    excess: str
    samples: str
    hot: bool
    waits: bool


@dataclass(frozen=True)
class Listing:
    """Source and machine code of a case with counters; samples: their number, empty if not sampled."""

    case: str
    device: str
    source: str
    files: list[SourceFile]
    sass: list[SassLine]
    wavefronts: str
    excess: str
    samples: str
    unplaced: str


@dataclass(frozen=True)
class Drawn:
    """A drawn access to shared memory; name: its instruction's place; finding: the drawing's message."""

    name: str
    finding: str
    svg: markupsafe.Markup


@dataclass(frozen=True)
class LanesOf:
    """The drawn accesses of a case."""

    case: str
    drawn: list[Drawn]


def _first(document: Mapping[str, Any], variant: str = "") -> Mapping[str, Any]:
    """Return the first compilation of a variant, or of the first variant.

    document: compilations by variant and architecture.
    """
    archs = document.get(variant, {}) if variant else next(iter(document.values()), {})
    return next(iter(archs.values()), {})


def _symbols(kernel: Kernel, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the cubin's names of the launched kernels by entry."""
    leading = {kernel.entry: entry.get("symbol", kernel.entry)}
    symbols: dict[str, str] = {**leading, **entry.get("symbols", {})}
    return {name: symbols.get(name, name) for name in kernel.entries}


def _listing(entry: Mapping[str, Any]) -> str:
    """Return nvdisasm's listing of a compilation whose code is shown, else an empty text."""
    return _path(entry).read_text(encoding="utf-8") if _has_listing(entry) else ""


def _path(entry: Mapping[str, Any]) -> Path:
    return Path(entry.get("sass") or ".")


def _has_listing(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("shown")) and _path(entry).is_file()


# ------------------------------------------------------------------------------------------- variants


def _occupancy(
    limits: SmLimits | None, cases: pd.DataFrame, registers: object, shared: float | None
) -> str:
    """Return the occupancy and its limiters: `25 % (registers)`."""
    threads = pd.to_numeric(cases["block_threads"]).dropna()
    if limits is None or not len(threads) or not registers:
        return ""
    resident = occupancy(limits, int(threads.max()), int(str(registers)), int(shared or 0))
    return f"{100 * resident.fraction:.0f} % ({', '.join(resident.limiters)})"


def _of_entry(cases: pd.DataFrame, entry: str) -> pd.DataFrame:
    """Return a row with the geometry of each launch of one kernel of a series."""
    series = cases.get(LAUNCHES, pd.Series(dtype=str)).dropna()
    rows = [launch for text in series for launch in json.loads(text) if launch["entry"] == entry]
    return pd.DataFrame(rows, columns=["block_threads", "shared_bytes"])


def _readable(listing: str) -> str:
    """Return a listing's instructions without the comments of line tables."""
    lines = (" ".join((code or label).split()) for code, label in _INSTRUCTION.findall(listing))
    return "\n".join(lines) + "\n"


def write_listings(document: Mapping[str, Any], reports: Path) -> None:
    """Write a readable listing of each compilation whose code is shown beside the pages."""
    for name, compiled in document.items():
        for arch, entry in compiled.items():
            if text := _listing(entry):
                (reports / "sass" / f"{name}.{arch}.txt").write_text(_readable(text), "utf-8")


def variants(
    kernel: Kernel,
    document: Mapping[str, Any],
    cases: pd.DataFrame,
    environment: Mapping[str, Any],
) -> list[VariantView]:
    """Return the rows of a kernel's compiled variants (``document``: by variant and architecture)."""
    limits, rows = SmLimits.if_known(environment), []
    # The leading launch comes first.
    entries = sorted(kernel.entries, key=lambda entry: entry != kernel.entry)
    for name, compiled in document.items():
        variant_cases = cases[cases["variant"] == name]
        for (arch, entry), launched in itertools.product(compiled.items(), entries):
            launches = _of_entry(variant_cases, launched) if len(entries) > 1 else variant_cases
            used = entry.get("resources", {}).get(launched, {})
            spilled = [used.get("spill_store_bytes"), used.get("spill_load_bytes")]
            macros = ", ".join(f"{key} {value}" for key, value in entry.get("macros", {}).items())
            sizes = pd.to_numeric(launches["shared_bytes"]).dropna()
            shared = float(sizes.max()) if len(sizes) else used.get("static_shared_bytes")
            rows.append(
                VariantView(
                    name=f"{name}: {launched}" if len(entries) > 1 else name,
                    macros=macros,
                    arch=arch,
                    status=entry["status"],
                    reason=entry.get("reason", ""),
                    registers=cell(used.get("registers")),
                    shared=cell(shared),
                    spills=" / ".join(map(str, spilled)) if None not in spilled else "",
                    sha256=str(entry.get("sha256", "")),
                    occupancy=_occupancy(limits, launches, used.get("registers"), shared),
                    listing=f"../sass/{name}.{arch}.txt" if _has_listing(entry) else "",
                    target="" if entry.get("shown") else str(entry.get("sass", "")),
                )
            )
    return rows


# ------------------------------------------------------------------------------------------- changes


def _code(kernel: Kernel) -> list[str]:
    """Return the kernel file's lines without front matter."""
    return "\n".join(kernel.text.splitlines()[kernel.front_lines :]).strip("\n").splitlines()


def change(kernel: Kernel, before: Kernel, compiled: Mapping[str, Any]) -> Change | None:
    """Return what changed between two rungs: source lines, and opcodes of their first variants."""
    if not {kernel.path.suffix, before.path.suffix} <= {".cu"}:
        return None
    lines = diffs.unified(_code(before), _code(kernel))
    old, new = (
        _listing(_first(compiled.get(name, {}).get("variants", {})))
        for name in (before.name, kernel.name)
    )
    opcodes = None
    if old and new:
        named = {"before": before.name, "after": kernel.name, "more": "difference"}
        opcodes = table(diffs.opcodes(old, new).head(OPCODES).rename(columns=named))
    tallied = Counter(kind for kind, _ in lines)
    return Change(tallied["added"], tallied["removed"], lines, opcodes)


def work_of(cases: pd.DataFrame) -> pd.Series[float]:
    """Return the product of each case's sizes; 1 without sizes."""
    return cases["sizes"].map(lambda text: float(math.prod(json.loads(text).values())))


def largest_of(cases: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Return each variant's case with the largest shape among the named ones, in config order."""
    rows = cases[cases["case"].isin(set(names))]
    best = work_of(rows).groupby(rows["variant"], sort=False).idxmax()
    return [str(rows.loc[row, "case"]) for row in best]


# ----------------------------------------------------------------------------------- source, counters


_COLUMNS = (
    ("executed", "executed"),
    ("wavefronts", "wavefronts_shared"),
    ("excess", "wavefronts_shared_excess"),
    ("sectors", "sectors_global"),
)


def _shown(value: float | None) -> str:
    return number(value) if value else ""


def _share(samples: float | None, total: float | None) -> float:
    return samples / total if samples and total else 0.0


def _sampled(line: annotated.AnnotatedLine, total: float) -> str:
    """Return a line's share of the samples (%); in brackets that of called header lines."""
    share, called = (_share(counts.samples, total) for counts in (line.counts, line.called))
    shown = f"{100 * (share or called):.1f}"
    return "" if shown == "0.0" else shown if share else f"({shown})"


def _file(file: annotated.File, start: int, total: float | None) -> SourceFile:
    """Return the shown lines of a file, with their cells.

    start: number of lines of front matter, which are hidden; 0 for a header, of which only lines near
    counters are shown. total: samples of the case.
    """
    used = {line.number for line in file.lines if line.counts.executed or line.counts.samples}
    near = {at for number in used for at in range(number - 2, number + 3)} if not start else None
    has = [
        any(getattr(line.counts, key) or getattr(line.called, key) for line in file.lines)
        for _, key in _COLUMNS
    ]
    columns = [pair for pair, there in zip(_COLUMNS, has, strict=True) if there]

    def texts(line: annotated.AnnotatedLine) -> list[str]:
        called = line.called.executed and not line.counts.executed
        counts = line.called if called else line.counts
        counted = [_shown(getattr(counts, key)) for _, key in columns]
        cells = [f"({text})" if text and called else text for text in counted]
        return [*cells, _sampled(line, total)] if total else cells

    lines = [
        SourceLine(
            line.number,
            line.text,
            texts(line),
            bool(line.counts.wavefronts_shared_excess),
            _share(line.counts.samples, total) >= HOT,
        )
        for line in file.lines
        if line.number > start and (near is None or line.number in near)
    ]
    while lines and not lines[0].text.strip():
        lines.pop(0)
    names = [name for name, _ in columns] + ["samples (%)"] * bool(total)
    return SourceFile(file.name, tuple(names), lines)


def _sass(
    code: Sequence[annotated.AnnotatedInstruction], kernel: Kernel, total: float | None
) -> list[SassLine]:
    """Return instructions with counters or samples, and their neighbours; gaps show only their length."""
    kernel_file, last = kernel.path.name, len(code) - 1
    counted = [
        instruction.counts.executed is not None or _share(instruction.counts.samples, total) >= SEEN
        for instruction in code
    ]
    shown: list[SassLine] = []
    skipped = 0
    for at, instruction in enumerate(code):
        if not any(counted[max(0, at - 1) : at + 2]):
            skipped += 1
            if at < last:
                continue
        if skipped:
            text = f"… {plural(skipped, 'instruction')}"
            shown.append(SassLine("", text, "", "", "", "", "", False, False))
            skipped = 0
            if not counted[at] and at == last:
                continue
        file = "" if instruction.origin.file == kernel_file else f"{instruction.origin.file}:"
        share = _share(instruction.counts.samples, total)
        shown.append(
            SassLine(
                f"{instruction.address:04x}",
                instruction.text,
                f"{file}{instruction.origin.line}" if instruction.origin.line else "",
                _shown(instruction.counts.executed),
                _shown(instruction.counts.wavefronts_shared),
                _shown(instruction.counts.wavefronts_shared_excess),
                f"{100 * share:.1f}" if share >= 0.0005 else "",
                bool(instruction.counts.wavefronts_shared_excess),
                share >= HOT,
            )
        )
    return shown


def listings(
    kernel: Kernel,
    cases: pd.DataFrame,
    instructions: pd.DataFrame,
    stalls: pd.DataFrame | None,
    environments: Mapping[str, Mapping[str, Any]],
    document: Mapping[str, Any],
) -> list[Listing]:
    """Return source and machine code with counters and samples, of each profiled variant's largest case.

    Only the first case has machine code. Numbers in brackets are those of called header lines. Empty where
    no instruction was profiled.
    """
    if not len(instructions) or kernel.provider != "nvrtc":
        return []
    counted = instructions[instructions["case"].isin(set(cases["case"]))]
    shown: list[Listing] = []
    for case in largest_of(cases, counted["case"]):
        annotations = annotated.annotated(kernel, counted, case, stalls)
        if annotations is None:
            continue
        total: InstructionCounts = annotations.total
        code: list[SassLine] = []
        if not shown:
            entry = _first(document, case.partition("@")[0])
            rows, symbols = annotated.rows_of(counted, case, stalls), _symbols(kernel, entry)
            for name, symbol in symbols.items():
                if len(symbols) > 1:
                    code.append(SassLine("", name, "", "", "", "", "", False, False))
                machine = annotated.machine_code(kernel, _listing(entry), symbol, rows)
                code += _sass(machine, kernel, total.samples)
        files = [
            _file(file, kernel.front_lines if file.name == kernel.path.name else 0, total.samples)
            for file in annotations.files
        ]
        shown.append(
            Listing(
                case=case,
                device=device_name(environments.get(annotations.environment, {})),
                source=annotations.source,
                files=[file for file in files if file.lines],
                sass=code,
                wavefronts=_shown(total.wavefronts_shared),
                excess=number(total.wavefronts_shared_excess or 0.0),
                samples=_shown(total.samples),
                unplaced=_shown(annotations.unplaced.wavefronts_shared),
            )
        )
    return shown


def profiles(project: Project, document: Mapping[str, Any], reports: Path) -> list[str]:
    """Copy Nsight Compute's reports beside the pages, and return their addresses."""
    addresses = []
    for name in document.get("profiles", []):
        source = project.results / "ncu" / name
        if source.is_file():
            copy = reports / "ncu" / os.path.basename(name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            addresses.append(f"../ncu/{copy.name}")
    return addresses


# -------------------------------------------------------------------------------------------- lanes


def lanes(
    kernel: Kernel, accesses: Mapping[str, Mapping[str, Any]], document: Mapping[str, Any]
) -> list[LanesOf]:
    """Return drawings of a kernel's accesses to shared memory, the most excess first.

    A probe has drawings of all cases, another kernel of its first variant. accesses: the run's, by case;
    document: the kernel's compilations by variant and architecture.
    """
    cases = [case for case, entry in accesses.items() if entry["kernel"] == kernel.name]
    probe = kernel.front.operation == "probe"
    texts = origins.kernel_texts(kernel)
    drawings = []
    for case in cases if probe else cases[:1]:
        case_accesses = accesses[case]
        entry = _first(document, case_accesses["variant"])
        leading = entry.get("symbol", kernel.entry)
        by_function: dict[str, list[Mapping[str, Any]]] = {}
        for row in case_accesses["accesses"]:
            by_function.setdefault(row.get("function") or leading, []).append(row)
        diagrams: list[captured.Diagram] = []
        for symbol, rows in by_function.items():
            lines: Mapping[int, Origin] = origins.of_listing(_listing(entry), symbol, texts)

            def location(address: int, lines: Mapping[int, Origin] = lines) -> tuple[str, int]:
                origin = lines.get(address, origins.NOWHERE)
                return origin.file or kernel.path.name, origin.line

            diagrams += captured.diagrams(rows, location)
        drawn: list[Drawn] = []
        for diagram in captured.worst_first(diagrams):
            if not diagram.opcode.startswith(case_accesses["instruction"] or ""):
                continue
            if len(drawn) == (1 if probe else DRAWN):
                break
            svg = markupsafe.Markup(diagram.svg(standalone=False))
            drawn.append(Drawn(diagram.name, finding(diagram.layout), svg))
        if drawn:
            drawings.append(LanesOf(case, drawn))
    return drawings
