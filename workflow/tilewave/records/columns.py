"""Columns of the tidy tables that several rooms use."""

import pandas as pd

from tilewave.records.counters.catalogue import EXCESS

LAUNCHES = "launches"
"""A column of cases with several launches: JSON with ``entry``, ``grid``, ``block_threads``, ``registers``
and ``shared_bytes`` of each. The other columns belong to the leading launch."""


def with_excess(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column of excess shared-memory wavefronts (counted less ideal), unless it is there."""
    if EXCESS in table or "wavefronts_shared" not in table:
        return table
    counted, ideal = table["wavefronts_shared"], table["wavefronts_shared_ideal"]
    return table.assign(**{EXCESS: pd.to_numeric(counted) - pd.to_numeric(ideal)})
