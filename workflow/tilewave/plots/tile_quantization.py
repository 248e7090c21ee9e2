"""Tile quantization: the cost of tiles at the edge, against N in small steps. One column more than full tiles
starts tiles that cost as much as full ones: the duration and the executed operations step."""

from functools import partial

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options

table = _sweeps.table
takeaway = partial(_quantization.takeaway, by="columns")
draw = partial(_quantization.draw, by="columns", order=("tflops", "useful"))
