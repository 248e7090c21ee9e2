"""Lessons for a class: texts beside the run's own figures, each with a question for the machine."""

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.report.kernel_views import KernelRow, KernelRun, speed


@dataclass(frozen=True)
class Lesson:
    """A page of text. kernels and studies: whose figures it shows where a run has them, of the first
    study the drawing; command: what follows `python -m tilewave` and answers the question; look:
    where the answer stands; also: titles and addresses of other pages."""

    place: int
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
        return f"lesson/{self.place}-{self.name}.html"


@functools.cache
def lessons() -> tuple[Lesson, ...]:
    """All lessons in order."""
    told = yaml.safe_load((TEMPLATES / "lessons.yaml").read_text("utf-8"))
    return tuple(Lesson(place, **one) for place, one in enumerate(told, 1))


def about(kernels: Container[str], studies: Container[str]) -> list[Lesson]:
    """The lessons that have a kernel or a study among these."""
    return [
        one
        for one in lessons()
        if any(name in kernels for name in one.kernels)
        or any(name in studies for name in one.studies)
    ]


def view(
    lesson: Lesson, run: KernelRun, rows: Mapping[str, KernelRow], others: Sequence[Lesson]
) -> dict[str, Any]:
    """What the template needs: the run's kernels and studies of the lesson, and what it lacks. The
    speed is that of the kernels' first variants."""
    studies = {one.name: one for one in run.studies}
    plain = run.cases[run.cases["variant"] == run.cases["kernel"]]
    return {
        "lesson": lesson,
        "lessons": others,
        "rows": [rows[name] for name in lesson.kernels if name in rows],
        "speed": speed(lesson.kernels, plain, run.shares, run.rates, most=5),
        "studies": [studies[name] for name in lesson.studies if name in studies],
        "missing": [
            *(f"the kernel {name}" for name in lesson.kernels if name not in rows),
            *(f"the study {name}" for name in lesson.studies if name not in studies),
        ],
    }
