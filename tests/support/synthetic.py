"""Invented study data for the tests of the figures, and what their figures show."""

import functools
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from synthetic_studies import MAKERS
from tilewave.plots import load, takeaway
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, apply, caption


@functools.cache
def make(name: str) -> StudyData:
    """Return invented data for the plot module of that name. It is cached, so do not change its tables."""
    return MAKERS[name]()


@functools.cache
def empty(name: str) -> StudyData:
    """Return the same study with its cases and no record."""
    full = make(name)
    return replace(
        full, options={}, records=full.records.iloc[:0], instructions=full.instructions.iloc[:0],
        environments={}, target=full.target | {"environment": ""},
    )  # fmt: skip


@functools.cache
def _table(name: str, maker: Callable[[str], StudyData]) -> pd.DataFrame:
    return load(name).table(maker(name))


def table(name: str, study: StudyData) -> pd.DataFrame:
    """Return a module's table of a study. Those of `make` and `empty` are cached, so do not change them."""
    for maker in (make, empty):
        if study is maker(name):
            return _table(name, maker)
    return load(name).table(study)


ELSEWHERE = {"environment": "here", "source": "events"}


def changed(study: StudyData, to: dict[str, Any], **where: Any) -> StudyData:
    """Return the study with new values in the records that match ``where``."""
    records = study.records.copy()
    chosen = np.logical_and.reduce([records[name] == value for name, value in where.items()])
    assert chosen.any(), where
    records.loc[chosen, list(to)] = list(to.values())
    return replace(study, records=records)


def labels(*axes: Axes) -> list[str]:
    return [label.get_text() for ax in axes for label in ax.get_yticklabels()]


def finding(name: str, study: StudyData) -> str:
    """Return a figure's title sentence."""
    return takeaway(name, study, table(name, study))


def draw(module: ModuleType, study: StudyData, style: Style) -> Figure:
    """Draw the figure of a study from the module's table."""
    return module.draw(study, table(module.__name__.rpartition(".")[2], study), style)


def _boxes(text: Text, box: Bbox) -> list[tuple[str, Bbox]]:
    """Return a text with its box; a slanted one, which rises to the right, as a box for each character."""
    if text.get_rotation() % 90 < 1:
        return [(text.get_text(), box)]
    size = text.get_fontsize() * text.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    shares = [(at + 0.5) / len(text.get_text()) for at in range(len(text.get_text()))]
    middles = [(box.x0 + share * box.width, box.y0 + share * box.height) for share in shares]
    around = [Bbox.from_bounds(x - size / 2, y - size / 2, size, size) for x, y in middles]
    return [(f"{text.get_text()} ", box) for box in around]


def texts_of(fig: Figure) -> list[tuple[str, Bbox]]:
    """Return the texts that a figure draws (no tick outside its axis), with their boxes in pixels."""
    texts: list[tuple[str, Bbox]] = []
    draw = Text.draw

    def recorded(self: Text, renderer: RendererBase) -> None:
        if self.get_visible() and self.get_text().strip():
            texts.extend(_boxes(self, Text.get_window_extent(self, renderer)))
        draw(self, renderer)

    with pytest.MonkeyPatch.context() as patch, apply(Style()):  # as a file is written
        patch.setattr(Text, "draw", recorded)
        fig.draw_without_rendering()
    return texts


def said(fig: Figure) -> str:
    """Return all texts of a figure and its caption, with spaces for line breaks."""
    return " ".join(" ".join([*(text for text, _ in texts_of(fig)), *caption(fig)]).split())
