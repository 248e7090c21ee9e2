"""Coefficients of the special function unit, from sweeps over all mantissas on an H200.

The unit interpolates: the mantissa's first bits choose a row. The other bits, x, enter C0 + C1 * x + C2 * square(x),
where the square skips its low columns (Oberman and Siu, "A high-performance area-efficient multifunction
interpolator"). These rows give every result of the sweeps to the last bit. coefficients.csv holds C0, C1, C2 of each
function as integers; BITS counts their binary digits below the result's last one.
"""

import csv
from itertools import groupby
from pathlib import Path

import numpy as np

TABLES = Path(__file__).with_name("coefficients.csv")
RCP_BITS, RSQ_BITS, SQRT_BITS, EX2_BITS, LG2_BITS = 15, 17, 18, 15, 38
with TABLES.open(newline="") as _file:
    RCP, RSQ, SQRT, EX2, LG2 = (
        np.array([row[1:] for row in rows]).astype(np.int64)
        for _, rows in groupby(list(csv.reader(_file))[1:], key=lambda row: row[0])
    )
