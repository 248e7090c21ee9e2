"""Figures: one module a study, found by the name that the study's config entry gives as `plot`.

A plot module offers `table(study) -> DataFrame`, `draw(study, table, style) -> Figure`, and
`READING`, two or three sentences on how to read the figure (axes, marks, lines), for those who see one for the
first time; where its study entry may set options, a class `Options` (`options.py`). `draw` is given the very frame that `table`
returned and is written beside the figure as CSV: every value that is drawn comes from it, the study tells
the rest (options, title, what is missing, environments). A module whose table is what readers come for
says `OPEN_TABLE = True`; one may offer `summary(table) -> DataFrame` besides, which the page shows before
the table, and `takeaway(study, table) -> str`: the finding in one sentence, computed from the table, ""
where the data do not give it; it is the figure's title and stands first on the page; a module that says `HEADLINE = True` has one of the
findings that the report begins with. A new figure is a new module: nothing here lists them. Plots know records only: no module of
this package touches a GPU, a kernel or the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import BaseModel

from tilewave.basics import dependencies
from tilewave.basics.errors import UserError
from tilewave.basics.plugins import Modules
from tilewave.basics.validation import validated
from tilewave.plots.options import PlotOptions, document, without_nulls

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from tilewave.plots.base import StudyData
    from tilewave.plots.style import Style


class PlotModule(Protocol):
    """What a module of this package offers."""

    READING: str

    def table(self, study: StudyData) -> pd.DataFrame:
        """What the figure shows, in plain columns with units in their names."""

    def draw(self, study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
        """The figure of that table; never fails on missing data."""


MODULES = Modules(
    "plot", __name__, __path__, "TILEWAVE_PLOTS", helpers=("base", "options", "style")
)


def available() -> list[str]:
    """The names of all plot modules, sorted."""
    return MODULES.names()


def digest(module: str, *names: str) -> str:
    """Digest of a module of the library and of these plot modules, users' files among them."""
    shipped = [f"plots.{name}" for name in names if not MODULES.file(name)]
    return "-".join(
        [dependencies.digest(module, *shipped), *filter(None, map(MODULES.code, names))]
    )


def load(name: str, where_file: object = "config", key: object = "plot") -> PlotModule:
    """The plot module of that name.

    Raises
    ------
    UserError: there is no such module; the message lists those that exist.
    """
    return cast(PlotModule, MODULES.load(name, where_file, key))


def _attribute(name: str, what: str) -> Any:
    """What a plot module has under a name; None where it has nothing, or cannot be loaded."""
    try:
        return getattr(load(name), what, None)
    except UserError:
        return None


def table_stays_open(name: str) -> bool:
    """Whether the page shows the module's table however long it is: its OPEN_TABLE."""
    return bool(_attribute(name, "OPEN_TABLE"))


def has_summary(name: str) -> bool:
    """Whether the module makes a `summary`."""
    return _attribute(name, "summary") is not None


def is_headline(name: str) -> bool:
    """Whether the module's finding is one of those that the report begins with: its HEADLINE."""
    return bool(_attribute(name, "HEADLINE"))


def summary(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The summary that a module with one makes of its table."""
    module: Any = load(name)
    rows: pd.DataFrame = module.summary(table)
    return rows


def takeaway(name: str, study: StudyData, table: pd.DataFrame) -> str:
    """The finding of a study in one sentence, "" where the module or the data give none."""
    compute = getattr(load(name), "takeaway", None)
    return "" if compute is None else str(compute(study, table))


def options_of(name: str) -> type[BaseModel] | None:
    """The model of a module's options; None for a user's module that declares none: it takes any."""
    model = getattr(load(name), "Options", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    return None if MODULES.file(name) else PlotOptions


def check_options(
    name: str, options: Mapping[str, Any], where_file: object = "config", key: str = "options"
) -> None:
    """Refuse an option that the plot module does not know, or a value that it cannot take.

    Raises UserError: the first one, with what is allowed.
    """
    model = options_of(name)
    if model is PlotOptions and options:
        problem = f"{key} sets {next(iter(options))!r}, but the plot {name} takes no options"
        raise UserError.because(where_file, problem, "Allowed: none", key)
    if model is not None:
        validated(model, without_nulls(options), where_file, key)


def documented() -> str:
    """docs/options.md: the options of the modules that come with Tilewave."""
    shipped = [name for name in available() if MODULES.file(name) is None]
    models = {
        name: model for name in shipped if (model := options_of(name)) not in (None, PlotOptions)
    }
    return document(cast(Mapping[str, type[BaseModel]], models))
