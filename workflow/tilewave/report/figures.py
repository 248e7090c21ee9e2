"""A study's files: the figure (SVG), its data (CSV), a sidecar (JSON), maybe a summary; same tables, same
bytes. The sidecar has the provenance: content keys, commits, environments, number of figures by source."""

import functools
import hashlib
import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import markupsafe
import pandas as pd
from matplotlib.figure import Figure

from tilewave import plots
from tilewave.basics.errors import UserError, one_line
from tilewave.basics.packages import package_versions
from tilewave.basics.paths import relative
from tilewave.pipeline.project import Project, read
from tilewave.plots import style as look
from tilewave.plots.base import CASE_COLUMNS, INSTRUCTION_COLUMNS, StudyData, present
from tilewave.plots.style import Style
from tilewave.records.columns import with_excess
from tilewave.records.store import write_atomically
from tilewave.report import UNDRAWN, cells
from tilewave.workers import pool

SIDECAR_VERSION = 1
SVG_TEXT = '<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="36pt"><text y="24">{}</text></svg>\n'
MOST = 400
"""The most characters of the reason why a figure could not be drawn; the log has all."""
DRAWING = ("matplotlib", "seaborn", "pandas", "numpy")
"""Packages whose version may change a figure's bytes."""


def environments(target: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the target document's environments by id, each marked as recorded or not.
    With recorded values, all environments except this machine's are recorded."""
    recorded = target["recorded"] is not None
    return {
        name: {**facts, "id": name, "recorded": recorded and name != target["host"]}
        for name, facts in target["environments"].items()
    }


def _expectations(cases: pd.DataFrame) -> pd.DataFrame:
    """Add a column for each count that kernel files expect or documents claim.
    The columns `expect` and `claimed` hold JSON: {"wavefronts": 2} becomes `wavefronts_expected`."""
    for column, ending in (("expect", "expected"), ("claimed", "claimed")):
        if column not in cases:
            continue
        documents = [json.loads(text) if present(text) else {} for text in cases[column]]
        for name in sorted({name for counts in documents for name in counts}):
            values = [float(counts.get(name, "nan")) for counts in documents]
            cases = cases.assign(**{f"{name}_{ending}": values})
    return cases


def without_executions(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["stage"] != "execute"] if "stage" in table else table


def table_of(path: Path) -> pd.DataFrame:
    """Read a table with Python strings, each once: selecting rows of Arrow strings takes three times as long."""
    table = pd.read_parquet(path)
    texts = table.select_dtypes("str").columns
    return table.astype(dict.fromkeys(texts, "category")).astype(dict.fromkeys(texts, object))


def loaded(inputs: Any) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read the target document and the tables of cases, records and instructions. inputs: as Snakemake names them."""
    paths = (inputs.cases, inputs.records, inputs.instructions)
    cases, records, instructions = (table_of(Path(str(path))) for path in paths)
    target: dict[str, Any] = read(Path(str(inputs.target)))
    instructions = with_excess(instructions)
    absent = [name for name in INSTRUCTION_COLUMNS if name not in instructions]
    return target, cases, records, instructions.assign(**dict.fromkeys(absent))


def of_tables(
    project: Project,
    name: str,
    target: Mapping[str, Any],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    instructions: pd.DataFrame,
) -> StudyData:
    """Return the data of a study's plot: its cases in config order, with their rows of the run's tables."""
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
        target={name: target[name] for name in ("label", "live", "environment", "reason")}
        | {"sms": target["device"].get("sms")},
    )


def style_of(project: Project) -> Style:
    """Return the config's style of figures."""
    return Style(**project.config.style.model_dump())


def _counts(values: Iterable[object]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, values)).items()))


def figures_of(records: pd.DataFrame) -> pd.DataFrame:
    metrics = records["metric"]
    return records[metrics.notna() & metrics.ne("") & records["value"].notna()]


def sidecar(study: StudyData) -> dict[str, Any]:
    """Return the figure's provenance: question, keys, commits, environments, counts by source."""
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
        "statuses": {stage: _counts(part) for stage, part in states.groupby("stage")["status"]},
        "verdicts": _counts(study.cases["verdict"]) if "verdict" in study.cases else {},
    }


def _document(study: StudyData, more: Mapping[str, str] = {}) -> str:
    text = json.dumps({**sidecar(study), **more}, indent=1, sort_keys=True, default=str)
    return f"{text}\n"


class Drawing(NamedTuple):
    """The content of a study's files; summary: returns the table of a plot without one."""

    study: StudyData
    table: pd.DataFrame
    summary: Callable[[], pd.DataFrame]
    draw: Callable[[Style], Figure]


def drawing(project: Project, study: StudyData) -> Drawing:
    """Return the drawing by the plot module. Raises any exception of the module."""
    plot = project.config.studies[study.name].plot
    module: Any = plots.load(plot, project.where, f"studies.{study.name}.plot")
    table = module.table(study)
    study = replace(study, takeaway=plots.takeaway(plot, study, table))

    @functools.cache
    def summary() -> pd.DataFrame:
        return module.summary(table) if plots.offers(plot, "summary") else table

    return Drawing(study, table, summary, functools.partial(module.draw, study, table))


class Undrawn(NamedTuple):
    """Why a study has no figure: the exception, the plot module with its line if known, and the traceback for
    the log. A plot may be a user's, and comes after all measurements: one that raises costs its figure."""

    sentence: str
    trace: str

    def write(self, study: StudyData, path: Path) -> None:
        """Write a study's file with the reason in place of its content."""
        if path.suffix == ".json":
            text = _document(study, {UNDRAWN: self.sentence})
        elif path.suffix == ".svg":
            text = SVG_TEXT.format(markupsafe.escape(self.sentence))
        else:
            text = f"not drawn: {self.sentence}\n"
        path.write_text(text, encoding="utf-8")


def why_undrawn(error: BaseException, plot: str) -> Undrawn:
    """Describe an exception of a plot module."""
    trace = traceback.TracebackException.from_exception(error)
    user_file = plots.MODULES.file(plot)
    file = user_file or Path(plots.__file__).parent / f"{plot}.py"
    lines = [frame.lineno for frame in trace.stack if Path(frame.filename) == file]
    reason = str(error) if isinstance(error, UserError) else "".join(trace.format_exception_only())
    words = reason.encode("utf-8", "backslashreplace").decode().split()
    place = f"{relative(file) if user_file else f'plots/{plot}.py'}{f', line {lines[-1]}' if lines else ''}"
    return Undrawn(f"{one_line(' '.join(words), MOST)} ({place})", "".join(trace.format()))


def caption_text(study: StudyData, figure: Figure) -> str:
    """Return a figure's caption: the finding, else the question, and the notes, a line each."""
    lines = [study.takeaway or study.question, *look.caption(figure)]
    return "\n".join(line for line in lines if line) + "\n"


def write(project: Project, study: StudyData, outputs: Iterable[str | Path]) -> None:
    """Write the study's files; a path's suffix selects the kind (`FIGURE_KINDS`). Raises UserError for a
    style that cannot be drawn or an unknown option. The plot module may raise other exceptions."""
    content = drawing(project, study)
    study, table, style = content.study, content.table, style_of(project)

    @functools.cache
    def drawn() -> Figure:
        return content.draw(style)

    for path in map(Path, map(str, outputs)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "tables":
            content.summary().to_csv(path, index=False, lineterminator="\n")
        elif path.suffix == ".csv":
            table.to_csv(path, index=False, lineterminator="\n")
        elif path.suffix == ".json":
            path.write_text(_document(study), encoding="utf-8")
        elif path.suffix == ".txt":
            path.write_text(caption_text(study, drawn()), encoding="utf-8")
        elif path.suffix == ".tex":
            path.write_text(cells.latex(cells.table(content.summary())), encoding="utf-8")
        else:
            look.save(drawn(), path, style)


def _content(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a study's slice without the columns and types that other studies' rows bring."""
    kept = frame.dropna(axis=1, how="all")
    numbers = dict.fromkeys(kept.select_dtypes("number").columns, float)
    return kept[sorted(kept.columns)].astype(numbers)


def content_key(content: Any, frames: Iterable[pd.DataFrame]) -> str:
    """Return the digest of a JSON value and of tables."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    for frame in map(_content, frames):
        digest.update("\0".join(map(str, frame.columns)).encode())
        digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


_versions = functools.cache(functools.partial(package_versions, DRAWING))


def _key(project: Project, study: StudyData) -> str:
    """Return the digest of all that a study's files depend on: data, style and code."""
    entry = project.config.studies[study.name]
    settings = entry.model_dump(exclude={"cases", "time", "tune", "counters"})
    cases, style = project.plan.studies[study.name], project.config.style.model_dump()
    frames = (study.cases, study.records, study.instructions)
    # Without unused environments: this machine's says whether the tree has uncommitted changes.
    used = {study.target["environment"], *study.records["environment"]}
    content = [
        [settings, cases, style],
        plots.digest("report.figures", entry.plot),
        entry.plot,
        study.target,
        {name: facts for name, facts in study.environments.items() if name in used},
        _versions(),
    ]
    return content_key(content, frames)


def _taken(kept: Mapping[Path, Path]) -> bool:
    """Copy a study's files from the store and return True, or False if one is missing."""
    try:
        contents = {path: stored.read_bytes() for path, stored in kept.items()}
    except OSError:
        return False
    for path, data in contents.items():
        path.write_bytes(data)
    return True


def write_all(
    project: Project,
    names: Sequence[str],
    inputs: Any,
    outputs: Iterable[str | Path],
    workers: int = 1,
    done: Callable[[str], object] = lambda name: None,
) -> tuple[str, dict[str, Undrawn]]:
    """Write the files of several studies, from the store where nothing changed.

    outputs: paths, each with its study's name as stem; those in ``tables`` are summaries; done: called with
    the name of each finished study. Returns the number of studies drawn as text, and those that raised.
    Their files say so and do not go into the store.
    """
    paths: dict[str, list[Path]] = {name: [] for name in names}
    for path in map(Path, map(str, outputs)):
        if path.stem in paths:
            paths[path.stem].append(path)
    tables = loaded(inputs)

    def drawn_study(name: str) -> bool | Undrawn:
        """Return whether the study was drawn anew, or why it could not be drawn."""
        study = of_tables(project, name, *tables)
        key, study_paths = _key(project, study), paths[study.name]
        kept = dict[Path, Path]()  # in the store
        for path in study_paths:
            kind = f".{'summary' * (path.parent.name == 'tables')}{path.suffix}"
            kept[path] = project.store.blob("figures", key, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
        if _taken(kept):
            return False
        try:
            write(project, study, study_paths)
        except (Exception, SystemExit) as error:
            why = why_undrawn(error, project.config.studies[study.name].plot)
            for path in study_paths:
                why.write(study, path)
            return why
        for path, stored in kept.items():
            write_atomically(stored, path.read_bytes())
        return True

    # The slowest first.
    rows = Counter(tables[2]["case"])
    cases = project.plan.studies
    order = sorted(names, key=lambda name: -sum(rows[case] for case in cases[name]))
    drawn, failed = 0, {}
    for name, outcome in pool.shared(drawn_study, order, workers):
        if isinstance(outcome, Undrawn):
            failed[name] = outcome
        else:
            drawn += outcome
        done(name)
    return f"{drawn} of {len(order)} drawn", failed
