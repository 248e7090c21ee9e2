"""A study's files: the figure as SVG (where asked for as PDF or PNG, too), its data as CSV, a JSON sidecar, maybe a
summary.

The sidecar says where the figure came from: content keys, commits, environments and the number of
figures from each source. The same tables give the same bytes in all of them.
"""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd
from matplotlib.figure import Figure

from tilewave import plots
from tilewave.basics.packages import package_versions
from tilewave.pipeline.project import Project, read
from tilewave.plots import style as look
from tilewave.plots.base import CASE_COLUMNS, INSTRUCTION_COLUMNS, StudyData, present
from tilewave.plots.style import Style
from tilewave.records.columns import with_excess
from tilewave.records.store import write_atomically
from tilewave.report import cells, undrawn
from tilewave.report.undrawn import Undrawn
from tilewave.workers import pool

SIDECAR_VERSION = 1
DRAWING = ("matplotlib", "seaborn", "pandas", "numpy")
"""Packages whose version may change a figure's bytes."""


class Inputs(Protocol):
    """Paths of the tables, as Snakemake's input object or a SimpleNamespace gives them."""

    target: Any
    cases: Any
    records: Any
    instructions: Any


def environments(target: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The target document's environments by id, each told whether it is a recorded one.

    Where figures are recorded, every environment but this machine's own came with them.
    """
    known: Mapping[str, Mapping[str, Any]] = target["environments"]
    return {
        name: {
            **facts,
            "id": name,
            "recorded": target["recorded"] is not None and name != target["host"],
        }
        for name, facts in known.items()
    }


def _expectations(cases: pd.DataFrame) -> pd.DataFrame:
    """What the kernel files expect and what was claimed, one column a count.

    `expect` and `claimed` are JSON texts in the table; {"wavefronts": 2} becomes the column
    `wavefronts_expected`.
    """
    for column, ending in (("expect", "expected"), ("claimed", "claimed")):
        if column not in cases:
            continue
        told = [json.loads(text) if present(text) else {} for text in cases[column]]
        for name in sorted({name for one in told for name in one}):
            values = [float(one.get(name, "nan")) for one in told]
            cases = cases.assign(**{f"{name}_{ending}": values})
    return cases


def with_instruction_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The table with all of INSTRUCTION_COLUMNS."""
    table = with_excess(table)
    return table.assign(**{name: None for name in INSTRUCTION_COLUMNS if name not in table})


def without_executions(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the rows of stage execute: what was measured, or stands in for it."""
    return table[table["stage"] != "execute"] if "stage" in table else table


def table_of(path: Path) -> pd.DataFrame:
    """A table with its texts as Python's: rows of Arrow's are chosen three times slower."""
    table = pd.read_parquet(path)
    return table.astype(dict.fromkeys(table.select_dtypes("str").columns, object))


def loaded(
    inputs: Inputs,
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The target document and the tables: cases, records, instructions."""
    paths = (inputs.cases, inputs.records, inputs.instructions)
    cases, records, instructions = (table_of(Path(str(path))) for path in paths)
    target: dict[str, Any] = read(Path(str(inputs.target)))
    return target, cases, records, with_instruction_columns(instructions)


def of_tables(
    project: Project,
    name: str,
    target: Mapping[str, Any],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    instructions: pd.DataFrame,
) -> StudyData:
    """What the plot of a study is drawn from: its cases in config order and what is known of them.

    name: a study of the plan; target: the target document; the rest: the run's tables.
    """
    study = project.config.studies[name]
    wanted = project.plan.studies[name]
    records, instructions = (
        frame[frame["case"].isin(wanted)] if "case" in frame else frame
        for frame in (records, instructions)
    )
    if not study.execute:
        records, instructions = map(without_executions, (records, instructions))
    chosen = cases[cases["case"].isin(wanted)].set_index("case", drop=False)
    chosen = chosen.loc[[case for case in wanted if case in chosen.index]].reset_index(drop=True)
    absent = [column for column in CASE_COLUMNS if column not in chosen]
    return StudyData(
        name=name,
        title=study.title,
        question=study.question,
        options=study.options,
        cases=_expectations(chosen.assign(**dict.fromkeys(absent))),
        records=records.reset_index(drop=True),
        instructions=instructions.reset_index(drop=True),
        environments=environments(target),
        target={
            "label": target["label"],
            "live": target["live"],
            "sms": target["device"].get("sms"),
            "environment": target["environment"],
            "reason": target["reason"],
        },
    )


def style_of(project: Project, name: str = "", narrow: bool = False) -> Style:
    """The figures' look as the config sets it, for all or for one study."""
    chosen = project.config.style
    own = project.config.studies[name].style.model_dump(exclude_none=True) if name else {}
    if narrow:
        own["width_mm"] = chosen.narrow_mm
    told = {"width_mm": chosen.width_mm, "font_size": chosen.font_size, "bare": chosen.bare}
    return Style(**{**told, **own})


def _counts(values: Iterable[object]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, values)).items()))


def figures_of(records: pd.DataFrame) -> pd.DataFrame:
    """The rows of the tidy table that hold a value."""
    metrics = records["metric"]
    return records[metrics.notna() & metrics.ne("") & records["value"].notna()]


def sidecar(study: StudyData) -> dict[str, Any]:
    """Where the figure came from: question, keys, commits, environments, counts by source."""
    records = study.records
    valued = figures_of(records)
    keys = {str(key) for key in valued["key"] if present(key)}
    keys |= {str(key) for key in study.instructions["key"] if present(key)}
    used = sorted({str(name) for name in valued["environment"] if present(name)})
    facts = {name: study.environments[name] for name in used if name in study.environments}
    states = records[["case", "stage", "status"]].drop_duplicates()
    return {
        "schema_version": SIDECAR_VERSION,
        "study": study.name,
        "title": study.title,
        "question": study.question,
        "takeaway": study.takeaway,
        "target": {"label": study.target["label"], "live": study.target["live"]},
        "cases": len(study.cases),
        "keys": sorted(keys),
        "commits": sorted({str(f["commit"]) for f in facts.values() if f.get("commit")}),
        "environments": facts,
        "sources": _counts(valued["source"]),
        "statuses": {
            str(stage): _counts(rows["status"]) for stage, rows in states.groupby("stage")
        },
        "verdicts": _counts(study.cases["verdict"]) if "verdict" in study.cases else {},
    }


class Drawing(NamedTuple):
    """What a study's files show. summary: where there is one; more: what else its sidecar says."""

    study: StudyData
    table: pd.DataFrame
    summary: Callable[[], pd.DataFrame] | None
    draw: Callable[[Style], Figure]
    more: Mapping[str, str] = {}


def _drawing(project: Project, study: StudyData) -> Drawing:
    """As its plot module draws it. Raises whatever the module raises."""
    plot = project.config.studies[study.name].plot
    module = plots.load(plot, project.where, f"studies.{study.name}.plot")
    table = module.table(study)
    study = replace(study, takeaway=plots.takeaway(plot, study, table))
    summary = None
    if plots.has_summary(plot):
        summary = functools.cache(functools.partial(plots.summary, plot, table))
    return Drawing(study, table, summary, functools.partial(module.draw, study, table))


def _box(study: StudyData, why: Undrawn) -> Drawing:
    """What stands in the place of a figure that raises."""
    draw = functools.partial(why.draw, study)
    return Drawing(study, why.table(), why.table, draw, {undrawn.KEY: why.sentence})


def write(
    project: Project, study: StudyData, outputs: Iterable[str | Path], why: Undrawn | None = None
) -> None:
    """Write the study's files; each path's suffix says which (`FIGURE_KINDS`), its folder the width.

    why: it cannot be drawn, where it cannot.

    Raises
    ------
    UserError: the config asks for a style that cannot be drawn, or for an unknown option. And whatever
        the plot module raises.
    """
    made = _box(study, why) if why else _drawing(project, study)
    study, table = made.study, made.table
    looks = {narrow: style_of(project, study.name, narrow) for narrow in (False, True)}

    @functools.cache
    def drawn(narrow: bool) -> Figure:
        return made.draw(looks[narrow])

    for path in map(Path, map(str, outputs)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "tables":
            summed = made.summary() if made.summary else table
            summed.to_csv(path, index=False, lineterminator="\n")
        elif path.parent.name == "thumbnails":
            look.thumbnail(drawn(False), path, looks[False])
        elif path.suffix == ".csv":
            table.to_csv(path, index=False, lineterminator="\n")
        elif path.suffix == ".json":
            told = {**sidecar(study), **made.more}
            text = json.dumps(told, indent=1, sort_keys=True, default=str)
            path.write_text(text + "\n", encoding="utf-8")
        elif path.suffix == ".txt":
            said = [study.takeaway or study.question, *look.caption(drawn(False))]
            path.write_text("\n".join(one for one in said if one) + "\n", encoding="utf-8")
        elif path.suffix == ".tex":
            frame = made.summary() if made.summary else table
            path.write_text(cells.latex(cells.table(frame)), encoding="utf-8")
        else:
            narrow = path.parent.name == "narrow"
            look.save(drawn(narrow), path, looks[narrow])


# ------------------------------------------------------------------------------------------ all of them


def _content(frame: pd.DataFrame) -> pd.DataFrame:
    """What a study's slice says, whatever columns and types other studies' rows bring into the table."""
    kept = frame.dropna(axis=1, how="all")
    numbers = dict.fromkeys(kept.select_dtypes("number").columns, float)
    return kept[sorted(kept.columns)].astype(numbers)


def content_key(told: Any, frames: Iterable[pd.DataFrame]) -> str:
    """Digest of what JSON can hold, and of tables."""
    made = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
    for frame in map(_content, frames):
        made.update("\0".join(map(str, frame.columns)).encode())
        made.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return made.hexdigest()


_versions = functools.cache(functools.partial(package_versions, DRAWING))


def _key(project: Project, study: StudyData) -> str:
    """Digest of all that decides a study's files: what it shows, how, and the code that draws it."""
    entry = project.config.studies[study.name]
    frames = (study.cases, study.records, study.instructions)
    # Not those that it shows nothing of: this machine's tells whether the tree was changed.
    used = {study.target["environment"], *study.records["environment"]}
    told = [
        project.study_digest(study.name),
        plots.digest("report.figures", entry.plot),
        project.config.studies[study.name].plot,
        study.target,
        {name: facts for name, facts in study.environments.items() if name in used},
        _versions(),
    ]
    return content_key(told, frames)


def _kept(project: Project, key: str, path: Path) -> Path:
    """Where the store has a file of a study."""
    folder = {"tables": "summary", "narrow": "narrow", "thumbnails": "small"}.get(
        path.parent.name, ""
    )
    return project.store.blob("figures", key, f".{folder}{path.suffix}")


def _taken(kept: Mapping[Path, Path]) -> bool:
    """Whether all files of a study were taken from the store; none is where one is not there."""
    try:
        found = {path: one.read_bytes() for path, one in kept.items()}
    except OSError:
        return False
    for path, data in found.items():
        path.write_bytes(data)
    return True


def _keep(kept: Mapping[Path, Path]) -> None:
    """Put a study's files into the store."""
    for path, one in kept.items():
        write_atomically(one, path.read_bytes())


def write_all(
    project: Project,
    names: Sequence[str],
    inputs: Inputs,
    outputs: Iterable[str | Path],
    workers: int = 1,
    done: Callable[[str], object] = lambda name: None,
) -> tuple[str, dict[str, Undrawn]]:
    """Write the files of several studies; from the store where nothing that decides them changed.

    outputs: paths; a file's name says which study it is of, and those in ``tables`` are summaries.
    done: is called with the name of each study whose files are there. Returns how many studies were
    drawn, and those that raised: their files say so, and the store does not keep them.
    """
    paths: dict[str, list[Path]] = {name: [] for name in names}
    for path in map(Path, map(str, outputs)):
        if path.stem in paths:
            paths[path.stem].append(path)
    tables = loaded(inputs)

    def made(name: str) -> bool | Undrawn:
        """Whether the study was drawn, or why it could not be."""
        study = of_tables(project, name, *tables)
        key, mine = _key(project, study), paths[study.name]
        kept = {path: _kept(project, key, path) for path in mine}
        for path in mine:
            path.parent.mkdir(parents=True, exist_ok=True)
        if _taken(kept):
            return False
        try:
            write(project, study, mine)
        except (Exception, SystemExit) as error:
            why = undrawn.of(error, project.config.studies[study.name].plot)
            write(project, study, mine, why)
            return why
        _keep(kept)
        return True

    # Those that take longest first.
    rows = Counter(tables[2]["case"])
    cases = project.plan.studies
    order = sorted(names, key=lambda name: -sum(rows[case] for case in cases[name]))
    drawn, failed = 0, {}
    for name, new in pool.shared(made, order, workers):
        if isinstance(new, Undrawn):
            failed[name] = new
        else:
            drawn += new
        done(name)
    return f"{drawn} of {len(order)} drawn", failed
