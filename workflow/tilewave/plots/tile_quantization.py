"""Tile quantization: the cost of tiles at the edge, against N in small steps.

One column more than a whole number of tiles starts a new tile column that costs as much as a full one. The duration
steps, the throughput drops, and the tensor cores execute more operations than 2 m n k, by exactly the tiles' waste.
"""

from functools import partial

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options

table = _sweeps.table
takeaway = partial(_quantization.takeaway, by="columns")
draw = partial(_quantization.draw, by="columns", order=("tflops", "useful"))
