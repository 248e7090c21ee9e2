"""The report's pages: index.html, one page a study, one a kernel, the glossary, and what they link.

The index says first whose figures these are. A machine without a GPU must never read as if recorded
figures were its own, so its headline, every page's top line and every study's source line tell it.
The pages need nothing from outside their folder, and no script to be read. The same tables give the
same bytes: no date, no time of day, no order that depends on a set.
"""

import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from PIL import Image as Picture

from tilewave.basics import dependencies
from tilewave.basics.packages import package_versions
from tilewave.basics.paths import INSTALLED
from tilewave.pipeline.project import Project, read
from tilewave.records.store import write_atomically
from tilewave.report import (
    FOLDERS,
    explorer,
    figures,
    in_short,
    kernel_code,
    kernel_views,
    lessons,
    studies,
    verdict,
    words,
)
from tilewave.report.environments import environment_views
from tilewave.report.rendering import render
from tilewave.report.studies import PageImage, StudyView
from tilewave.report.summary import MILD, banner, sources, status_matrix, troubles, verdict_counts
from tilewave.workers import pool


def commands(project: Project) -> list[tuple[str, str]]:
    """What a reader types to get this report again, each with a remark."""
    study = next(iter(project.plan.studies))
    if INSTALLED:
        return [
            ("tilewave report", "in the folder that this report was made in"),
            (f"tilewave report --only {study}", "one study; kernels, dtypes and shapes work too"),
            ("tilewave record", "keep a live run as recorded figures of its GPU"),
        ]
    run = "snakemake --cores 1"
    return [
        ("make report", "install what is needed, then run the full study"),
        (f"{run} report", "the same where it is installed"),
        (f"{run} report --configfile FILE", "another config"),
        (f"{run} report --config only={study}", "one study; kernels, dtypes and shapes work too"),
        (f"{run} {project.reports.as_posix()}/figures/{study}.svg", "one figure"),
        (f"{run} record", "keep a live run as recorded figures of its GPU"),
    ]


# -------------------------------------------------------------------------------------------- the pages


def _thumbnail(reports: Path, name: str) -> PageImage | None:
    """The small picture of a figure for its card on the index."""
    path = reports / "thumbnails" / f"{name}.png"
    if not path.is_file():
        return None
    with Picture.open(path) as picture:
        return PageImage(f"thumbnails/{name}.png", picture.width // 2, picture.height // 2)


class PageInputs(figures.Inputs, Protocol):
    """Those of the figures, stall samples, and what is known of compilations and of accesses to shared
    memory."""

    stalls: Any
    kernels: Any
    accesses: Any


def write(
    project: Project,
    inputs: PageInputs,
    path: str | Path,
    workers: int = 1,
    done: Callable[[str], object] = lambda kernel: None,
) -> None:
    """Write index.html and all other pages beside `figures/` and `tables/`.

    Parameters
    ----------
    inputs: paths of the target document, of the tables (cases, records, instructions, stalls) and of
        the documents of compilations and of accesses.
    path: where the index goes; figures are looked for in `figures/` beside it.
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
        studies.view(project, name, (cases, records), environments, reports)
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

    def study_page(one: StudyView) -> None:
        page(f"study/{one.name}.html", "study.html.j2", {"study": one})

    def explorer_page() -> None:
        swept = explorer.sweeps(shown, cases, records, environments)
        page("explorer.html", "explorer.html.j2", explorer.view(swept))

    tables = cases, records, instructions, figures.table_of(Path(str(inputs.stalls)))
    accesses = read(Path(str(inputs.accesses)))
    run = kernel_views.KernelRun.of(
        project, target, tables, environments, compiled, shown, accesses, reports
    )

    same = [
        (whose.kind, whose.short, extra, INSTALLED), target["label"], target["arch"], target["device"],
        package_versions(("pandas", "jinja2")),
        dependencies.digest("report.site"), dependencies.templates_digest(),
    ]  # fmt: skip

    def kernel_page(name: str) -> kernel_views.KernelRow:
        # Most are as they were: they come from the store.
        kept = project.store.blob("pages", kernel_views.key(run, name, same), ".json")
        kernel_code.write_listings(compiled.get(name, {}).get("variants", {}), reports)
        found = project.store.read(kept)
        if found is None:
            kernel = kernel_views.view(run, name)
            text = render("kernel.html.j2", {**about, "root": "../", "kernel": kernel})
            found = [vars(kernel.row), text]
            project.store.write(kept, found)
        row, text = found
        text = kernel_views.with_findings(text, shown)
        write_atomically(reports / "kernel" / f"{name}.html", text.encode())
        return kernel_views.KernelRow(**row)

    names = list(project.plan.kernels)
    rows: dict[str, kernel_views.KernelRow] = {}
    parts: dict[str, Callable[[], kernel_views.KernelRow | None]] = {"": explorer_page}
    parts |= {name: functools.partial(kernel_page, name) for name in names}
    parts |= {f"study {one.name}": functools.partial(study_page, one) for one in shown}
    for name, row in pool.shared(lambda name: parts[name](), list(parts), workers):
        if row is not None:
            rows[name] = row
            done(name)
    page(
        "glossary.html",
        "glossary.html.j2",
        {
            "glossary": words.glossary(),
            "status_words": words.STATUS_WORDS,
            "verdict_words": words.VERDICT_WORDS,
            "source_words": words.SOURCE_WORDS,
        },
    )
    for lesson in taught:
        page(lesson.address, "lesson.html.j2", lessons.view(lesson, run, rows, taught))
    found, groups = (
        in_short.findings(shown, cases, [rows[one] for one in names if one in rows]),
        troubles(cases, verdict.unplanned(cases, records)),
    )
    left_out = {one.name: one.undrawn for one in shown if one.undrawn}
    judged = verdict.of(project, cases, records, left_out)
    summary = in_short.markdown(whose, judged, found, shown, cases, records)
    write_atomically(reports / "summary.md", summary.encode())
    write_atomically(reports / "junit.xml", in_short.junit(cases, records))
    written = [
        (f"{name}.csv", f"tables/{name}.csv")
        for name in ("records", "instructions")
        if (reports / "tables" / f"{name}.csv").is_file()
    ]
    page(
        index.name,
        "index.html.j2",
        {
            "cases": len(cases),
            "checked": sum(verdict.checked(word) for word in cases["verdict"]),
            "verdicts": verdict_counts(cases),
            "judged": judged,
            "no_kernels": list(project.no_kernels.values()),
            "findings": found,
            "lessons": taught,
            "failures": [one for one in groups if one.word not in MILD],
            "troubles": [one for one in groups if one.word in MILD],
            "matrix": status_matrix(records),
            "sources": sources(records, environments),
            "studies": [{**vars(one), "thumbnail": _thumbnail(reports, one.name)} for one in shown],
            "kernels": [rows[name] for name in names],
            "environments": environment_views(target, environments, records),
            "tables": written,
            "commands": commands(project),
        },
    )
