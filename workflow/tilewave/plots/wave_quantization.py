"""Wave quantization: the cost of a partly filled last wave, against N in small steps.
One block more than the SMs hold at a time starts a wave in which most SMs wait, as the average of their
active cycles over the maximum shows. The duration steps at those N only, not at every tile boundary."""

from functools import partial

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options

HEADLINE = True
table = _sweeps.table
takeaway = partial(_quantization.takeaway, by="waves")
draw = partial(_quantization.draw, by="waves", order=("tflops", "active"))
