"""A process that occupies the GPU's memory, or computes on it, until its parent ends:
python -m beside holding | computing"""

import signal
import sys

from tilewave.basics.lifetime import die_with_parent
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import open_gpu
from tilewave.gpu.session import Session

LEFT_BYTES = 5 << 28
"""Free memory: enough for a context and a small case, not for the 1.5 GiB of a large one."""

if __name__ == "__main__":
    die_with_parent()
    session = Session(open_gpu())
    if holding := sys.argv[1] == "holding":
        DeviceMemory(session.gpu).new("held", session.gpu.free_bytes() - LEFT_BYTES, guarded=False)
    print("ready", flush=True)
    while True:
        if holding:
            signal.pause()
        session.support.gate(40_000_000)  # 20 ms
        session.gpu.sync()
