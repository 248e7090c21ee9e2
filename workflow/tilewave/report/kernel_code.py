"""What a kernel's page shows of its code: the variants as they were compiled, what changed against the
rung before, source and machine code with counters, and the lanes of its accesses to shared memory."""

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
"""Accesses of a case that are drawn, those with the most excess."""
SEEN = 0.005
"""Share of a case's samples from which on an instruction is listed, counted or not."""
OPCODES = 15
"""Opcodes whose numbers changed most against the rung before."""


@dataclass(frozen=True)
class VariantView:
    """A variant as it was compiled for one architecture."""

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
    """Source and machine code of a kernel against those of the rung before."""

    added: int
    removed: int
    lines: list[tuple[str, str]]
    opcodes: Table | None


@dataclass(frozen=True)
class SourceLine:
    """A line of a file; cells hold what was counted, as `Listing.columns` names it."""

    line: int
    text: str
    cells: list[str]
    hot: bool
    waits: bool


@dataclass(frozen=True)
class SourceFile:
    """A file's lines that are shown: all of the kernel's, of a header those that code came from, with
    their neighbours."""

    name: str
    columns: tuple[str, ...]
    lines: list[SourceLine]


@dataclass(frozen=True)
class SassLine:
    """An instruction with its counters and its place in the source."""

    address: str
    text: str
    place: str
    executed: str
    wavefronts: str
    excess: str
    samples: str
    hot: bool
    waits: bool


@dataclass(frozen=True)
class Listing:
    """Source and machine code of one case with what was counted; ``samples``: how many, empty where it
    was not sampled."""

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
    """An access to shared memory, drawn: where its instruction stands and what the drawing says."""

    name: str
    finding: str
    svg: markupsafe.Markup


@dataclass(frozen=True)
class LanesOf:
    """The accesses of a case."""

    case: str
    drawn: list[Drawn]


def _first(document: Mapping[str, Any], variant: str = "") -> Mapping[str, Any]:
    """What is known of the first compilation of a variant, or of the first variant; ``document``: by
    variant and architecture."""
    archs = document.get(variant, {}) if variant else next(iter(document.values()), {})
    return next(iter(archs.values()), {})


def _symbols(kernel: Kernel, entry: Mapping[str, Any]) -> dict[str, str]:
    """Names in the cubin of the kernels that a case launches, by their entries."""
    leading = {kernel.entry: entry.get("symbol", kernel.entry)}
    known: dict[str, str] = {**leading, **entry.get("symbols", {})}
    return {name: known.get(name, name) for name in kernel.entries}


def _listing(entry: Mapping[str, Any]) -> str:
    """nvdisasm's listing of a compilation whose code is shown, empty where there is none."""
    return _path(entry).read_text(encoding="utf-8") if _has_listing(entry) else ""


def _path(entry: Mapping[str, Any]) -> Path:
    return Path(entry.get("sass") or ".")


def _has_listing(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("shown")) and _path(entry).is_file()


# ------------------------------------------------------------------------------------------- variants


def _occupancy(
    limits: SmLimits | None, cases: pd.DataFrame, registers: object, shared: float | None
) -> str:
    """`25 % (registers)`: resident warps of those an SM has room for, and what limits them."""
    threads = pd.to_numeric(cases["block_threads"]).dropna()
    if limits is None or not len(threads) or not registers:
        return ""
    found = occupancy(limits, int(threads.max()), int(str(registers)), int(shared or 0))
    return f"{100 * found.fraction:.0f} % ({', '.join(found.limiters)})"


def _of_entry(cases: pd.DataFrame, entry: str) -> pd.DataFrame:
    """Geometry of a series' launches of one kernel, a row for each."""
    told = cases.get(LAUNCHES, pd.Series(dtype=str)).dropna()
    rows = [one for text in told for one in json.loads(text) if one["entry"] == entry]
    return pd.DataFrame(rows, columns=["block_threads", "shared_bytes"])


def _readable(listing: str) -> str:
    """The instructions of a listing, without the line tables' remarks between them."""
    lines = (" ".join((code or label).split()) for code, label in _INSTRUCTION.findall(listing))
    return "\n".join(lines) + "\n"


def write_listings(document: Mapping[str, Any], reports: Path) -> None:
    """One readable listing of each compilation whose code is shown, in the folder that the pages are in."""
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
    """What is known of a kernel's compiled variants (``document``: by variant and architecture); only
    kernels with a cubin have rows."""
    limits, rows = SmLimits.if_known(environment), []
    # Of several launches the one that leads comes first, with the variant's name alone.
    entries = sorted(kernel.entries, key=lambda one: one != kernel.entry)
    for name, compiled in document.items():
        every = cases[cases["variant"] == name]
        for (arch, entry), of in itertools.product(compiled.items(), entries):
            mine = _of_entry(every, of) if len(entries) > 1 else every
            used = entry.get("resources", {}).get(of, {})
            spilled = [used.get("spill_store_bytes"), used.get("spill_load_bytes")]
            macros = ", ".join(f"{key} {value}" for key, value in entry.get("macros", {}).items())
            sizes = pd.to_numeric(mine["shared_bytes"]).dropna()
            shared = float(sizes.max()) if len(sizes) else used.get("static_shared_bytes")
            rows.append(
                VariantView(
                    name=f"{name}: {of}" if len(entries) > 1 else name,
                    macros=macros,
                    arch=arch,
                    status=entry["status"],
                    reason=entry.get("reason", ""),
                    registers=cell(used.get("registers")),
                    shared=cell(shared),
                    spills=" / ".join(map(str, spilled)) if None not in spilled else "",
                    sha256=str(entry.get("sha256", "")),
                    occupancy=_occupancy(limits, mine, used.get("registers"), shared),
                    listing=f"../sass/{name}.{arch}.txt" if _has_listing(entry) else "",
                    target="" if entry.get("shown") else str(entry.get("sass", "")),
                )
            )
    return rows


# ------------------------------------------------------------------------------------------- changes


def _code(kernel: Kernel) -> list[str]:
    """The kernel file's lines without front matter."""
    return "\n".join(kernel.text.splitlines()[kernel.front_lines :]).strip("\n").splitlines()


def change(kernel: Kernel, before: Kernel, compiled: Mapping[str, Any]) -> Change | None:
    """What changed from one rung to the next: lines of source, and instructions by opcode of the first
    compiled variant of each."""
    if not {kernel.path.suffix, before.path.suffix} <= {".cu"}:
        return None
    lines = diffs.unified(_code(before), _code(kernel))
    old, new = (
        _listing(_first(compiled.get(one.name, {}).get("variants", {}))) for one in (before, kernel)
    )
    opcodes = None
    if old and new:
        named = {"before": before.name, "after": kernel.name, "more": "difference"}
        opcodes = table(diffs.opcodes(old, new).head(OPCODES).rename(columns=named))
    tallied = Counter(kind for kind, _ in lines)
    return Change(tallied["added"], tallied["removed"], lines, opcodes)


def work_of(cases: pd.DataFrame) -> pd.Series[float]:
    """Product of each row's sizes; 1 for what has none."""
    return cases["sizes"].map(lambda text: float(math.prod(json.loads(text).values())))


def largest_of(cases: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Of each variant the case with the largest shape among those named, in config order."""
    rows = cases[cases["case"].isin(set(names))]
    best = work_of(rows).groupby(rows["variant"], sort=False).idxmax()
    return [str(rows.loc[place, "case"]) for place in best]


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
    """A line's share of the samples (%), in brackets that of the headers that it calls."""
    own, called = (_share(one.samples, total) for one in (line.counts, line.called))
    shown = f"{100 * (own or called):.1f}"
    return "" if shown == "0.0" else shown if own else f"({shown})"


def _file(file: annotated.File, start: int, total: float | None) -> SourceFile:
    """A file as it is shown: lines before ``start`` (front matter) left out, of a header only those
    near lines with counters; total: samples of the case."""
    used = {line.number for line in file.lines if line.counts.executed or line.counts.samples}
    near = {at for one in used for at in range(one - 2, one + 3)} if not start else None
    has = [
        any(getattr(line.counts, key) or getattr(line.called, key) for line in file.lines)
        for _, key in _COLUMNS
    ]
    columns = [pair for pair, there in zip(_COLUMNS, has, strict=True) if there]

    def texts(line: annotated.AnnotatedLine) -> list[str]:
        called = line.called.executed and not line.counts.executed
        found = [_shown(getattr(line.called if called else line.counts, key)) for _, key in columns]
        cells = [f"({one})" if one and called else one for one in found]
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
    """Counted instructions, and those with a share of the ``total`` samples, with their neighbours; the
    others are told by their number."""
    own, last = kernel.path.name, len(code) - 1
    counted = [
        one.counts.executed is not None or _share(one.counts.samples, total) >= SEEN for one in code
    ]
    shown: list[SassLine] = []
    left = 0
    for at, one in enumerate(code):
        if not any(counted[max(0, at - 1) : at + 2]):
            left += 1
            if at < last:
                continue
        if left:
            text = f"… {plural(left, 'instruction')}"
            shown.append(SassLine("", text, "", "", "", "", "", False, False))
            left = 0
            if not counted[at] and at == last:
                continue
        file = "" if one.origin.file == own else f"{one.origin.file}:"
        share = _share(one.counts.samples, total)
        shown.append(
            SassLine(
                f"{one.address:04x}",
                one.text,
                f"{file}{one.origin.line}" if one.origin.line else "",
                _shown(one.counts.executed),
                _shown(one.counts.wavefronts_shared),
                _shown(one.counts.wavefronts_shared_excess),
                f"{100 * share:.1f}" if share >= 0.0005 else "",
                bool(one.counts.wavefronts_shared_excess),
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
    """The kernel's files and machine code with the counters of each line, of each profiled variant's
    largest case, and with its samples where it has any; machine code of the first. Numbers in brackets
    are of headers that the line calls.

    Front matter is left out; line numbers are the files' own. Empty where no instruction was profiled.
    """
    if not len(instructions) or kernel.provider != "nvrtc":
        return []
    own = instructions[instructions["case"].isin(set(cases["case"]))]
    made: list[Listing] = []
    for case in largest_of(cases, own["case"]):
        found = annotated.annotated(kernel, own, case, stalls)
        if found is None:
            continue
        total: InstructionCounts = found.total
        code: list[SassLine] = []
        if not made:
            entry = _first(document, case.partition("@")[0])
            rows, symbols = annotated.rows_of(own, case, stalls), _symbols(kernel, entry)
            for name, symbol in symbols.items():
                if len(symbols) > 1:
                    code.append(SassLine("", name, "", "", "", "", "", False, False))
                machine = annotated.machine_code(kernel, _listing(entry), symbol, rows)
                code += _sass(machine, kernel, total.samples)
        files = [
            _file(file, kernel.front_lines if file.name == kernel.path.name else 0, total.samples)
            for file in found.files
        ]
        made.append(
            Listing(
                case=case,
                device=device_name(environments.get(found.environment, {})),
                source=found.source,
                files=[file for file in files if file.lines],
                sass=code,
                wavefronts=_shown(total.wavefronts_shared),
                excess=number(total.wavefronts_shared_excess or 0.0),
                samples=_shown(total.samples),
                unplaced=_shown(found.unplaced.wavefronts_shared),
            )
        )
    return made


def profiles(project: Project, document: Mapping[str, Any], reports: Path) -> list[str]:
    """Copies of Nsight Compute's reports, inside the folder that the pages are in."""
    found = []
    for name in document.get("profiles", []):
        source = project.results / "ncu" / name
        if source.is_file():
            made = reports / "ncu" / os.path.basename(name)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, made)
            found.append(f"../ncu/{made.name}")
    return found


# -------------------------------------------------------------------------------------------- lanes


def lanes(
    kernel: Kernel, accesses: Mapping[str, Mapping[str, Any]], document: Mapping[str, Any]
) -> list[LanesOf]:
    """Drawings of a kernel's accesses to shared memory, the most excess first; of a probe all cases, of
    others the first variant's.

    accesses: of the run, by case; document: the kernel's compilations by variant and architecture.
    """
    told = {case: one for case, one in accesses.items() if one["kernel"] == kernel.name}
    probe = kernel.front.operation == "probe"
    texts = origins.kernel_texts(kernel)
    made = []
    for case, one in list(told.items())[: None if probe else 1]:
        entry = _first(document, one["variant"])
        leading = entry.get("symbol", kernel.entry)
        by_function: dict[str, list[Mapping[str, Any]]] = {}
        for row in one["accesses"]:
            by_function.setdefault(row.get("function") or leading, []).append(row)
        every: list[captured.Diagram] = []
        for symbol, rows in by_function.items():
            places: Mapping[int, Origin] = origins.of_listing(_listing(entry), symbol, texts)

            def place(address: int, places: Mapping[int, Origin] = places) -> tuple[str, int]:
                origin = places.get(address, origins.NOWHERE)
                return origin.file or kernel.path.name, origin.line

            every += captured.diagrams(rows, place)
        drawn: list[Drawn] = []
        for found in captured.worst_first(every):
            if one["instruction"] and not found.opcode.startswith(one["instruction"]):
                continue
            if len(drawn) == (1 if probe else DRAWN):
                break
            svg = markupsafe.Markup(found.svg(standalone=False))
            drawn.append(Drawn(found.name, finding(found.layout), svg))
        if drawn:
            made.append(LanesOf(case, drawn))
    return made
