"""Figures: each module draws one study, which names it in the config as `plot`.

A plot module offers:

- `table(study) -> DataFrame`: all values that the figure shows, in plain columns, with units in their names.
- `draw(study, table, style) -> Figure`: the figure of that very frame, which is also written as its CSV. It never fails on
  missing data.
- `READING`: two or three sentences on how to read the figure (axes, marks, lines); the library's are in readings.yaml.
- `Options` (optional): a class with the options of its study (`options.py`).
- `summary(table) -> DataFrame` (optional): a short table that the page shows in place of the long one.
- `page_table(data) -> DataFrame` (optional): the rows of the CSV as the page shows them, in place of all columns.
- `takeaway(study, table) -> str` (optional): the finding in one sentence with one number, "" where the data give none. It
  stands first on the page and in the caption: a figure has no title.
- `HEADLINE = True` (optional): the finding is among those that the report begins with.

A new figure is a new module: nothing here lists them. Plots know records only: no module of this package
touches a GPU, a kernel or the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tilewave.basics import dependencies
from tilewave.basics.errors import UserError
from tilewave.basics.plugins import Modules
from tilewave.basics.tables import table_beside
from tilewave.basics.validation import validated
from tilewave.plots.options import PlotOptions, without_nulls

if TYPE_CHECKING:
    import pandas as pd

    from tilewave.plots.base import StudyData


_HELPERS = ("base", "options", "style")
MODULES = Modules("plot", __name__, __path__, "TILEWAVE_PLOTS", _HELPERS)
READINGS: Mapping[str, str] = table_beside(f"{__path__[0]}/readings.yaml")


def digest(module: str, *names: str) -> str:
    """Return the digest of a module of the library and of these plot modules, users' files among them."""
    shipped = [f"plots.{name}" for name in names if not MODULES.file(name)]
    code = filter(None, map(MODULES.code, names))
    return "-".join([dependencies.digest(module, *shipped), *code])


def load(name: str, where_file: object = "config", key: object = "plot") -> ModuleType:
    """Return the plot module of that name. Raises UserError where there is none; the message lists those that exist."""
    return MODULES.load(name, where_file, key)


def offers(name: str, what: str) -> bool:
    """Return whether a plot module can be loaded and has an optional part, such as `summary` or `HEADLINE`."""
    try:
        return bool(getattr(load(name), what, None))
    except UserError:
        return False


def reading(name: str) -> str:
    """Return how to read a module's figure."""
    return str(getattr(load(name), "READING", READINGS.get(name, "")))


def takeaway(name: str, study: StudyData, table: pd.DataFrame) -> str:
    """Return the finding of a study in one sentence, "" where the module or the data give none."""
    compute = getattr(load(name), "takeaway", None)
    return "" if compute is None else str(compute(study, table))


def options_of(name: str) -> type[BaseModel] | None:
    """Return the model of a module's options; None for a user's module without one, which takes any option."""
    model = getattr(load(name), "Options", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    return None if MODULES.file(name) else PlotOptions


def check_options(
    name: str, options: Mapping[str, Any], where_file: object = "config", key: str = "options"
) -> None:
    """Refuse an option that the plot module does not have, or a value that it cannot take.
    Raises UserError: the first mistake, with what is allowed."""
    model = options_of(name)
    if model is PlotOptions and options:
        problem = f"{key} sets {next(iter(options))!r}, but the plot {name} takes no options"
        raise UserError.because(where_file, problem, "Allowed: none", key)
    if model is not None:
        validated(model, without_nulls(options), where_file, key)
