"""Lessons for a class: a picture of an idea, texts, and a question that a command answers."""

import functools
from collections.abc import Container, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.report.kernel_views import KernelRow
from tilewave.report.studies import StudyView


@functools.cache
def lessons() -> tuple[SimpleNamespace, ...]:
    """Return all lessons in order: the entries of lessons.yaml, with number and address."""
    entries = yaml.safe_load((TEMPLATES / "lessons.yaml").read_text("utf-8"))
    for number, entry in enumerate(entries, 1):
        entry |= {"number": number, "address": f"lesson/{number}-{entry['name']}.html"}
    return tuple(SimpleNamespace(**{"also": (), **entry}) for entry in entries)


def about(kernels: Container[str], studies: Container[str]) -> list[SimpleNamespace]:
    """Return the lessons that show one of these kernels or studies."""
    return [
        lesson
        for lesson in lessons()
        if any(name in kernels for name in lesson.kernels)
        or any(name in studies for name in lesson.studies)
    ]


def view(
    lesson: SimpleNamespace,
    shown: Sequence[StudyView],
    rows: Mapping[str, KernelRow],
    lessons_shown: Sequence[SimpleNamespace],
) -> dict[str, Any]:
    """Return the template's context: the lesson's kernels and studies in this run, and the missing ones."""
    studies = {study.name: study for study in shown}
    return {
        "lesson": lesson,
        "lessons": lessons_shown,
        "rows": [rows[name] for name in lesson.kernels if name in rows],
        "studies": [studies[name] for name in lesson.studies if name in studies],
        "missing": [
            *(f"the kernel {name}" for name in lesson.kernels if name not in rows),
            *(f"the study {name}" for name in lesson.studies if name not in studies),
        ],
    }
