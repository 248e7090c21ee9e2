"""A kernel's code on its page: compiled variants, the change against the rung before, counters, and lanes.
Counters stand beside lines of source and machine code; lanes are those of accesses to shared memory."""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import markupsafe
import pandas as pd

from tilewave.basics.tables import table_beside
from tilewave.compiling import origins, sass
from tilewave.compiling.origins import Origin
from tilewave.execution.lanes import captured
from tilewave.execution.lanes.layout import finding
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel
from tilewave.records.columns import LAUNCHES
from tilewave.report.accesses import drawn
from tilewave.theory.occupancy import SmLimits, if_known

TABLES = table_beside(__file__)
COUNTERS: Mapping[str, str] = TABLES["counters"]
PLACE, GEOMETRY = TABLES["place"], TABLES["geometry"]
DRAWN, MOST_INSTRUCTIONS, SEEN = (TABLES[of] for of in ("drawn", "most instructions", "seen"))
COLUMNS = [*PLACE, *COUNTERS.values()]


class SourceLine(NamedTuple):
    """A line of a source file, and its counters."""

    number: int
    text: str
    counts: Mapping[str, float]


def first_build(document: Mapping[str, Any], variant: str) -> Mapping[str, Any]:
    """Return a variant's compilation for the first architecture; document: by variant and architecture."""
    return next(iter(document.get(variant, {}).values()), {})


def _listing(entry: Mapping[str, Any]) -> str:
    """Return nvdisasm's listing of a compilation whose code is shown, else an empty text."""
    path = Path(entry.get("sass") or ".")
    return path.read_text(encoding="utf-8") if entry.get("shown") and path.is_file() else ""


def variants(
    kernel: Kernel, document: Mapping[str, Any], cases: pd.DataFrame, environment: Mapping[str, Any]
) -> pd.DataFrame:
    """Return a row for each compiled variant and launch (``document``: by variant and architecture)."""
    limits, rows = SmLimits.if_known(environment), []
    # The leading launch comes first.
    entries = sorted(kernel.entries, key=lambda entry: entry != kernel.entry)
    if series := len(entries) > 1:
        steps = [
            {**step, "variant": f"{variant}: {step['entry']}"}
            for variant, text in cases.reindex(columns=["variant", LAUNCHES]).dropna().to_numpy()
            for step in json.loads(text)
        ]
        cases = pd.DataFrame(steps, columns=["variant", *GEOMETRY])
    largest = cases.groupby("variant")[GEOMETRY].max().astype(float)
    for name, compiled in document.items():
        for (arch, build), entry in itertools.product(compiled.items(), entries):
            title = f"{name}: {entry}" if series else name
            threads, shared = largest.loc[title] if title in largest.index else (math.nan, math.nan)
            used = build.get("resources", {}).get(entry, {})
            spilled = [used.get("spill_store_bytes"), used.get("spill_load_bytes")]
            shared = used.get("static_shared_bytes") if pd.isna(shared) else float(shared)
            macros = (f"{macro} {value}" for macro, value in build.get("macros", {}).items())
            row = {"variant": title, "macros": ", ".join(macros), "architecture": arch}
            rows.append(row)
            if build["status"] != result.OK and not build.get("sha256"):
                row["problem"] = f"{build['status']}: {build.get('reason', '')}"
                continue
            resident = if_known(limits, threads, used.get("registers"), shared)
            limiters = ", ".join(resident.limiters) if resident else ""
            row |= {
                "registers": used.get("registers"),
                "shared": shared,
                "spills": " / ".join(map(str, spilled)) if None not in spilled else "",
                "occupancy": f"{100 * resident.fraction:.0f} % ({limiters})" if resident else "",
                "SHA-256 of the cubin": str(build.get("sha256", ""))[:12],
            }
    return pd.DataFrame(rows)


def change(kernel: Kernel, before: Kernel) -> tuple[str, list[tuple[str, str]]] | None:
    """Return how many source lines changed between two rungs, and their diff, without front matter."""
    if not {kernel.path.suffix, before.path.suffix} <= {".cu"}:
        return None
    rungs = [rung.text.splitlines()[rung.front_lines :] for rung in (before, kernel)]
    old, new = ("\n".join(code).strip("\n").splitlines() for code in rungs)
    kinds = {"+": "added", "-": "removed", "@": "place"}
    diff = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    lines = [(kinds.get(line[:1], "same"), line) for line in diff]
    count = Counter(kind for kind, _ in lines)
    return f"{count['added']} lines added, {count['removed']} removed", lines


@functools.cache
def _work(sizes: str) -> float:
    return float(math.prod(json.loads(sizes).values()))


def work_of(cases: pd.DataFrame) -> pd.Series[float]:
    """Return the product of each case's sizes; 1 without sizes."""
    return cases["sizes"].map(_work)


def largest_of(cases: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Return each variant's case with the largest shape among the named ones, in config order."""
    rows = cases[cases["case"].isin(set(names))]
    best = work_of(rows).groupby(rows["variant"], sort=False).idxmax()
    return [str(rows.loc[row, "case"]) for row in best]


def rows_of(instructions: pd.DataFrame, case: str, stalls: pd.DataFrame) -> pd.DataFrame:
    """Return a case's rows from a GPU, else its execution, then its samples. Columns: PLACE and COUNTERS."""
    rows = instructions[instructions["case"] == case]
    counted = rows[rows["stage"] != result.EXECUTE]
    rows = counted if len(counted) else rows
    sampled = stalls[stalls["case"] == case] if len(stalls) else stalls
    if len(rows) and len(sampled):
        rows = pd.concat([part.reindex(columns=COLUMNS) for part in (rows, sampled)])
    rows = rows.reindex(columns=COLUMNS).rename(columns={old: new for new, old in COUNTERS.items()})
    return rows.astype(dict.fromkeys(COUNTERS, float))


def sums(rows: pd.DataFrame, by: str | list[str]) -> dict[Any, dict[str, float]]:
    """Return the counters summed by columns, without those that nothing counted."""
    summed = rows.groupby(by, sort=False)[[*COUNTERS]].sum(min_count=1).to_dict("index")
    return {
        key: {name: value for name, value in counts.items() if value == value}
        for key, counts in summed.items()
    }


def source(kernel: Kernel, rows: pd.DataFrame) -> dict[str, list[SourceLine]]:
    """Return the lines of the kernel's file and of its counted headers, with counters.
    Counters: COUNTERS, and in the kernel's file `called ...`: sums over the header lines that a line calls."""
    counted = sums(rows, ["file", "line"])
    for line, counts in sums(rows[rows["file"] != kernel.path.name], "kernel_line").items():
        called = {f"called {name}": value for name, value in counts.items()}
        counted[kernel.path.name, line] = counted.get((kernel.path.name, line), {}) | called
    files = {kernel.path.name, *rows["file"]}
    texts = origins.by_last_name(origins.kernel_texts(kernel)).items()
    lines = {name: enumerate(text.splitlines(), 1) for name, text in texts if name in files}
    return {
        name: [SourceLine(line, code, counted.get((name, line), {})) for line, code in numbered]
        for name, numbered in lines.items()
    }


def machine_code(
    kernel: Kernel, listing: str, function: str, rows: pd.DataFrame
) -> list[tuple[sass.SassInstruction, Origin, Mapping[str, float]]]:
    """Return a function's instructions in order, with origin and counters. listing: `sass.as_text`; rows: `rows_of`."""
    by_address = origins.of_listing(listing, function, origins.kernel_texts(kernel))
    counted = sums(rows[rows["function"].isna() | (rows["function"] == function)], "address")
    lines = ((line, line.address) for line in sass.parse(listing) if line.function == function)
    return [(line, by_address.get(at, origins.NOWHERE), counted.get(at, {})) for line, at in lines]


def _file(name: str, lines: list[SourceLine], start: int) -> dict[str, Any]:
    """Return a file's shown lines and columns: all of the kernel's after its front matter, of a header those near counters.
    start: number of lines of front matter; 0 for a header."""
    positive = [{key for key, value in line.counts.items() if value > 0} for line in lines]
    columns = [name for name in COUNTERS if {name, f"called {name}"} & set().union(*positive)]
    used = [bool({"executed", "samples"} & names) for names in positive]
    near = [bool(start) or any(used[max(0, at - 2) : at + 3]) for at in range(len(lines))]
    kept = (line for line, is_near in list(zip(lines, near))[start:] if is_near)
    shown = list(itertools.dropwhile(lambda line: not line.text.strip(), kept))
    return {"name": name, "columns": columns, "lines": shown}


Instructions = list[tuple[sass.SassInstruction, Origin, Mapping[str, float]]]


def _near(code: Instructions, total: float) -> list[Any]:
    """Return instructions with counters or samples, and their neighbours, and the length of each gap."""
    weight = "samples" if total else "executed"
    weights = [counts.get(weight, 0.0) for _, _, counts in code]
    listed = set(sorted(range(len(code)), key=lambda at: -weights[at])[:MOST_INSTRUCTIONS])
    counted = [
        at in listed and ("executed" in counts or (total > 0 and weights[at] / total >= SEEN))
        for at, (_, _, counts) in enumerate(code)
    ]
    near = [any(counted[max(0, at - 1) : at + 2]) for at in range(len(code))]
    rows: list[Any] = []
    for is_near, part in itertools.groupby(zip(code, near), key=lambda pair: pair[1]):
        part_rows = [row for row, _ in part]
        rows += part_rows if is_near else [len(part_rows)]
    return rows


def listings(
    kernel: Kernel,
    instructions: pd.DataFrame,
    case: str,
    stalls: pd.DataFrame,
    document: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return source and machine code of a case with counters and samples; None where nothing was counted."""
    rows = rows_of(instructions, case, stalls) if len(instructions) else instructions
    if not len(rows) or kernel.provider != "nvrtc":
        return None
    totals = rows[[*COUNTERS]].sum().to_dict()
    total = totals["samples"]
    front = {kernel.path.name: kernel.front_lines}
    texts = source(kernel, rows).items()
    files = [_file(name, lines, front.get(name, 0)) for name, lines in texts]
    entry = first_build(document, case.partition("@")[0])
    symbols = {kernel.entry: entry.get("symbol", kernel.entry), **entry.get("symbols", {})}
    code: list[Any] = []
    for name in kernel.entries:
        code += [name] if len(kernel.entries) > 1 else []
        code += _near(machine_code(kernel, _listing(entry), symbols.get(name, name), rows), total)
    unplaced = rows["wavefronts"][rows["line"] == 0].sum()
    return {
        "case": case,
        "source": str(rows["source"].iloc[0]),
        "environment": str(rows["environment"].iloc[0]),
        "files": [file for file in files if file["lines"]],
        "sass": code,
        "columns": ["executed", "wavefronts", "excess", *["samples"] * bool(total)],
        **totals,
        "unplaced": unplaced,
    }


def lanes(
    kernel: Kernel, accesses: Mapping[str, Any], document: Mapping[str, Any], counted: pd.DataFrame
) -> list[tuple[str, str, str, markupsafe.Markup]]:
    """Return (case, place, finding, SVG) of a kernel's accesses to shared memory, the line with most excess first.
    A probe has the drawings of all cases, another kernel those of its first variant; equal ones stand once.
    accesses: the run's, by case; document: the kernel's compilations by variant and architecture; counted: a case's rows."""
    cases = [case for case, entry in accesses.items() if entry["kernel"] == kernel.name]
    probe = kernel.front.operation == "probe"
    texts = origins.kernel_texts(kernel)
    by_line = counted.groupby(["file", "line"])[COUNTERS["excess"]].sum() if len(counted) else {}
    drawings: dict[str, tuple[str, str, str, markupsafe.Markup]] = {}
    for case in cases if probe else cases[:1]:
        case_accesses = accesses[case]
        entry = first_build(document, case_accesses["variant"])
        leading = entry.get("symbol", kernel.entry)
        by_function = defaultdict[str, list[Mapping[str, Any]]](list)
        for row in case_accesses["accesses"]:
            if row["opcode"].startswith(case_accesses["instruction"] or ""):
                by_function[row.get("function") or leading].append(row)
        diagrams: list[captured.Diagram] = []
        for symbol, rows in by_function.items():
            lines = defaultdict[int, tuple[str, int]](lambda: (kernel.path.name, 0))
            for address, origin in origins.of_listing(_listing(entry), symbol, texts).items():
                lines[address] = origin.file, origin.line
            diagrams += captured.diagrams(rows, lines.__getitem__)
        diagrams = captured.worst_first(diagrams)
        diagrams.sort(key=lambda drawing: -by_line.get((drawing.file, drawing.line), 0.0))
        for diagram in diagrams[: 1 if probe else DRAWN]:
            svg = drawn(diagram)
            drawings.setdefault(svg, (case, diagram.name, finding(diagram.layout), svg))
    return list(drawings.values())
