"""The page: one self-contained index.html beside the figures and tables it shows.

It says first whose figures these are. A machine without a GPU must never read as if recorded
figures were its own, so the headline, every study's source line and every environment tell it.
The same tables give the same bytes: no date, no time of day, no order that depends on a set.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from tilewave.kernels import FENCES, Kernel
from tilewave.plots.base import present
from tilewave.project import LIBRARY, Project, read
from tilewave.records import model
from tilewave.records.store import write_atomically
from tilewave.report import figures, verdict

TEMPLATES = LIBRARY.parent / "report"
LONG = 12
"""Tables with more rows are folded away."""
NAMED = 6
"""Cases of a group that are named before the rest is folded away."""

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
    "executed": "counted while a CPU executed the same machine code.",
    "model": "a closed form; nothing was run.",
}
# How bad a trouble is: the order in which the page lists them.
_SEVERITY = (
    model.WRONG,
    model.RACE,
    model.UNINITIALISED,
    model.BARRIER,
    *model.FAILURES,
    model.STALE,
    model.NOT_MEASURED,
    model.NOT_CHECKED,
    model.UNSUPPORTED,
)
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
# Columns that the page tells once, above the table, where every row says the same.
_FOLDED = ("operation", "dtype", "shape", "m", "n", "k", "verdict", "status", "reason", "source")
_SIZES = ("m", "n", "k", "line", "probe_case")


# ---------------------------------------------------------------------------------------- numbers


def number(value: float, grouped: bool = True) -> str:
    """A number with four significant digits; whole numbers are exact, grouped from 10,000 on."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size == int(size) and size < 1e15:
        return sign + (f"{int(size):,}" if grouped and size >= 10_000 else str(int(size)))
    if size >= 1e15 or size < 1e-3:
        mantissa, _, exponent = f"{size:.3e}".partition("e")
        return f"{sign}{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    digits = max(0, 3 - math.floor(math.log10(size)))
    if size < 1:
        return sign + f"{size:.{digits}f}".rstrip("0")
    return sign + (f"{size:,.0f}" if size >= 10_000 else f"{size:.{digits}f}")


def cell(value: object, column: str = "") -> str:
    """What a table shows for a value; nothing for nothing."""
    if not present(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(float(value), grouped=column not in _SIZES)
    return str(value)


def plural(count: int, word: str) -> str:
    """`1 case`, `2 cases`, `12,000 cases`."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


# ----------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Table:
    """A table as the page shows it: columns as (title, is it a number), rows of texts."""

    columns: list[tuple[str, bool]]
    rows: list[list[str]]
    same: list[tuple[str, str]]
    empty: list[str]

    @property
    def long(self) -> bool:
        return len(self.rows) > LONG


def table(frame: pd.DataFrame) -> Table:
    """The columns worth showing.

    A case's id names kernel and variant already; a column that says the same in every row is told
    once; a column without any value is only named.
    """
    if "case" in frame:
        nameless = frame[frame["case"].isna()]
        told = [
            c for c in ("kernel", "variant", "macros") if c in frame and nameless[c].isna().all()
        ]
        frame = frame.drop(columns=told)
    kept, same, empty = [], [], []
    for name in map(str, frame.columns):
        texts = [cell(value, name) for value in frame[name]]
        if not any(texts):
            if name not in ("reason", *_SIZES, "dtype"):
                empty.append(name)
        elif len(texts) > 1 and name in _FOLDED and len(set(texts)) == 1:
            same.append((name, texts[0]))
        else:
            numeric = pd.api.types.is_numeric_dtype(frame[name])
            kept.append((name, bool(numeric), texts))
    rows = [list(row) for row in zip(*(texts for _, _, texts in kept))]
    return Table([(name, numeric) for name, numeric, _ in kept], rows, same, empty)


# --------------------------------------------------------------------------------------- troubles


@dataclass(frozen=True)
class Group:
    """Cases that share a status (or a verdict) and a reason."""

    word: str
    stages: str
    reason: str
    cases: list[str]

    @property
    def first(self) -> list[str]:
        return self.cases if len(self.cases) <= NAMED + 2 else self.cases[:NAMED]

    @property
    def rest(self) -> list[str]:
        return self.cases[len(self.first) :]

    @property
    def count(self) -> str:
        return plural(len(self.cases), "case")


def _pattern(reason: str) -> str:
    """A reason with its numbers taken out: those that differ only there are told together."""
    return re.sub(r"\d[\d.,]*", "#", reason)


def troubles(cases: pd.DataFrame, records: pd.DataFrame) -> list[Group]:
    """Every case that is not ok or not correct, one group a status and reason, the worst first.

    A case is listed under each status that is not ok, with the stages that gave it, and under its
    verdict where that is not *correct* although its check ended cleanly. Reasons that differ only
    in their numbers share a group, and the group says so.
    """
    rows = records[["case", "stage", "status", "reason"]].drop_duplicates()
    found: list[tuple[str, str, str, str]] = [
        (str(status), str(reason) if present(reason) else "", str(stage), str(case))
        for case, stage, status, reason in rows.itertuples(index=False, name=None)
        if status != model.OK
    ]
    checks = rows[rows["stage"] == "check"]
    reasons = dict(zip(checks["case"], checks["reason"]))
    clean = set(checks[checks["status"] == model.OK]["case"])
    for case, word in zip(cases["case"], cases["verdict"]):
        if verdict.wrong(word) or (word == model.NOT_CHECKED and case in clean):
            reason = reasons.get(case)
            found.append((str(word), str(reason) if present(reason) else "", "check", str(case)))
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for word, reason, stage, case in found:
        groups.setdefault((word, _pattern(reason)), []).append((reason, stage, case))
    order = {case: place for place, case in enumerate(cases["case"])}
    listed = []
    for (word, _), members in groups.items():
        reason = members[0][0]
        if any(other != reason for other, _, _ in members):
            reason += " (the numbers differ from case to case)"
        by_stage = {s: {case for _, stage, case in members if stage == s} for s in model.STAGES}
        names = sorted({case for _, _, case in members}, key=lambda case: order.get(case, -1))
        counts = {stage: len(those) for stage, those in by_stage.items() if those}
        every = set(counts.values()) == {len(names)}
        told = [stage if every else f"{stage} {count}" for stage, count in counts.items()]
        listed.append(Group(word, ", ".join(told), reason, names))
    return sorted(listed, key=lambda group: _SEVERITY.index(group.word))


def verdict_counts(cases: pd.DataFrame) -> list[tuple[str, int]]:
    """Cases of each verdict, `correct`, `wrong` and `not checked` always."""
    counts = {str(word): int(n) for word, n in cases["verdict"].value_counts().items()}
    always = (model.CORRECT, model.WRONG, model.NOT_CHECKED)
    return [(w, counts.get(w, 0)) for w in model.VERDICTS if w in always or counts.get(w)]


@dataclass(frozen=True)
class Matrix:
    """Cases of each stage by status."""

    statuses: list[str]
    rows: list[tuple[str, list[int]]]


def status_matrix(records: pd.DataFrame) -> Matrix:
    """How many cases each stage left in each status that occurs."""
    pairs = records[["case", "stage", "status"]].drop_duplicates()
    words = [word for word in model.STATUSES if (pairs["status"] == word).any()]
    stages = [stage for stage in model.STAGES if (pairs["stage"] == stage).any()]
    rows = []
    for stage in stages:
        mine = pairs[pairs["stage"] == stage]["status"].value_counts()
        rows.append((stage, [int(mine.get(word, 0)) for word in words]))
    return Matrix(words, rows)


# ---------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class Source:
    """Figures of one source and environment."""

    source: str
    count: str
    environment: str
    device: str


def device_name(facts: Mapping[str, Any]) -> str:
    """The GPU of an environment, else its CPU."""
    return str(facts.get("gpu") or facts.get("cpu") or "unknown machine")


def sources(records: pd.DataFrame, environments: Mapping[str, Mapping[str, Any]]) -> list[Source]:
    """How many figures came from which source and environment."""
    valued = figures.figures_of(records)
    pairs = [(str(s), str(e)) for s, e in zip(valued["source"], valued["environment"])]
    return [
        Source(
            source,
            plural(pairs.count((source, identity)), "value"),
            identity,
            device_name(environments.get(identity, {})),
        )
        for source, identity in sorted(set(pairs))
    ]


@dataclass(frozen=True)
class Banner:
    """Whose figures the page shows, in plain words. kind: live, recorded or nothing."""

    kind: str
    headline: str
    detail: str


def banner(target: Mapping[str, Any], records: pd.DataFrame) -> Banner:
    """The headline; a machine that measured nothing must not read as if it had."""
    label, reason = target["label"], target["reason"]
    valued = figures.figures_of(records)
    from_recording = int(valued["source"].astype(str).str.startswith("recorded:").sum())
    here = int(valued["source"].isin(["counters", "events"]).sum())
    if target["live"]:
        if here:
            detail = (
                "Every value below was measured on this machine, by this run or by an earlier one "
                "under the same content key."
            )
            return Banner("live", f"Measured live on {label}", detail)
        detail = "The GPU is there, but no stage gave a figure: see the statuses below."
        return Banner("nothing", f"Nothing was measured on {label}", detail)
    on_host = (
        f" {plural(here, 'value')} of CPU variants came from this machine, "
        f"{device_name(target['environments'].get(target['host'], {}))}."
        if here
        else ""
    )
    if target["recorded"] is None:
        headline = f"Nothing measured on a GPU ({reason}), and no recorded figures are shown"
        return Banner("nothing", headline, f"What needs a GPU is listed as not measured.{on_host}")
    headline = f"Recorded on {label} — not measured on this machine ({reason})"
    if not from_recording:
        detail = f"None of the recorded figures fits the code here.{on_host}"
        return Banner("nothing", f"{headline}, and none of it fits this tree", detail)
    detail = (
        f"{plural(from_recording, 'value')} below were measured on {label} earlier and are shipped "
        "with the project. They are shown where their key, the content of code, launch, inputs and "
        f"method, is that of this tree.{on_host}"
    )
    return Banner("recorded", headline, detail)


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
    table: Table | None
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
    return StudyView(
        name=name,
        title=entry.title,
        question=entry.question,
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        sources=sources(records, environments),
        table=table(pd.read_csv(data)) if data.is_file() and data.stat().st_size > 1 else None,
        groups=troubles(cases, records),
        files=files,
        figure=f"figures/{name}.svg" if drawn.is_file() else "",
    )


def idea(kernel: Kernel) -> list[str]:
    """The idea in paragraphs: the front matter's `idea`, else the comment that follows it."""
    if kernel.front.idea:
        return [kernel.front.idea.strip()]
    if kernel.path.suffix not in FENCES:
        return []
    _, closing, _ = FENCES[kernel.path.suffix]
    sign = "#" if kernel.path.suffix == ".py" else "//"
    paragraphs: list[list[str]] = [[]]
    for line in kernel.text.partition(closing)[2].splitlines()[1:]:
        text = line.strip()
        if text and not text.startswith(sign):
            break
        words = text.removeprefix(sign).strip()
        if words:
            paragraphs[-1].append(words)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [" ".join(words) for words in paragraphs if words]


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


def _link(path: str | Path, page: Path) -> str:
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
    """What the compile stage says of a kernel's variants; only kernels with a cubin have rows."""
    rows = []
    for name, compiled in document.get("variants", {}).items():
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
                    listing=_link(entry.get("sass", ""), page),
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
    sums = rows.groupby("line")[columns].sum()
    using = rows[rows["wavefronts_shared"] > 0]
    opcodes = {
        line: ", ".join(sorted({str(opcode) for opcode in part["opcode"]}))
        for line, part in using.groupby("line")
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


def _kernel(
    project: Project,
    name: str,
    frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    environments: Mapping[str, Mapping[str, Any]],
    page: Path,
) -> KernelView:
    kernel = project.kernels[name]
    cases, records, instructions = frames
    cases = cases[cases["kernel"] == name]
    path = project.stage_path("compile", name)
    document = read(path) if path.is_file() else {}
    profiled = (records["kernel"] == name) & (records["source"] == "counters")
    reports = sorted((project.results / "ncu").glob(f"{name}*.ncu-rep"))
    reports = [one for one in reports if one.stem == name or one.stem.startswith(f"{name}-")]
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
        variants=variants(kernel, document, cases, page) if kernel.provider == "nvrtc" else [],
        # A report file of an earlier run says nothing about recorded figures.
        profiles=[_link(one, page) for one in reports] if profiled.any() else [],
        listing=listing(kernel, cases, instructions, environments),
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


def write(project: Project, inputs: figures.Inputs, path: str | Path) -> None:
    """Write index.html beside `figures/` and `tables/`, whole or not at all.

    Parameters
    ----------
    inputs: paths of the target document and of the tables (cases, records, instructions).
    path: where the page goes; figures are looked for in `figures/` beside it.
    """
    page = Path(path)
    target = read(Path(str(inputs.target)))
    cases = pd.read_parquet(str(inputs.cases))
    records = pd.read_parquet(str(inputs.records))
    instructions = figures.with_instruction_columns(pd.read_parquet(str(inputs.instructions)))
    environments = figures.environments(target)
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
                _kernel(project, name, (cases, records, instructions), environments, page)
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
