"""The page: one self-contained index.html beside the figures and tables it shows.

It says first whose figures these are. A machine without a GPU must never read as if recorded
figures were its own, so the headline, every study's source line and every environment tell it.
The same tables give the same bytes: no date, no time of day, no order that depends on a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jinja2
import pandas as pd

from tilewave import plots
from tilewave.plots.base import present
from tilewave.project import LIBRARY, Project, read
from tilewave.records import model
from tilewave.records.store import write_atomically
from tilewave.report import figures, verdict
from tilewave.report.cells import Table, cell, number, plural, table
from tilewave.report.kernel_views import kernel_view
from tilewave.report.summary import (
    Group,
    Source,
    banner,
    device_name,
    sources,
    status_matrix,
    troubles,
    verdict_counts,
)

TEMPLATES = LIBRARY.parent / "report"

STATUS_WORDS: Mapping[str, str] = {
    model.OK: "the stage ended cleanly and gave its figures.",
    model.NOT_MEASURED: "this machine could not or was not to measure it; the reason says why.",
    model.FAILED_TO_COMPILE: "the compiler refused the kernel; the reason is its first message.",
    model.FAILED_TO_LAUNCH: "the driver refused the launch, so nothing ran.",
    model.INVALID_ACCESS: "the kernel touched memory that is not its own and was ended.",
    model.TIMED_OUT: "the case ran past its time limit and its process was killed.",
    model.UNSUPPORTED: "the kernel does not claim to take this shape or GPU; no fault of anyone's.",
    model.STALE: "there is a recorded figure, but of other code, another launch or method than "
    "the ones here; it is not shown.",
}
VERDICT_WORDS: Mapping[str, str] = {
    model.CORRECT: "the output agreed with the reference within the tolerance.",
    model.WRONG: "the output differed from the reference by more than the tolerance, or held NaN.",
    model.NOT_CHECKED: "no check came to a verdict, so the case does not rank.",
    model.RACE: "two threads touched the same memory with no order between them.",
    model.UNINITIALISED: "the kernel read memory that nobody had written.",
    model.BARRIER: "threads of a block did not meet at the same barrier.",
}
SOURCE_WORDS: Mapping[str, str] = {
    "counters": "Nsight Compute's hardware counters, in this run's environment.",
    "events": "run and timed in this run's environment: CUDA events on a GPU, the clock on a CPU.",
    "recorded": "a measurement of the named GPU that is shipped with the project; this run only "
    "shows it.",
    "executed": "checked and counted while a CPU executed the same machine code.",
    "model": "a closed form; nothing was run.",
}
_GIB, _MIB, _KIB = 2**30, 2**20, 2**10
# Fact of an environment -> label, divisor, unit.
FACTS: Mapping[str, tuple[str, float, str]] = {
    "gpu": ("GPU", 1, ""),
    "uuid": ("GPU's UUID", 1, ""),
    "compute_capability": ("Compute capability", 1, ""),
    "sms": ("SMs", 1, ""),
    "memory_bytes": ("Device memory", _GIB, "GiB"),
    "l2_bytes": ("L2 cache", _MIB, "MiB"),
    "shared_per_sm": ("Shared memory of an SM", _KIB, "KiB"),
    "shared_per_block_optin": ("Shared memory a block may ask for", _KIB, "KiB"),
    "sm_clock_max_mhz": ("Highest SM clock", 1, "MHz"),
    "memory_clock_max_mhz": ("Highest memory clock", 1, "MHz"),
    "power_limit_w": ("Power limit", 1, "W"),
    "driver": ("Driver", 1, ""),
    "cuda": ("CUDA of the driver", 1, ""),
    "nvrtc": ("NVRTC", 1, ""),
    "cublas": ("cuBLAS", 1, ""),
    "ncu": ("Nsight Compute", 1, ""),
    "cpu": ("CPU", 1, ""),
    "platform": ("Platform", 1, ""),
    "python": ("Python", 1, ""),
    "commit": ("Commit", 1, ""),
    "dirty": ("Changes not committed", 1, ""),
    "no_gpu": ("Why there is no GPU", 1, ""),
}
_NOT_SHOWN = ("id", "recorded")


# ------------------------------------------------------------------------------- studies, kernels


@dataclass(frozen=True)
class StudyView:
    """One study on the page."""

    name: str
    title: str
    question: str
    cases: str
    verdicts: list[tuple[str, int]]
    sources: list[Source]
    summary: Table | None
    table: Table | None
    folded: bool
    groups: list[Group]
    files: list[tuple[str, str]]
    figure: str


def _study(
    project: Project,
    name: str,
    frames: tuple[pd.DataFrame, pd.DataFrame],
    environments: Mapping[str, Mapping[str, Any]],
    page: Path,
) -> StudyView:
    entry = project.config.studies[name]
    wanted = set(project.plan.studies[name])
    cases, records = (frame[frame["case"].isin(wanted)] for frame in frames)
    folder = page.parent / "figures"
    files = [
        (kind.upper(), f"figures/{name}.{kind}")
        for kind in ("svg", "pdf", "png", "csv", "json")
        if (folder / f"{name}.{kind}").is_file()
    ]
    data = folder / f"{name}.csv"
    drawn = folder / f"{name}.svg"
    summed = page.parent / "tables" / f"{name}.csv"
    summary = None
    if entry.plot in plots.SUMMARISED and summed.is_file():
        files.append(("summary", f"tables/{name}.csv"))
        summary = table(pd.read_csv(summed))
    shown = table(pd.read_csv(data)) if data.is_file() and data.stat().st_size > 1 else None
    return StudyView(
        name=name,
        title=entry.title,
        question=entry.question,
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        sources=sources(records, environments),
        summary=summary,
        table=shown,
        folded=shown is not None and shown.long and not plots.table_stays_open(entry.plot),
        groups=troubles(cases, records),
        files=files,
        figure=f"figures/{name}.svg" if drawn.is_file() else "",
    )


# ----------------------------------------------------------------------------------- environments


@dataclass(frozen=True)
class EnvironmentView:
    """An environment's facts, and what it is to this run."""

    id: str
    name: str
    role: str
    facts: list[tuple[str, str]]


def _fact(key: str, value: Any) -> tuple[str, str]:
    label, divisor, unit = FACTS.get(key, (key.replace("_", " ").capitalize(), 1, ""))
    if isinstance(value, Mapping):
        return label, ", ".join(f"{k} {v}" for k, v in sorted(value.items()) if present(v))
    if isinstance(value, (list, tuple)):
        return label, ", ".join(map(str, value))
    if divisor != 1 and isinstance(value, (int, float)):
        value = value / divisor
    return label, cell(value) + (f" {unit}" if unit else "")


def environment_views(
    target: Mapping[str, Any],
    environments: Mapping[str, Mapping[str, Any]],
    records: pd.DataFrame,
) -> list[EnvironmentView]:
    """The target's environment, those that figures came from, and this machine's own."""
    valued = figures.figures_of(records)
    used = {str(name) for name in valued["environment"] if present(name)}
    order = [target["environment"], *sorted(used), target["host"]]
    views = []
    for name in dict.fromkeys(order):
        facts = environments.get(name)
        if facts is None:
            continue
        here = name == target["host"]
        role = "this machine" if here else "recorded: another machine or another time"
        if here and target["live"]:
            role = "this machine, measured live"
        elif here and name not in used:
            role = "this machine: no figure on this page was measured here"
        keys = [key for key in FACTS if key in facts]
        keys += sorted(key for key in facts if key not in FACTS and key not in _NOT_SHOWN)
        shown = [_fact(key, facts[key]) for key in keys if present(facts[key])]
        views.append(EnvironmentView(name, device_name(facts), role, [f for f in shown if f[1]]))
    return views


# ------------------------------------------------------------------------------------------- page


def commands(project: Project) -> list[tuple[str, str]]:
    """What a reader types to get this report again, each with a remark."""
    study = next(iter(project.plan.studies))
    run = "snakemake --cores 1"
    return [
        ("make report", "install what is needed, then run the full study"),
        (f"{run} report", "the same where it is installed"),
        (f"{run} report --configfile FILE", "another config"),
        (f"{run} report --config only={study}", "one study; kernels, dtypes and shapes work too"),
        (f"{run} {project.reports.as_posix()}/figures/{study}.svg", "one figure"),
        (f"{run} record", "keep a live run as recorded figures of its GPU"),
    ]


def render(context: Mapping[str, Any]) -> str:
    """The page's HTML; everything in the context is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = number
    return environment.get_template("page.html.j2").render(context)


class Inputs(figures.Inputs, Protocol):
    """Those of the figures, and what is known of compilations."""

    compiled: Any


def write(project: Project, inputs: Inputs, path: str | Path) -> None:
    """Write index.html beside `figures/` and `tables/`, whole or not at all.

    Parameters
    ----------
    inputs: paths of the target document, of the tables (cases, records, instructions) and of the
        document of compilations.
    path: where the page goes; figures are looked for in `figures/` beside it.
    """
    page = Path(path)
    target, cases, records, instructions = figures.loaded(inputs)
    instructions = figures.without_executions(instructions)
    environments = figures.environments(target)
    compiled = read(Path(str(inputs.compiled)))
    kernels = list(project.plan.kernels)
    tables = [
        (name, f"tables/{name}.csv")
        for name in ("records", "instructions")
        if (page.parent / "tables" / f"{name}.csv").is_file()
    ]
    html = render(
        {
            "banner": banner(target, records),
            "target": target,
            "cases": len(cases),
            "checked": sum(verdict.checked(word) for word in cases["verdict"]),
            "verdicts": verdict_counts(cases),
            "matrix": status_matrix(records),
            "sources": sources(records, environments),
            "studies": [
                _study(project, name, (cases, records), environments, page)
                for name in project.plan.studies
            ],
            "kernels": [
                kernel_view(
                    project, name, (cases, records, instructions), environments, compiled, page
                )
                for name in kernels
            ],
            "environments": environment_views(target, environments, records),
            "status_words": STATUS_WORDS,
            "verdict_words": VERDICT_WORDS,
            "source_words": SOURCE_WORDS,
            "tables": tables,
            "commands": commands(project),
            "figure_mm": round(1.4 * project.config.style.width_mm),
        }
    )
    write_atomically(page, html.encode())
