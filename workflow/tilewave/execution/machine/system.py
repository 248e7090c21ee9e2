"""Functions that the driver provides: printf and a failing assert.

Constant bank 4 holds their addresses, which a GPU's loader sets to its own code. Here they lie
after all code, and a call of one is answered at once. Arguments are in registers 4 and on, as in
the ABI; the return address is in registers 20 and 21.
"""

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.integer import LOCAL_WINDOW, joined
from tilewave.execution.machine.validity import fault

FIRST = 0x70000000  # address of the first function; the others follow as instructions do
BYTES = 16
ARGUMENT, RETURN_TO = 4, 20  # registers
PERCENT = uint32(37)


@njit
def called(m, warp, pc, function, lanes):
    """Answer a call of one of `codes.SYSTEM_CALLS`; another one is a fault."""
    if function == c.PRINT:
        for lane in range(32):
            if (lanes >> uint32(lane)) & uint32(1):
                _print(m, warp, lane)
        return
    kind = int64(s.ASSERTED if function == c.ASSERT_FAIL else s.SYSTEM_CALL)
    fault(m, kind, pc, warp, lanes, -1, function, 1)


@njit
def _print(m, warp, lane):
    """Keep what a thread prints, unformatted, and return the number of values to it."""
    R, control = view.registers(m)[warp], view.control(m)
    form = int64(joined(R[ARGUMENT + 1, lane], R[ARGUMENT, lane]))
    number = control[s.PRINTED]
    control[s.PRINTED] = number + 1
    if number < len(view.prints(m)):
        kept = view.prints(m)[number]
        view.fill(kept, int64(0))
        kept[0] = form
        if R[ARGUMENT + 3, lane] == LOCAL_WINDOW:
            words, at = view.local(m)[32 * warp + lane], int64(R[ARGUMENT + 2, lane]) >> 2
            end = view.control(m)[s.LOCAL_BYTES] >> 2
            for part in range(s.PRINT_ARGUMENTS):
                if at + 2 * part + 1 < end:
                    low, high = words[at + 2 * part], words[at + 2 * part + 1]
                    kept[1 + part] = int64(joined(high, low))
    R[ARGUMENT, lane] = _values(m, form)


@njit
def _values(m, form):
    """Count the values that a format names."""
    words, at = view.memory(m), form - view.origin(m)[0]
    count, after_percent = uint32(0), False
    while 0 <= at < 4 * len(words):
        letter = (words[at >> 2] >> uint32(8 * (at & 3))) & uint32(255)
        if letter == uint32(0):
            break
        if after_percent and letter == PERCENT:
            count -= uint32(1)
            after_percent = False
        elif letter == PERCENT:
            count += uint32(1)
            after_percent = True
        else:
            after_percent = False
        at += 1
    return count
