"""Columns of the tidy tables that several rooms know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tilewave.records.counters.catalogue import EXCESS

if TYPE_CHECKING:
    pass


LAUNCHES = "launches"
"""A column of cases where one has several launches: as JSON, of each ``entry``, ``grid``,
``block_threads``, ``registers``, ``shared_bytes``. The other columns are of the one that leads."""


def with_excess(table: pd.DataFrame) -> pd.DataFrame:
    """Counts by instruction with the shared-memory wavefronts beyond the ideal, which follow from the two
    columns beside them where no column of their own says them."""
    if EXCESS in table or "wavefronts_shared" not in table:
        return table
    counted, ideal = (
        pd.to_numeric(table[name]) for name in ("wavefronts_shared", "wavefronts_shared_ideal")
    )
    return table.assign(**{EXCESS: counted - ideal})
