"""Figures: one module a study, found by the name that the study's config entry gives as `plot`.

A plot module offers `table(study) -> DataFrame`, `draw(study, style) -> Figure` and `OPTIONS`, the
options its study entry may set, each with a sentence. A module whose table is what readers come for
says `OPEN_TABLE = True`; one of SUMMARISED offers `summary(study) -> DataFrame` besides, which the page
shows before the table. A new figure is a new module: nothing here
lists them. Plots know records only: no module of this package touches a GPU, a kernel or the store.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilewave.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from tilewave.plots.base import StudyData
    from tilewave.plots.style import Style

_HELPERS = frozenset({"base", "style"})
SUMMARISED = ("ladder",)
"""Modules with a `summary`; named here, because the workflow asks before it imports any module."""


class PlotModule(Protocol):
    """What a module of this package offers."""

    OPTIONS: Mapping[str, str]

    def table(self, study: StudyData) -> pd.DataFrame:
        """What the figure shows, in plain columns with units in their names."""

    def draw(self, study: StudyData, style: Style) -> Figure:
        """The figure; never fails on missing data."""


def available() -> list[str]:
    """The names of all plot modules, sorted."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(n for n in names if not n.startswith("_") and n not in _HELPERS)


def load(name: str, where_file: object = "config", key: object = "plot") -> PlotModule:
    """The plot module of that name.

    Raises
    ------
    UserError: there is no such module; the message lists those that exist.
    """
    names = available()
    if name not in names:
        raise UserError(where_file, key, name, names)
    return cast(PlotModule, importlib.import_module(f"{__name__}.{name}"))


def table_stays_open(name: str) -> bool:
    """Whether the page shows the module's table however long it is: its `OPEN_TABLE`, if it has one."""
    return bool(getattr(load(name), "OPEN_TABLE", False))


def summary(name: str, study: StudyData) -> pd.DataFrame:
    """The summary of a study that a module of SUMMARISED draws."""
    made: pd.DataFrame = load(name).summary(study)  # type: ignore[attr-defined]
    return made


def check_options(
    name: str, options: Mapping[str, Any], where_file: object = "config", key: object = "options"
) -> None:
    """Refuse an option that the plot module does not know.

    Raises
    ------
    UserError: the first unknown option, with those allowed.
    """
    known = load(name, where_file, key).OPTIONS
    for option in options:
        if option not in known:
            raise UserError(
                where_file, f"{key}.{option}", option, known or f"{name} takes no options"
            )
