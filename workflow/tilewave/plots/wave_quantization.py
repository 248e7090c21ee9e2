"""Wave quantization: the cost of a partly filled last wave, against N in small steps.

The GPU runs as many blocks at a time as its SMs hold. One block more starts a wave in which most SMs wait. The
duration steps at those N only, not at every tile boundary. The SMs' active cycles, average over maximum, show
how long the others waited.
"""

from functools import partial

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options

HEADLINE = True
table = _sweeps.table
takeaway = partial(_quantization.takeaway, by="waves")
draw = partial(_quantization.draw, by="waves", order=("tflops", "active"))
