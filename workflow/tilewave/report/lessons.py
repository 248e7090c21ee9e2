"""Lessons for a class: a picture of an idea, texts, and a question that a command answers."""

import functools
from collections.abc import Iterable
from types import SimpleNamespace

import yaml

from tilewave.basics.paths import TEMPLATES


@functools.cache
def lessons() -> tuple[SimpleNamespace, ...]:
    """Return all lessons in order: the entries of lessons.yaml, with number and address."""
    entries = yaml.safe_load((TEMPLATES / "lessons.yaml").read_text("utf-8"))
    for number, entry in enumerate(entries, 1):
        entry |= {"number": number, "address": f"lesson/{number}-{entry['name']}.html"}
    return tuple(SimpleNamespace(**{"also": (), **entry}) for entry in entries)


def about(kernels: Iterable[str], studies: Iterable[str]) -> list[SimpleNamespace]:
    """Return the lessons that show one of these kernels or studies."""
    return [of for of in lessons() if {*of.kernels} & {*kernels} or {*of.studies} & {*studies}]
