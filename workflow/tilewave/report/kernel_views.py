"""A kernel's section of the page: its idea, its variants, and its source with wavefronts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.kernels import FENCES, Kernel, idea
from tilewave.project import Project
from tilewave.report.cells import cell, number, plural
from tilewave.report.summary import device_name, verdict_counts


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
    listing: str


@dataclass(frozen=True)
class SourceLine:
    """A line of a kernel file with its counters, summed over the instructions made from it."""

    line: int
    text: str
    opcodes: str
    executed: str
    wavefronts: str
    excess: str
    hot: bool


@dataclass(frozen=True)
class Listing:
    """Annotated source of a kernel for one case."""

    case: str
    device: str
    source: str
    lines: list[SourceLine]
    wavefronts: str
    excess: str
    unplaced: str

    @property
    def busy(self) -> list[SourceLine]:
        """The lines whose instructions use shared memory."""
        return [line for line in self.lines if line.wavefronts]


@dataclass(frozen=True)
class KernelView:
    """One kernel on the page."""

    name: str
    file: str
    title: str
    follows: str
    operation: str
    provider: str
    idea: list[str]
    cases: str
    verdicts: list[tuple[str, int]]
    variants: list[VariantView]
    profiles: list[str]
    listing: Listing | None


def link(path: str | Path, page: Path) -> str:
    """A relative address from the page to a file, empty where there is no such file."""
    if not path or not Path(path).is_file():
        return ""
    return Path(os.path.relpath(path, page.parent)).as_posix()


def _shared(cases: pd.DataFrame, variant: str, declared: int | None) -> str:
    """Static and dynamic bytes of a block: the largest of the variant's cases."""
    sizes = pd.to_numeric(cases[cases["variant"] == variant]["shared_bytes"]).dropna()
    if len(sizes):
        return number(float(sizes.max()))
    return "" if declared is None else number(declared)


def variants(
    kernel: Kernel, document: Mapping[str, Any], cases: pd.DataFrame, page: Path
) -> list[VariantView]:
    """What is known of a kernel's compiled variants (``document``: by variant and architecture); only
    kernels with a cubin have rows."""
    rows = []
    for name, compiled in document.items():
        for arch, entry in compiled.items():
            used = entry.get("resources", {}).get(kernel.entry, {})
            spilled = [used.get("spill_store_bytes"), used.get("spill_load_bytes")]
            macros = ", ".join(f"{key} {value}" for key, value in entry.get("macros", {}).items())
            rows.append(
                VariantView(
                    name=name,
                    macros=macros,
                    arch=arch,
                    status=entry["status"],
                    reason=entry.get("reason", ""),
                    registers=cell(used.get("registers")),
                    shared=_shared(cases, name, used.get("static_shared_bytes")),
                    spills=" / ".join(map(str, spilled)) if None not in spilled else "",
                    sha256=str(entry.get("sha256", "")),
                    listing=link(entry.get("sass", ""), page),
                )
            )
    return rows


def _largest(cases: pd.DataFrame, names: Iterable[str]) -> str:
    """The case with the largest shape among those named; the first in config order of equals."""
    wanted = set(names)
    rows = cases[cases["case"].isin(wanted)]
    sizes = rows[["m", "n", "k"]].apply(pd.to_numeric, errors="coerce").fillna(1.0).prod(axis=1)
    return str(rows.loc[sizes.idxmax(), "case"])


def listing(
    kernel: Kernel,
    cases: pd.DataFrame,
    instructions: pd.DataFrame,
    environments: Mapping[str, Mapping[str, Any]],
) -> Listing | None:
    """The kernel's source with the shared wavefronts of each line, for its largest profiled case.

    None where no instruction was profiled. Front matter is left out; line numbers are the file's.
    """
    if not len(instructions) or kernel.provider != "nvrtc":
        return None
    own = instructions[instructions["case"].isin(set(cases["case"]))]
    if not len(own):
        return None
    case = _largest(cases, own["case"])
    columns = ["executed", "wavefronts_shared", "wavefronts_shared_excess"]
    rows = own[own["case"] == case]
    rows = rows.assign(**{name: pd.to_numeric(rows[name]).fillna(0.0) for name in columns})
    # What a line calls in headers is charged to it here; `annotated` has the headers' own lines.
    sums = rows.groupby("kernel_line")[columns].sum()
    using = rows[rows["wavefronts_shared"] > 0]
    opcodes = {
        line: ", ".join(sorted({str(opcode) for opcode in part["opcode"]}))
        for line, part in using.groupby("kernel_line")
    }
    _, closing, _ = FENCES[kernel.path.suffix]
    texts = kernel.text.splitlines()
    start = next((i for i, text in enumerate(texts, 1) if closing in text), 0)
    lines = []
    for place, text in enumerate(texts, 1):
        if place <= start:
            continue
        known = place in sums.index
        executed, counted, excess = (float(sums.loc[place, c]) if known else 0.0 for c in columns)
        lines.append(
            SourceLine(
                line=place,
                text=text,
                opcodes=opcodes.get(place, ""),
                executed=number(executed) if executed else "",
                wavefronts=number(counted) if counted else "",
                excess=number(excess) if counted else "",
                hot=excess > 0,
            )
        )
    while lines and not lines[0].text.strip():
        lines.pop(0)
    total = sums[columns].sum()
    unplaced = float(sums.loc[0, "wavefronts_shared"]) if 0 in sums.index else 0.0
    first = rows.iloc[0]
    return Listing(
        case=case,
        device=device_name(environments.get(str(first["environment"]), {})),
        source=str(first["source"]),
        lines=lines,
        wavefronts=number(float(total["wavefronts_shared"])) if total["wavefronts_shared"] else "",
        excess=number(float(total["wavefronts_shared_excess"])),
        unplaced=number(unplaced) if unplaced else "",
    )


def kernel_view(
    project: Project,
    name: str,
    frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    environments: Mapping[str, Mapping[str, Any]],
    compiled: Mapping[str, Any],
    page: Path,
) -> KernelView:
    """Everything the page says of a kernel; frames are its cases, records and instructions, compiled
    the document of its variants and profiles."""
    kernel = project.kernels[name]
    cases, _, instructions = frames
    cases = cases[cases["kernel"] == name]
    document = compiled.get(name, {})
    reports = [project.results / "ncu" / one for one in document.get("profiles", [])]
    return KernelView(
        name=name,
        file=kernel.path.name,
        title=kernel.front.title,
        follows=kernel.front.follows or "",
        operation=kernel.front.operation,
        provider=kernel.provider,
        idea=idea(kernel),
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        variants=variants(kernel, document.get("variants", {}), cases, page)
        if kernel.provider == "nvrtc"
        else [],
        profiles=[address for one in reports if (address := link(one, page))],
        listing=listing(kernel, cases, instructions, environments),
    )
