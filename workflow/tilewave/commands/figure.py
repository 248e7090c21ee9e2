"""``tilewave figure STUDY -o FILE``: one figure of the last report, for a paper.

Beside FILE stand its data (.csv), its caption (.txt) and a LaTeX figure with both (.tex). Without titles inside;
the text of an SVG is text. The figure is drawn from the run in this folder, so nothing is measured.
Exit code 0: drawn; 2: a mistake on the command line."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tilewave.basics.columns import filled
from tilewave.basics.errors import HERE, UserError
from tilewave.commands import flags
from tilewave.commands.report import latest

if TYPE_CHECKING:
    from tilewave.plots.base import StudyData


def add(commands: Any) -> None:
    flags.command(commands, "figure", run)


def run(options: Namespace) -> int:
    """Draw the figure and return the exit code. Raises UserError."""
    # pandas and matplotlib take a second to load, which other subcommands need not wait for.
    from tilewave.pipeline import project as projects
    from tilewave.plots import style as look
    from tilewave.report import cells, figures

    config: Path = options.configfile or latest()
    document = yaml.safe_load(config.read_text(encoding="utf-8"))
    results = Path(document.get("output", {}).get("results", "results"))
    if not (results / "tables" / "records.parquet").is_file():
        problem = f"{results} has no tables"
        raise UserError.because(HERE, problem, "Run `tilewave report` in this folder first")
    project = projects.planned(document, config, results / "plan.json")
    if options.study not in project.plan.studies:
        raise UserError(HERE, "STUDY", options.study, list(project.plan.studies))
    names = ("cases", "records", "instructions")
    tables = {name: results / "tables" / f"{name}.parquet" for name in names}
    loaded = figures.loaded(Namespace(target=results / "target.json", **tables))
    study = figures.of_tables(project, options.study, *loaded)
    dtypes, variants = ([*filter(None, of.split(","))] for of in (options.dtypes, options.variants))
    content = figures.drawing(project, chosen(study, dtypes, variants))
    style = figures.style_of(project)
    if options.width:
        style = replace(style, width_mm=millimetres(options.width))
    figure, file = content.draw(style), options.output
    look.save(figure, file, style, text=True)
    content.table.to_csv(file.with_suffix(".csv"), index=False, lineterminator="\n")
    caption = figures.caption_text(content.study, figure)
    file.with_suffix(".txt").write_text(caption, encoding="utf-8")
    sentences = " ".join(f"{line.removesuffix('.')}." for line in caption.splitlines())
    facts = {"width": style.width_mm, "file": file.name, "study": options.study}
    tex = filled(__file__, "figure", caption=cells.escaped(sentences), **facts) + "\n"
    file.with_suffix(".tex").write_text(tex, encoding="utf-8")
    print(f"{file}, with .csv, .txt and .tex beside it")
    return 0


_UNITS = {"mm": 1.0, "cm": 10.0, "in": 25.4}


def millimetres(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(mm|cm|in)", text)
    width = float(match[1]) * _UNITS[match[2]] if match else 0
    if not 60 <= width <= 400:
        raise UserError(HERE, "--width", text, "a number with mm, cm or in, from 60 to 400 mm")
    return width


def _wanted(flag: str, names: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the full names; f16 means f16_f32. Raises UserError for a name that the study does not have."""
    allowed = list(dict.fromkeys(present))
    full = [name if name in allowed else f"{name}_f32" for name in names]
    for name, typed in zip(full, names, strict=True):
        if name not in allowed:
            raise UserError(HERE, flag, typed, allowed)
    return full


def chosen(study: StudyData, dtypes: list[str], variants: list[str]) -> StudyData:
    """Return the study with only these dtypes and variants, and the cases that they are compared with.
    Raises UserError."""
    from tilewave.plots import base

    cases = study.cases
    beside = (cases["operation"] == "probe") | cases["kernel"].isin(base.vendors(study))
    kept, options = beside | True, dict(study.options)
    for flag, column, names in (("dtypes", "dtype", dtypes), ("variants", "variant", variants)):
        if names:
            options[flag] = _wanted(f"--{flag}", names, cases[column].dropna())
            always = beside if flag == "variants" else cases["operation"] == "probe"
            kept &= cases[column].isin(options[flag]) | always
    remaining = set(cases.loc[kept, "case"])
    return replace(
        study, cases=cases[kept].reset_index(drop=True), options=options,
        records=study.records[study.records["case"].isin(remaining)].reset_index(drop=True),
        instructions=study.instructions[study.instructions["case"].isin(remaining)].reset_index(drop=True),
    )  # fmt: skip
