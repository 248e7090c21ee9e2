"""Exchanges between the lanes of a warp through memory, without __syncwarp between.

`state.recent` keeps a warp's stores since its lanes met: at a barrier, a WARPSYNC, or the NOP to which
ptxas compiles __syncwarp where the lanes are together; `state.loaded` keeps its loads of shared memory.
A load of what another lane stored since then, or a store to what another lane loaded, is a race: lanes of
a warp are scheduled independently. Shuffles, votes and products of matrices order no memory, but code that
relies on them is not reported.
"""

import numpy as np
from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import control, votes
from tilewave.execution.machine.validity import collision, ends

# Columns of an access; then the address of each lane.
PC, MASK, LOW, HIGH, ADDRESSES = range(5)
# Columns of `state.apart`: lanes that fenced their writes from the asynchronous proxy, and the tick of the fence before;
# the tick up to which some lanes know that bulk stores have read, and these lanes; the last bulk store.
FENCED, BEFORE, READ, KNOWING, STORE = range(5)


@njit
def met(m, warp):
    """Forget what lanes did apart: the lanes of a warp have met."""
    view.recent(m)[warp, 0, 0] = view.loaded(m)[warp, 0, 0] = 0
    view.apart(m)[warp, FENCED] = 0
    share(m, warp)


@njit
def share(m, warp):
    """Let all lanes of a warp know which bulk stores have read what they store."""
    apart = view.apart(m)[warp]
    if apart[READ]:
        actor = (1 + s.BULKS) * view.control(m)[s.WARPS] + warp
        clock = view.clocks(m)[warp]
        clock[actor] = max(clock[actor], uint32(apart[READ]))
        apart[READ] = 0


@njit
def note(m, warp, pc, row, mask, addresses, width, loading):
    """Note an access of a warp's lanes to shared or global memory before it executes."""
    if row[c.FLAGS] & c.STRONG or not view.control(m)[s.RACES]:
        return
    exposed = row[c.FLAGS] & c.EXPOSED
    if view.recent(m)[warp, 0, 0] and loading:
        _collided(m, warp, pc, mask, addresses, width, view.recent(m)[warp], True)
    elif view.loaded(m)[warp, 0, 0] and not loading:
        _collided(m, warp, pc, mask, addresses, width, view.loaded(m)[warp], False)
    if exposed:
        recent = view.loaded(m)[warp] if loading else view.recent(m)[warp]
        access = recent[1 + recent[0, 0] % s.RECENT]
        recent[0, 0] += 1
        access[PC], access[MASK] = pc, int64(mask) | width << int64(32)
        access[LOW], access[HIGH] = ends(mask, addresses, width)
        for lane in range(32):
            access[ADDRESSES + lane] = addresses[lane]


@njit
def _collided(m, warp, pc, mask, addresses, width, recent, loading):
    """Note a fault where a lane loads what another lane stored last since they met, or stores to what it loaded."""
    low, high = ends(mask, addresses, width)
    pending, count = uint32(mask), recent[0, 0]
    for back in range(1, 1 + min(count, int64(s.RECENT))):
        access = recent[1 + (count - back) % s.RECENT]
        if access[LOW] >= high or access[HIGH] <= low:
            continue
        lanes, others, first = uint32(0), uint32(0), int64(-1)
        for lane in range(32):
            if (pending >> uint32(lane)) & uint32(1):
                # A lane's own store comes first, its own load last.
                other = _covering(access, lane + int64(not loading), addresses[lane], width)
                if other >= 0 and loading:
                    pending &= ~(uint32(1) << uint32(lane))
                if other >= 0 and other != lane:
                    first = addresses[lane] if first < 0 else first
                    lanes |= uint32(1) << uint32(lane)
                    others |= uint32(1) << uint32(other)
        if lanes and not _collective_between(m, access[PC], pc):
            collision(
                m, int64(s.NOT_MET), int64(pc), int64(warp), lanes, first, int64(others), int64(0),
                access[PC],
            )  # fmt: skip


@njit
def _covering(access, lane, at, width):
    """Return the first lane from ``lane`` on that accessed some of these bytes; -1 for none."""
    mask, size = uint32(access[MASK]), access[MASK] >> int64(32)
    for turn in range(32):
        other = (lane + turn) % 32
        start = access[ADDRESSES + other]
        if (mask >> uint32(other)) & uint32(1) and start < at + width and at < start + size:
            return other
    return int64(-1)


@njit
def _collective_between(m, first, last):
    """Return whether an instruction that all lanes of a warp execute together stands between two."""
    code = view.code(m)
    count = last - first - 1 if last > first else len(code) - first + last - 1
    for step in range(count):
        row = code[(first + 1 + step) % len(code)]
        family, op = row[c.FAMILY], row[c.OP]
        if family in (c.LANES, c.MATRIX, c.HMMA, c.IMMA, c.DMMA, c.HGMMA):
            return True
        if family == c.LOGIC and op in (votes.L_VOTE, votes.L_MATCH, votes.L_REDUX):
            return True
    return False


MEETINGS = (control.WARP_SYNC, control.BLOCK_SYNC, control.BLOCK_REDUCE, control.NOTHING)


def mark_exposed(rows: np.ndarray) -> None:
    """Flag (EXPOSED) the stores that a load of the same memory follows before the lanes meet, and the loads of shared
    memory that a store follows."""
    shared, stored = {c.SHARED: 1, c.GLOBAL: 2, c.GENERIC: 3}, 4
    columns = rows[:, [c.FAMILY, c.OP, c.TARGET, c.GUARD]].tolist()
    # Bits: memory that is loaded before the lanes meet, after each instruction, and whether shared memory is stored.
    follow = [0] * (len(columns) + 1)
    for _ in range(2):  # the second time, what follows a branch back is known
        for number in range(len(columns) - 1, -1, -1):
            family, op, target, guard = columns[number]
            follows = follow[number + 1]
            if family == c.CONTROL:
                ends = op in (control.BRANCH, control.EXIT) and guard == 7
                follows = 0 if ends or op in MEETINGS else follows
                if op == control.BRANCH and target >= 0:
                    follows |= follow[target]
            elif family == c.LOAD:
                rows[number, c.FLAGS] |= c.EXPOSED if op == c.SHARED and follows & stored else 0
                follows |= shared.get(op, 0)
            elif family == c.MATRIX and op == 0:
                follows |= shared[c.SHARED]
            elif (family == c.STORE and follows & shared.get(op, 0)) or (
                family == c.MATRIX and follows & shared[c.SHARED]
            ):
                rows[number, c.FLAGS] |= c.EXPOSED
            follow[number] = follows | (stored if (family, op) == (c.STORE, c.SHARED) else 0)
