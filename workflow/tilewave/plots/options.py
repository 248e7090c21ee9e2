"""Options of the plots: a model `Options` (a `PlotOptions`) in a module, checked before anything runs.
`Options.of(study)` gives a study's. tools/plot_options.py writes docs/options.md from these classes."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(max_length=200)]
"""A name: of a kernel, a variant, a probe's case, an operation, a metric."""
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class PlotOptions(BaseModel):
    """The options of one plot module; a module without `Options` has none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @classmethod
    def of(cls, study: Any) -> Self:
        """Return the options that this class knows, as the study sets them; null is the default."""
        options = without_nulls(study.options)
        return cls.model_validate({key: options[key] for key in options if key in cls.model_fields})


class Named(PlotOptions):
    """The option of plots that draw variants by plain names."""

    names: dict[Name, Name] = Field({}, description="plain names of variants in the figure")


def without_nulls(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
