"""The report's pages: the index, the kernels, one page a study and a kernel, lessons, explorer and glossary.

A machine without a GPU must never seem to have measured recorded values, so each page's top line and each
study's source line name the source. The pages load nothing from outside their folder and can be read without
scripts. The same tables give the same bytes: no date, no time of day, no order that depends on a set.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.basics.paths import INSTALLED
from tilewave.basics.tables import table_beside
from tilewave.pipeline.project import Project, read
from tilewave.plots import ladder
from tilewave.plots import style as look
from tilewave.records.store import write_atomically
from tilewave.report import FOLDERS, figures, kernel_views, lessons, summary, verdict
from tilewave.report.rendering import glossary, render
from tilewave.report.studies import StudyView, svg_size
from tilewave.workers import pool

TABLES = table_beside(__file__)
PHONE_MM, CARDS, FINDINGS, MOST_KERNELS, STORY, _NUMBERS = (
    TABLES[of] for of in ("phone_mm", "cards", "findings", "most_kernels", "story", "numbers")
)


def story(shown: Sequence[StudyView]) -> list[StudyView]:
    """Return the studies, the first of each plot of STORY before the others."""
    first = {study.plot: study for study in reversed(shown)}
    first_of_plots = [first[plot] for plot in STORY if plot in first]
    return [*first_of_plots, *(study for study in shown if study not in first_of_plots)]


def question(drawn: Mapping[str, pd.DataFrame]) -> str:
    """Return the index's title, with the first and the fastest rung of each dtype (`ladder.drawn_rungs`)."""
    parts = ["Why is a CUDA kernel slow?"]
    for name, rungs in drawn.items():
        count = _NUMBERS[len(rungs)] if len(rungs) < len(_NUMBERS) else str(len(rungs))
        span = f"from {rungs['share'].iloc[0]:.0f} % to {rungs['share'].max():.0f} %"
        more = f", {count.lower()} {name} {span}"
        parts.append(more if parts[1:] else f" {count} {name} kernels {span} of cuBLAS")
    return "".join(parts)


def findings(
    studies: Sequence[StudyView], rows: Sequence[kernel_views.KernelRow] = ()
) -> list[summary.Highlight]:
    """Return the sentences on kernels if they are few, and the takeaways, headlines first."""
    ordered = sorted(studies, key=lambda study: not study.headline)
    said = (study for study in ordered if study.takeaway)
    takeaways = [summary.Highlight(study.takeaway, study.title, study.page) for study in said]
    # With few kernels, a reader comes for them.
    if takeaways and len(rows) > MOST_KERNELS:
        return takeaways
    spoken = [
        summary.Highlight(f"{row.name}: {row.sentence}", row.title, f"kernel/{row.name}.html")
        for row in rows
        if row.sentence
    ]
    return [*spoken[:MOST_KERNELS], *takeaways]


def _narrow(project: Project, drawing: figures.Drawing, reports: Path) -> dict[str, object]:
    """Draw a figure that a phone shows without scrolling, and return its address and size in pixels."""
    address, style = f"study/{drawing.study.name}-narrow.svg", figures.style_of(project)
    style = replace(style, width_mm=max(60.0, PHONE_MM / 8 * style.font_size))
    look.save(drawing.draw(style), reports / address, style)
    width, height = svg_size(reports / address)
    return {"address": address, "width": width, "height": height}


def write(
    project: Project,
    inputs: Any,
    path: str | Path,
    workers: int = 1,
    done: Callable[[str], object] = lambda kernel: None,
) -> verdict.Verdict:
    """Write index.html and all other pages beside `figures/` and `tables/`. Return the verdict on them.
    inputs: paths of the target document, the tables (cases, records, instructions, stalls) and the documents of
    compilations and accesses. path: the index. done: called with the name of a kernel whose page is written."""
    index = Path(path)
    reports = index.parent
    target, cases, records, instructions = figures.loaded(inputs)
    instructions = figures.without_executions(instructions)
    environments = figures.environments(target)
    for folder in FOLDERS:
        shutil.rmtree(reports / folder, ignore_errors=True)
        (reports / folder).mkdir(parents=True)
    problems = summary.problems(cases, records)
    shown = [
        StudyView(project, name, (cases, records, problems), environments, reports)
        for name in project.plan.studies
    ]
    taught = lessons.about(project.plan.kernels, project.plan.studies)
    extra = [("Explorer", "explorer.html"), *(("Lessons", lesson.address) for lesson in taught[:1])]
    whose = summary.banner(target, records)
    about: dict[str, Any] = {"banner": whose, "extra": extra, "installed": INSTALLED}

    def page(name: str, template: str, context: Mapping[str, Any]) -> None:
        root = "../" * name.count("/")
        text = render(template, {**about, "root": root, **context})
        write_atomically(reports / name, text.encode())

    stalls = figures.table_of(Path(str(inputs.stalls)))
    compiled, accesses = (read(Path(str(path))) for path in (inputs.kernels, inputs.accesses))
    tables = cases, records, instructions, stalls, problems
    run = kernel_views.KernelRun(project, target, *tables, environments, compiled, shown, accesses)

    def item_page(item: str | StudyView) -> kernel_views.KernelRow | None:
        if isinstance(item, StudyView):
            page(f"study/{item.name}.html", "study.html.j2", {"study": item})
            return None
        row, kernel = kernel_views.view(run, item)
        page(f"kernel/{item}.html", "kernel.html.j2", {"kernel": kernel})
        return row

    rows: dict[str, kernel_views.KernelRow] = {}
    items: list[str | StudyView] = [*project.plan.kernels, *shown]
    for _, row in pool.shared(item_page, items, workers):
        if row is not None:
            rows[row.name] = row
            done(row.name)
    listed = [rows[name] for name in project.plan.kernels]
    quantized = [study for study in shown if "quantization" in study.plot]
    page("explorer.html", "explorer.html.j2", {"studies": quantized})
    page("glossary.html", "glossary.html.j2", glossary())
    page("kernels.html", "kernels.html.j2", {"kernels": listed})
    for lesson in taught:
        there = {"rows": rows, "studies": {study.name: study for study in shown}}
        page(lesson.address, "lesson.html.j2", {"lesson": lesson, "lessons": taught, **there})
    groups = summary.troubles(cases, problems)
    undrawn = {study.name: study.undrawn for study in shown if study.undrawn}
    judged = verdict.of(project, cases, records, undrawn)
    ordered = story(shown)
    highlights = findings(ordered, listed)
    in_short = summary.markdown(whose, judged, highlights, cases, groups)
    write_atomically(reports / "summary.md", in_short.encode())
    write_atomically(reports / "junit.xml", summary.junit(cases, judged).encode())
    paths = (reports / "tables" / name for name in ("records.csv", "instructions.csv"))
    written = [(path.name, f"tables/{path.name}") for path in paths if path.is_file()]
    rungs = next((study for study in shown if study.plot == "ladder"), None)
    valued = figures.figures_of(records)
    titled = rungs and rungs.page  # the title has the finding on the ladder
    drawn, narrow = dict[str, pd.DataFrame](), None
    if rungs and rungs.figure:
        study = figures.of_tables(project, rungs.name, target, cases, records, instructions)
        drawing = figures.drawing(project, study)
        drawn = ladder.drawn_rungs(drawing.study, drawing.table)
        narrow = _narrow(project, drawing, reports)
    page(
        index.name,
        "index.html.j2",
        {
            "question": question(drawn),
            "rungs": rungs,
            "drawn": {name: part.to_dict("records") for name, part in drawn.items()},
            "narrow": narrow,
            "cases": len(cases),
            "checked": sum(verdict.checked(word) for word in cases["verdict"]),
            "verdicts": summary.verdict_counts(cases, summary.ALWAYS),
            "judged": judged,
            "no_kernels": list(project.no_kernels.values()),
            "findings": [each for each in highlights if each.address != titled][:FINDINGS],
            "lessons": taught,
            "failures": [group for group in groups if not group.mild],
            "troubles": [group for group in groups if group.mild],
            "sources": summary.sources(records, environments),
            "cards": ordered[:CARDS],
            "others": ordered[CARDS:],
            "environments": environments,
            "target": target,
            "used": sorted({*map(str, valued["environment"].dropna())} - {""}),
            "tables": written,
        },
    )
    return judged
