"""A kernel's page: its idea, its speed beside the rungs next to it, what the studies say of it, its
variants, what changed against the rung before, and its source and machine code with counters."""

from __future__ import annotations

import difflib
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

from tilewave import advice
from tilewave.advice import Subject, of_tables
from tilewave.compiling import origins
from tilewave.compiling.origins import Origin
from tilewave.kernels import FENCES, Kernel, idea
from tilewave.lanes import captured
from tilewave.plots.base import BASELINE, shape_label
from tilewave.project import Project
from tilewave.records import model
from tilewave.report import annotated
from tilewave.report.annotated import Counts
from tilewave.report.cells import Table, cell, number, plural, table
from tilewave.report.studies import StudyView
from tilewave.report.summary import device_name, verdict_counts
from tilewave.theory.occupancy import SmLimits, occupancy

SHARE, SPEED = "paired_share", "tflops"
SHOWN_ROWS = 12
"""Rows of a study's table on a kernel's page; the study's page and the CSV have the others."""
_INSTRUCTION = re.compile(r"^ +(/\*[0-9a-f]{4,}\*/.*)$|^(\.text\..*)$", re.M)
_OPCODE = re.compile(r"^ +/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z0-9_]+)", re.M)
DRAWN = 6
"""Accesses of a case that are drawn, those with the most excess."""
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


@dataclass(frozen=True)
class Row:
    """A kernel in the index's table."""

    name: str
    title: str
    operation: str
    dtypes: str
    cases: str
    verdict: str
    bad: bool
    share: str
    at: str
    registers: str
    excess: str


@dataclass(frozen=True)
class InStudy:
    """What a study's table says of a kernel."""

    name: str
    title: str
    question: str
    takeaway: str
    table: Table | None


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
    hot: bool


@dataclass(frozen=True)
class Listing:
    """Source and machine code of one case with what was counted."""

    case: str
    device: str
    source: str
    files: list[SourceFile]
    sass: list[SassLine]
    wavefronts: str
    excess: str
    unplaced: str


@dataclass(frozen=True)
class Advised:
    """A finding of a rule: what, how much, where, and what mending it can save at most."""

    rule: str
    sentence: str
    where: str
    text: str
    case: str
    bound: str


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


@dataclass(frozen=True)
class KernelView:
    """One kernel: all that its page says."""

    name: str
    file: str
    title: str
    follows: str
    next: list[str]
    operation: str
    provider: str
    idea: list[str]
    cases: str
    verdicts: list[tuple[str, int]]
    row: Row
    speed: Table | None
    studies: list[InStudy]
    variants: list[VariantView]
    change: Change | None
    profiles: list[str]
    listings: list[Listing]
    lanes: list[LanesOf]
    advised: bool
    advice: list[Advised]


# ------------------------------------------------------------------------------------------- variants


def _limits(environment: Mapping[str, Any]) -> SmLimits | None:
    try:
        return SmLimits.from_environment(environment)
    except (KeyError, TypeError):
        return None


def _occupancy(
    limits: SmLimits | None, cases: pd.DataFrame, registers: object, shared: float | None
) -> str:
    """`25 % (registers)`: resident warps of those an SM has room for, and what limits them."""
    threads = pd.to_numeric(cases["block_threads"]).dropna()
    if limits is None or not len(threads) or not registers:
        return ""
    found = occupancy(limits, int(threads.max()), int(str(registers)), int(shared or 0))
    return f"{100 * found.fraction:.0f} % ({', '.join(found.limiters)})"


def _readable(source: Path, made: Path) -> str:
    """Write the instructions of a listing, without the line tables' remarks between them; its name."""
    text = source.read_text(encoding="utf-8")
    made.write_text(
        "\n".join(code or label for code, label in _INSTRUCTION.findall(text)) + "\n",
        encoding="utf-8",
    )
    return made.name


def variants(
    kernel: Kernel,
    document: Mapping[str, Any],
    cases: pd.DataFrame,
    environment: Mapping[str, Any],
    reports: Path,
) -> list[VariantView]:
    """What is known of a kernel's compiled variants (``document``: by variant and architecture); only
    kernels with a cubin have rows."""
    limits, rows = _limits(environment), []
    for name, compiled in document.items():
        mine = cases[cases["variant"] == name]
        for arch, entry in compiled.items():
            used = entry.get("resources", {}).get(kernel.entry, {})
            spilled = [used.get("spill_store_bytes"), used.get("spill_load_bytes")]
            macros = ", ".join(f"{key} {value}" for key, value in entry.get("macros", {}).items())
            sizes = pd.to_numeric(mine["shared_bytes"]).dropna()
            shared = float(sizes.max()) if len(sizes) else used.get("static_shared_bytes")
            source, listing = Path(entry.get("sass") or "."), ""
            if source.is_file():
                # One listing for all that link it, in the folder that the pages are in.
                made = reports / "sass" / f"{name}.{arch}.txt"
                listing = f"../sass/{_readable(source, made)}"
            rows.append(
                VariantView(
                    name=name,
                    macros=macros,
                    arch=arch,
                    status=entry["status"],
                    reason=entry.get("reason", ""),
                    registers=cell(used.get("registers")),
                    shared=cell(shared),
                    spills=" / ".join(map(str, spilled)) if None not in spilled else "",
                    sha256=str(entry.get("sha256", "")),
                    occupancy=_occupancy(limits, mine, used.get("registers"), shared),
                    listing=listing,
                )
            )
    return rows


# --------------------------------------------------------------------------------------------- speed


def _values(records: pd.DataFrame, metric: str) -> dict[str, float]:
    """Value by case, of the cases that are correct."""
    rows = records[(records["metric"] == metric) & (records["verdict"] == model.CORRECT)]
    rows = rows[rows["value"].notna()]
    return dict(zip(rows["case"].astype(str), rows["value"].astype(float)))


def speed(
    names: Sequence[str],
    cases: pd.DataFrame,
    shares: Mapping[str, float],
    rates: Mapping[str, float],
    most: int = 8,
) -> Table | None:
    """One row a variant that was timed, of these kernels in order; a column a shape, from little work
    to much: share of cuBLAS and TFLOP/s. The shapes are those that most of the first kernel's variants
    were timed at."""
    timed = cases[cases["kernel"].isin(names) & cases["case"].isin(rates.keys())]
    timed = timed[timed["kernel"] != BASELINE]
    if not len(timed):
        return None
    timed = timed.assign(
        shape=[shape_label(row) for row in timed.to_dict("records")],
        work=timed[["m", "n", "k"]].astype(float).prod(axis=1),
        text=[
            "\u00a0· ".join(
                part
                for part in (
                    f"{shares[case]:.1f}\u00a0%" if case in shares else "",
                    cell(rates[case]),
                )
                if part
            )
            for case in timed["case"]
        ],
    )
    counted = timed.groupby("shape", sort=False).agg(
        n=("variant", "nunique"), work=("work", "first")
    )
    wanted = counted.nlargest(most, ["n", "work"]).sort_values("work").index
    found = timed[timed["shape"].isin(wanted)].pivot_table(
        index=["kernel", "dtype", "variant"],
        columns="shape",
        values="text",
        aggfunc="first",
        sort=False,
    )
    place = {name: at for at, name in enumerate(names)}
    found = found.reindex(columns=wanted).reset_index()
    found = found.sort_values("kernel", key=lambda column: column.map(place), kind="stable")
    return table(found.fillna("").rename_axis(columns=None).drop(columns="kernel"))


# ------------------------------------------------------------------------------------------- changes


def _code(kernel: Kernel) -> list[str]:
    """The kernel file's lines without front matter."""
    _, closing, _ = FENCES[kernel.path.suffix]
    return kernel.text.partition(closing)[2].strip("\n").splitlines()


def _opcodes(entry: Mapping[str, Any] | None) -> Counter[str]:
    path = Path((entry or {}).get("sass") or ".")
    if not path.is_file():
        return Counter()
    return Counter(_OPCODE.findall(path.read_text(encoding="utf-8")))


def change(kernel: Kernel, before: Kernel, compiled: Mapping[str, Any]) -> Change | None:
    """What changed from one rung to the next: lines of source, and instructions by opcode of the first
    compiled variant of each."""
    if not {kernel.path.suffix, before.path.suffix} <= {".cu"}:
        return None
    diff = list(difflib.unified_diff(_code(before), _code(kernel), lineterm="", n=2))[2:]
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = [(kinds.get(text[:1], "same"), text) for text in diff]

    def first(one: Kernel) -> Mapping[str, Any] | None:
        found = compiled.get(one.name, {}).get("variants", {})
        return next((next(iter(archs.values()), None) for archs in found.values()), None)

    old, new = _opcodes(first(before)), _opcodes(first(kernel))
    counts = pd.DataFrame({"opcode": sorted({*old, *new})})
    opcodes = None
    if old and new:
        counts[before.name] = counts["opcode"].map(lambda name: old[name])
        counts[kernel.name] = counts["opcode"].map(lambda name: new[name])
        counts["difference"] = counts[kernel.name] - counts[before.name]
        moved = counts["difference"].abs().sort_values(ascending=False, kind="stable")
        counts = counts.loc[moved.index[:OPCODES]]
        opcodes = table(counts[counts["difference"] != 0])
    tallied = Counter(kind for kind, _ in lines)
    return Change(tallied["added"], tallied["removed"], lines, opcodes)


# ----------------------------------------------------------------------------------- source, counters


def _largest(cases: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Of each variant the case with the largest shape among those named, in config order."""
    rows = cases[cases["case"].isin(set(names))]
    best = _work(rows).groupby(rows["variant"], sort=False).idxmax()
    return [str(rows.loc[place, "case"]) for place in best]


_COLUMNS = (
    ("executed", "executed"),
    ("wavefronts", "wavefronts_shared"),
    ("excess", "wavefronts_shared_excess"),
    ("sectors", "sectors_global"),
)


def _shown(value: float | None) -> str:
    return number(value) if value else ""


def _entry(document: Mapping[str, Any], variant: str) -> Mapping[str, Any]:
    """What is known of a variant's first compilation; ``document``: by variant and architecture."""
    found: Mapping[str, Any] = next(iter(document.get(variant, {}).values()), {}) or {}
    return found


def _file(file: annotated.File, start: int) -> SourceFile:
    """A file as it is shown: lines before ``start`` (front matter) left out, of a header only those
    near lines with counters."""
    used = {line.number for line in file.lines if line.counts.executed}
    near = {at for one in used for at in range(one - 2, one + 3)} if not start else None
    has = [
        any(getattr(line.counts, key) or getattr(line.called, key) for line in file.lines)
        for _, key in _COLUMNS
    ]
    columns = [pair for pair, there in zip(_COLUMNS, has, strict=True) if there]

    def texts(line: annotated.Line) -> list[str]:
        called = line.called.executed and not line.counts.executed
        found = [_shown(getattr(line.called if called else line.counts, key)) for _, key in columns]
        return [f"({one})" if one and called else one for one in found]

    lines = [
        SourceLine(line.number, line.text, texts(line), bool(line.counts.wavefronts_shared_excess))
        for line in file.lines
        if line.number > start and (near is None or line.number in near)
    ]
    while lines and not lines[0].text.strip():
        lines.pop(0)
    return SourceFile(file.name, tuple(name for name, _ in columns), lines)


def _sass(code: Sequence[annotated.Code], kernel: Kernel) -> list[SassLine]:
    """Counted instructions with their neighbours; the others are told by their number."""
    own, last = kernel.path.name, len(code) - 1
    counted = [one.counts.executed is not None for one in code]
    shown: list[SassLine] = []
    left = 0
    for at, one in enumerate(code):
        if not any(counted[max(0, at - 1) : at + 2]):
            left += 1
            if at < last:
                continue
        if left:
            shown.append(SassLine("", f"… {plural(left, 'instruction')}", "", "", "", "", False))
            left = 0
            if not counted[at] and at == last:
                continue
        file = "" if one.origin.file == own else f"{one.origin.file}:"
        shown.append(
            SassLine(
                f"{one.address:04x}",
                one.text,
                f"{file}{one.origin.line}" if one.origin.line else "",
                _shown(one.counts.executed),
                _shown(one.counts.wavefronts_shared),
                _shown(one.counts.wavefronts_shared_excess),
                bool(one.counts.wavefronts_shared_excess),
            )
        )
    return shown


def listings(
    kernel: Kernel,
    cases: pd.DataFrame,
    instructions: pd.DataFrame,
    environments: Mapping[str, Mapping[str, Any]],
    document: Mapping[str, Any],
) -> list[Listing]:
    """The kernel's files and machine code with the counters of each line, of each profiled variant's
    largest case; machine code of the first. Numbers in brackets are of headers that the line calls.

    Front matter is left out; line numbers are the files' own. Empty where no instruction was profiled.
    """
    if not len(instructions) or kernel.provider != "nvrtc":
        return []
    own = instructions[instructions["case"].isin(set(cases["case"]))]
    _, closing, _ = FENCES[kernel.path.suffix]
    texts = kernel.text.splitlines()
    start = next((at for at, text in enumerate(texts, 1) if closing in text), 0)
    made: list[Listing] = []
    for case in _largest(cases, own["case"]):
        found = annotated.annotated(kernel, own, case)
        if found is None:
            continue
        code: list[SassLine] = []
        entry = _entry(document, case.partition("@")[0])
        listing = Path(entry.get("sass") or ".")
        if not made and listing.is_file():
            text, rows = listing.read_text(encoding="utf-8"), annotated.rows_of(own, case)
            symbol = entry.get("symbol", kernel.entry)
            code = _sass(annotated.machine_code(kernel, text, symbol, rows), kernel)
        files = [_file(file, start if file.name == kernel.path.name else 0) for file in found.files]
        total: Counts = found.total
        made.append(
            Listing(
                case=case,
                device=device_name(environments.get(found.environment, {})),
                source=found.source,
                files=[file for file in files if file.lines],
                sass=code,
                wavefronts=_shown(total.wavefronts_shared),
                excess=number(total.wavefronts_shared_excess or 0.0),
                unplaced=_shown(found.unplaced.wavefronts_shared),
            )
        )
    return made


# ---------------------------------------------------------------------------------------- all of it


def _row(
    kernel: Kernel,
    cases: pd.DataFrame,
    shares: Mapping[str, float],
    variants: Sequence[VariantView],
    excess: str,
) -> Row:
    counts = [(word, count) for word, count in verdict_counts(cases) if count]
    bad = [f"{number(count)} {word}" for word, count in counts if word not in
           (model.CORRECT, model.NOT_CHECKED)]  # fmt: skip
    right = sum(count for word, count in counts if word == model.CORRECT)
    timed = cases[cases["case"].isin(shares.keys())]
    work = _work(timed)
    # At its largest size, where a launch's own time no longer shows.
    largest = timed[work == work.max()].to_dict("records")
    best = max(largest, key=lambda row: shares[row["case"]], default=None)
    registers = [int(one.registers) for one in variants if one.registers]
    low, high = (min(registers), max(registers)) if registers else (0, 0)
    dtypes = dict.fromkeys(str(one) for one in cases["dtype"] if one and one == one)
    return Row(
        name=kernel.name,
        title=kernel.front.title,
        operation=kernel.front.operation,
        dtypes=", ".join(dtypes),
        cases=number(len(cases)),
        verdict=", ".join(bad) or (f"{number(right)} correct" if right else "not checked"),
        bad=bool(bad),
        share=f"{shares[best['case']]:.1f}" if best else "",
        at=f"{shape_label(best)} {best['dtype']}" if best else "",
        registers="" if not registers else str(low) if low == high else f"{low}–{high}",
        excess=excess,
    )


def _excess(rows: pd.DataFrame) -> str:
    """Excess wavefronts over the ideal ones in %, of a case's instructions."""
    ideal = pd.to_numeric(rows["wavefronts_shared_ideal"]).sum()
    excess = pd.to_numeric(rows["wavefronts_shared_excess"]).sum()
    return f"{100 * excess / ideal:.1f}" if ideal else ""


def _in_studies(name: str, shown: Sequence[StudyView]) -> list[InStudy]:
    found = []
    for study in shown:
        if name not in study.kernels:
            continue
        data, mine = study.data, None
        if data is not None and "kernel" in data:
            rows = data[data["kernel"] == name].dropna(axis=1, how="all")
            mine = table(rows.head(SHOWN_ROWS)) if len(rows) else None
        found.append(InStudy(study.name, study.title, study.question, study.takeaway, mine))
    return found


def _profiles(project: Project, document: Mapping[str, Any], reports: Path) -> list[str]:
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


def _lanes(run: Run, kernel: Kernel) -> list[LanesOf]:
    """Drawings of a kernel's accesses to shared memory, the most excess first; of a probe all cases, of
    others the first variant's."""
    told = {case: one for case, one in run.accesses.items() if one["kernel"] == kernel.name}
    probe = kernel.front.operation == "probe"
    made = []
    for case, one in list(told.items())[: None if probe else 1]:
        entry = _entry(run.compiled.get(kernel.name, {}).get("variants", {}), one["variant"])
        listing = Path(entry.get("sass") or ".")
        places: Mapping[int, Origin] = {}
        if listing.is_file():
            texts = origins.own_texts(kernel.text, kernel.path, kernel.folders)
            symbol = entry.get("symbol", kernel.entry)
            places = origins.of_listing(listing.read_text(encoding="utf-8"), symbol, texts)

        def place(address: int, places: Mapping[int, Origin] = places) -> tuple[str, int]:
            origin = places.get(address, origins.NOWHERE)
            return origin.file or kernel.path.name, origin.line

        drawn: list[Drawn] = []
        for found in captured.diagrams(one["accesses"], place):
            if one["instruction"] and not found.opcode.startswith(one["instruction"]):
                continue
            if len(drawn) == (1 if probe else DRAWN):
                break
            name = f"{found.file}:{found.line} {found.opcode}"
            drawn.append(Drawn(name, found.finding, markupsafe.Markup(found.svg)))
        if drawn:
            made.append(LanesOf(case, drawn))
    return made


@dataclass(frozen=True)
class Run:
    """What the pages of all kernels are made from: the run's tables, the document of variants and
    profiles by kernel, the studies, and what was timed, by case."""

    project: Project
    cases: pd.DataFrame
    instructions: Mapping[str, pd.DataFrame]
    environments: Mapping[str, Mapping[str, Any]]
    compiled: Mapping[str, Any]
    studies: Sequence[StudyView]
    reports: Path
    shares: Mapping[str, float]
    rates: Mapping[str, float]
    subjects: Mapping[str, Subject]
    accesses: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(
        cls,
        project: Project,
        target: Mapping[str, Any],
        frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
        environments: Mapping[str, Mapping[str, Any]],
        compiled: Mapping[str, Any],
        studies: Sequence[StudyView],
        accesses: Mapping[str, Mapping[str, Any]],
        reports: Path,
    ) -> Run:
        """frames: cases, records and instructions."""
        cases, records, instructions = frames
        kernel_of = dict(zip(cases["case"], cases["kernel"]))
        owners = instructions["case"].map(kernel_of) if len(instructions) else []
        telling = cases[cases["case"].isin(_telling(cases, records, instructions))]
        return cls(
            project, cases, dict(iter(instructions.groupby(owners))) if len(owners) else {},
            environments, compiled, studies, reports,
            _values(records, SHARE), _values(records, SPEED),
            of_tables.subjects(target, telling, records, instructions, compiled), accesses,
        )  # fmt: skip


def _work(cases: pd.DataFrame) -> pd.Series[float]:
    """m x n x k of each row; 1 for what has no sizes."""
    sizes = cases[["m", "n", "k"]].apply(pd.to_numeric, errors="coerce")
    return sizes.fillna(1.0).prod(axis=1)


def _telling(cases: pd.DataFrame, records: pd.DataFrame, instructions: pd.DataFrame) -> set[str]:
    """Of each kernel the case with the most work whose counters are known, and the one of its first
    variant whose instructions were counted: not every case has all counters."""
    rows = records[(records["stage"] == "counters") & (records["status"] == model.OK)]
    known = cases[cases["case"].isin(set(rows["case"]))]
    work = _work(known)
    chosen = {str(known.loc[at, "case"]) for at in work.groupby(known["kernel"]).idxmax()}
    profiled = set(instructions["case"]) if len(instructions) else set()
    for _, mine in known[known["case"].isin(profiled)].groupby("kernel"):
        chosen |= set(_largest(mine, profiled)[:1])
    return chosen


def _advice(run: Run, cases: pd.DataFrame) -> list[Advised]:
    """What the rules find of a kernel's telling cases."""
    known = cases[cases["case"].isin(list(run.subjects))]
    chosen = known.loc[_work(known).sort_values(ascending=False, kind="stable").index, "case"]
    found = [(case, one) for case in chosen for one in advice.for_case(run.subjects[case])]
    by_rule: dict[str, tuple[str, advice.Finding]] = {}
    for case, one in found:  # the larger case says it where both do
        by_rule.setdefault(one.rule, (case, one))
    order = sorted(by_rule.values(), key=lambda pair: -(pair[1].bound or 0.0))
    return [
        Advised(
            one.rule,
            one.sentence,
            f"{one.origin.file}:{one.origin.line}" if one.origin.line else "",
            one.origin.text,
            case.removeprefix(f"{cases['kernel'].iloc[0]}@"),
            "" if one.bound is None else f"{100 * one.bound:.1f}",
        )
        for case, one in order
    ]


def view(run: Run, name: str) -> KernelView:
    """What the pages say of a kernel of the plan."""
    project, cases = run.project, run.cases
    kernel = project.kernels[name]
    mine = cases[cases["kernel"] == name]
    document = run.compiled.get(name, {})
    built = document.get("variants", {})
    own = run.instructions.get(name, pd.DataFrame())
    with_code = kernel.provider == "nvrtc"
    gpu = next((one for one in run.environments.values() if one.get("gpu")), {})
    compiled_variants = variants(kernel, built, mine, gpu, run.reports) if with_code else []
    annotations = listings(kernel, mine, own, run.environments, built)
    follows = kernel.front.follows or ""
    follows = follows if follows in project.plan.kernels else ""
    after = [
        other for other in project.plan.kernels if project.kernels[other].front.follows == name
    ]
    neighbours = [one for one in (follows, name, *after) if one]
    first = annotations[0].case if annotations else ""
    excess = _excess(own[own["case"] == first]) if first else ""
    return KernelView(
        name=name,
        file=kernel.path.name,
        title=kernel.front.title,
        follows=follows,
        next=after,
        operation=kernel.front.operation,
        provider=kernel.provider,
        idea=idea(kernel),
        cases=plural(len(mine), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(mine) if count],
        row=_row(kernel, mine, run.shares, compiled_variants, excess),
        speed=speed(neighbours, cases, run.shares, run.rates) if with_code else None,
        studies=_in_studies(name, run.studies),
        variants=compiled_variants,
        change=change(kernel, project.kernels[follows], run.compiled) if follows else None,
        profiles=_profiles(project, document, run.reports),
        listings=annotations,
        lanes=_lanes(run, kernel),
        advised=bool(set(mine["case"]) & set(run.subjects)),
        advice=_advice(run, mine),
    )
