"""The report's pages: the index, the kernels, one page a study and a kernel, lessons, explorer and glossary.

A machine without a GPU must never seem to have measured recorded figures, so each page's top line and each
study's source line name the source. The pages load nothing from outside their folder and can be read without
scripts. The same tables give the same bytes: no date, no time of day, no order that depends on a set.
"""

import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilewave.basics.paths import INSTALLED
from tilewave.pipeline.project import Project, read
from tilewave.records.store import write_atomically
from tilewave.report import (
    FOLDERS,
    figures,
    in_short,
    kernel_views,
    lessons,
    verdict,
)
from tilewave.report.rendering import glossary, render
from tilewave.report.studies import StudyView
from tilewave.report.summary import (
    MILD,
    banner,
    environment_views,
    sources,
    troubles,
    verdict_counts,
)
from tilewave.workers import pool

CARDS = 10
"""The most studies with a card on the index; the others are in a list."""


def write(
    project: Project,
    inputs: figures.Inputs,
    path: str | Path,
    workers: int = 1,
    done: Callable[[str], object] = lambda kernel: None,
) -> None:
    """Write index.html and all other pages beside `figures/` and `tables/`.

    Parameters
    ----------
    inputs: paths of the target document, the tables (cases, records, instructions, stalls) and the
        documents of compilations and of accesses.
    path: the index; figures are expected in `figures/` beside it.
    done: called with the name of each kernel whose page is written.
    """
    index = Path(path)
    reports = index.parent
    target, cases, records, instructions = figures.loaded(inputs)
    instructions = figures.without_executions(instructions)
    environments = figures.environments(target)
    compiled = read(Path(str(inputs.kernels)))
    for folder in FOLDERS:
        shutil.rmtree(reports / folder, ignore_errors=True)
        (reports / folder).mkdir(parents=True)
    shown = [
        StudyView(project, name, (cases, records), environments, reports)
        for name in project.plan.studies
    ]
    taught = lessons.about(project.plan.kernels, project.plan.studies)
    extra = [("Explorer", "explorer.html"), *(("Lessons", lesson.address) for lesson in taught[:1])]
    whose = banner(target, records)
    about: dict[str, Any] = {"banner": whose, "extra": extra, "installed": INSTALLED}

    def page(name: str, template: str, context: Mapping[str, Any]) -> None:
        root = "../" * name.count("/")
        text = render(template, {**about, "root": root, **context})
        write_atomically(reports / name, text.encode())

    def study_page(study: StudyView) -> None:
        page(f"study/{study.name}.html", "study.html.j2", {"study": study})

    tables = cases, records, instructions, figures.table_of(Path(str(inputs.stalls)))
    accesses = read(Path(str(inputs.accesses)))
    run = kernel_views.KernelRun(project, target, tables, environments, compiled, shown, accesses)

    def kernel_page(name: str) -> kernel_views.KernelRow:
        kernel = kernel_views.view(run, name)
        page(f"kernel/{name}.html", "kernel.html.j2", {"kernel": kernel})
        row: kernel_views.KernelRow = kernel["row"]
        return row

    names = list(project.plan.kernels)
    rows: dict[str, kernel_views.KernelRow] = {}
    parts: dict[str, Callable[[], kernel_views.KernelRow | None]] = {
        name: functools.partial(kernel_page, name) for name in names
    }
    parts |= {f"study {study.name}": functools.partial(study_page, study) for study in shown}
    for name, row in pool.shared(lambda name: parts[name](), list(parts), workers):
        if row is not None:
            rows[name] = row
            done(name)
    listed = [rows[name] for name in names]
    quantized = [study for study in shown if "quantization" in study.plot]
    page("explorer.html", "explorer.html.j2", {"studies": quantized})
    page("glossary.html", "glossary.html.j2", glossary())
    page("kernels.html", "kernels.html.j2", {"kernels": listed})
    for lesson in taught:
        page(lesson.address, "lesson.html.j2", lessons.view(lesson, shown, rows, taught))
    groups = troubles(cases, verdict.unplanned(cases, records))
    undrawn = {study.name: study.undrawn for study in shown if study.undrawn}
    judged = verdict.of(project, cases, records, undrawn)
    story = in_short.story(shown)
    findings = in_short.findings(story, listed)
    summary = in_short.markdown(whose, judged, findings, cases, groups)
    write_atomically(reports / "summary.md", summary.encode())
    write_atomically(reports / "junit.xml", in_short.junit(cases, judged))
    written = [
        (f"{name}.csv", f"tables/{name}.csv")
        for name in ("records", "instructions")
        if (reports / "tables" / f"{name}.csv").is_file()
    ]
    rungs, question = in_short.question(project, shown)
    page(
        index.name,
        "index.html.j2",
        {
            "question": question,
            "rungs": rungs,
            "cases": len(cases),
            "checked": sum(verdict.checked(word) for word in cases["verdict"]),
            "verdicts": verdict_counts(cases),
            "judged": judged,
            "no_kernels": list(project.no_kernels.values()),
            # The title has the finding on the ladder.
            "findings": [
                finding for finding in findings if finding.address != (rungs and rungs.page)
            ][: in_short.FINDINGS],
            "lessons": taught,
            "failures": [group for group in groups if group.word not in MILD],
            "troubles": [group for group in groups if group.word in MILD],
            "sources": sources(records, environments),
            "cards": story[:CARDS],
            "others": story[CARDS:],
            "environments": environment_views(target, environments, records),
            "tables": written,
        },
    )
