"""Lessons for a class: texts beside the run's figures, each with a question that a command answers."""

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.report.kernel_views import KernelRow, KernelRun, speed


@dataclass(frozen=True)
class Lesson:
    """A lesson.

    kernels, studies: names whose figures it shows; command: the arguments of `python -m tilewave` that
    answer the question; look: where the output has the answer; also: titles and addresses of other pages.
    """

    number: int
    name: str
    title: str
    text: list[str]
    kernels: list[str]
    studies: list[str]
    question: str
    command: str
    look: str
    also: tuple[tuple[str, str], ...] = ()

    @property
    def address(self) -> str:
        return f"lesson/{self.number}-{self.name}.html"


@functools.cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order."""
    entries = yaml.safe_load((TEMPLATES / "lessons.yaml").read_text("utf-8"))
    return tuple(Lesson(number, **entry) for number, entry in enumerate(entries, 1))


def about(kernels: Container[str], studies: Container[str]) -> list[Lesson]:
    """Return the lessons that show one of these kernels or studies."""
    return [
        lesson
        for lesson in lessons()
        if any(name in kernels for name in lesson.kernels)
        or any(name in studies for name in lesson.studies)
    ]


def view(
    lesson: Lesson, run: KernelRun, rows: Mapping[str, KernelRow], lessons_shown: Sequence[Lesson]
) -> dict[str, Any]:
    """Return the template's context: the lesson's kernels and studies in this run, and the missing ones.

    The speed is that of the kernels' first variants.
    """
    studies = {study.name: study for study in run.studies}
    plain = run.cases[run.cases["variant"] == run.cases["kernel"]]
    return {
        "lesson": lesson,
        "lessons": lessons_shown,
        "rows": [rows[name] for name in lesson.kernels if name in rows],
        "speed": speed(lesson.kernels, plain, run.shares, run.rates, most=5),
        "studies": [studies[name] for name in lesson.studies if name in studies],
        "missing": [
            *(f"the kernel {name}" for name in lesson.kernels if name not in rows),
            *(f"the study {name}" for name in lesson.studies if name not in studies),
        ],
    }
