"""Cycles of an SM that runs the events of a block again and again, as many blocks at a time as fit.

Each of its four schedulers issues one instruction a cycle: of the warp that issued last, else of the youngest that can
(greedy, then youngest: R. Huerta et al., "Analyzing Modern NVIDIA GPU Cores", 2025). A warp can issue when its stall count
is over, the scoreboards that it waits for are free, its code is there and the pipe takes it. When it issues, the times are
reserved at which shared resources serve it, in the order of issue; so every completion is known at once.
"""

import math

from numpy import int64

from tilewave.basics.jit import njit
from tilewave.execution.machine import events as e
from tilewave.execution.machine import sm, views
from tilewave.execution.machine.compiling import entry


@njit
def begin_block(m, block, now):
    """Start the next block in the place of an ended one."""
    count = len(sm.starts(m)) - 1
    sm.shared(m)[sm.STARTED] += 1
    sm.blocks(m)[block, sm.ALIVE], sm.blocks(m)[block, sm.SERIAL] = count, sm.shared(m)[sm.STARTED]
    for number in range(count):
        warp = sm.warps(m)[block * count + number]
        views.fill(warp, 0.0)
        warp[sm.AT], warp[sm.END] = sm.starts(m)[number], sm.starts(m)[number + 1]
        warp[sm.NEXT] = warp[sm.READY] = warp[sm.SINCE] = now
        warp[sm.AT_BARRIER] = warp[sm.AT_MBARRIER] = -1
        for slot in range(3):
            warp[sm.REUSE + slot] = -1
        views.fill(sm.boards(m)[block * count + number], 0.0)
        views.fill(sm.counts(m)[block * count + number], int64(0))
    views.fill(sm.barriers(m)[block], 0.0)
    views.fill(sm.mbarriers(m)[block], 0.0)


@njit
def fetched(m, k, number, now):
    """Return when an instruction's code is there; the lines behind a missing one follow it."""
    line = number >> 3
    if sm.fetched(m)[line] == sm.NEVER:
        for further in range(16):
            there = now + k[sm.K_FETCH] + further * k[sm.K_FETCH_NEXT]
            if line + further < len(sm.fetched(m)) and sm.fetched(m)[line + further] > there:
                sm.fetched(m)[line + further] = there
    return sm.fetched(m)[line]


@njit
def outstanding(m, warp, board, allowed):
    """Return when at most ``allowed`` of a scoreboard's completions are outstanding."""
    count = sm.counts(m)[warp, board]
    return sm.rings(m)[warp, board, (count - 1 - allowed) % sm.RING] if count > allowed else 0.0


@njit
def earliest(m, k, number, scheduler, now):
    """Return when a warp can issue its next instruction, as far as known, and note why not before."""
    warp = sm.warps(m)[number]
    event = sm.events(m)[int(warp[sm.AT])]
    index = event if event >= 0 else -1 - event
    row = sm.table(m)[index]
    time, why = warp[sm.NEXT], sm.ISSUED
    there = fetched(m, k, index, now)
    if there > time:
        time, why = there, sm.CODE
    waits, board = int(row[sm.WAITS]), 0
    while waits:
        if waits & 1 and sm.boards(m)[number, board] > time:
            time, why = sm.boards(m)[number, board], sm.SCOREBOARD
        waits >>= 1
        board += 1
    pipe, kind = int(row[sm.PIPE]), int(row[sm.KIND])
    if sm.pipes(m)[scheduler, pipe] > time:
        time, why = sm.pipes(m)[scheduler, pipe], sm.PIPE_BUSY
    free = 0.0
    if event < 0:
        return time, why
    if pipe == sm.LSU:
        queued, depth = int(sm.schedulers(m)[scheduler, sm.QUEUED]), int(k[sm.K_QUEUE])
        if queued >= depth and sm.queues(m)[scheduler, (queued - depth) & 31] > time:
            time, why = sm.queues(m)[scheduler, (queued - depth) & 31], sm.QUEUE_FULL
    if kind == sm.COPIES:
        free = outstanding(m, number, int(row[sm.X]), int(row[sm.Y]))
        why = sm.SCOREBOARD if free > time else why
    elif kind == sm.GROUPS:
        free = outstanding(m, number, sm.SCOREBOARDS, int(row[sm.X]))
        why = sm.PRODUCTS if free > time else why
    elif kind == sm.WGMMA:
        free = sm.schedulers(m)[scheduler, sm.TENSOR] - k[sm.K_WGMMA_AHEAD]
        why = sm.PIPE_BUSY if free > time else why
    elif kind == sm.TEST:
        detail, block = (
            sm.details(m)[sm.places(m)[int(warp[sm.AT])]],
            number // (len(sm.starts(m)) - 1),
        )
        if sm.mbarriers(m)[block, detail[e.A], sm.OVER] < detail[e.B]:
            warp[sm.AT_MBARRIER], warp[sm.PHASE] = detail[e.A], detail[e.B]
            return sm.NEVER, sm.MBARRIER
        if detail[e.B]:
            free = (
                sm.phases(m)[block, detail[e.A], (detail[e.B] - 1) % sm.PHASES] + k[sm.K_MBARRIER]
            )
            why = sm.MBARRIER if free > time else why
    return max(time, free), why


@njit
def read_registers(m, k, number, scheduler, row, now):
    """Read an instruction's registers through one port of each of two banks; return when the scheduler goes on."""
    warp, unit = sm.warps(m)[number], sm.schedulers(m)[scheduler]
    for bank in range(2):
        unit[sm.BANKS + bank] = max(unit[sm.BANKS + bank], now)
    for slot in range(3):
        register = row[sm.REGISTER + slot]
        fresh = register >= 0 and register != 255 and warp[sm.REUSE + slot] != register
        for before in range(slot):
            fresh = fresh and row[sm.REGISTER + before] != register
        if fresh:
            unit[sm.BANKS + (int(register) & 1)] += 1
        warp[sm.REUSE + slot] = register if register >= 0 and row[sm.REUSED + slot] else -1
    return max(now + 1, max(unit[sm.BANKS], unit[sm.BANKS + 1]) - k[sm.K_PORTS])


@njit
def served(m, scheduler, now):
    """Return when the data path serves a memory instruction; idle cycles pay what asynchronous copies owe."""
    shared, unit = sm.shared(m), sm.schedulers(m)[scheduler]
    start = max(shared[sm.DATA_PATH], now)
    shared[sm.OWED] = max(0.0, shared[sm.OWED] - (start - shared[sm.DATA_PATH]))
    sm.queues(m)[scheduler, int(unit[sm.QUEUED]) & 31] = start
    unit[sm.QUEUED] += 1
    return start


@njit
def from_l2(m, k, size, rate, start):
    """Move bytes through the L2 from ``start`` on; return when, and how much longer a loaded L2 takes."""
    shared = sm.shared(m)
    begins = max(shared[sm.L2], start)
    shared[sm.L2] = begins + size / rate
    sm.shared(m)[sm.BUSY_L2] += size / rate
    if begins > shared[sm.USED_AT]:
        shared[sm.USE] *= math.exp((shared[sm.USED_AT] - begins) / k[sm.K_WINDOW])
        shared[sm.USED_AT] = begins
    shared[sm.USE] += size / k[sm.K_WINDOW] / rate
    use = min(shared[sm.USE], 1.0)
    return begins, k[sm.K_L2] * k[sm.K_LOADED] * use * use


@njit
def from_dram(m, k, size, start):
    """Move a share of these bytes from DRAM; return when, and how much longer it takes than the L2."""
    shared, first = sm.shared(m), sm.shared(m)[sm.STARTED] <= len(sm.blocks(m))
    share = k[sm.K_DRAM_SHARE]
    shared[sm.DRAM_SHARE] += 0.0 if first else share
    longer = first or shared[sm.DRAM_SHARE] >= 1
    shared[sm.DRAM_SHARE] -= 1.0 if shared[sm.DRAM_SHARE] >= 1 else 0.0
    if share > 0:
        start = to_dram(m, k, size * share, start)
    return start, k[sm.K_DRAM] - k[sm.K_L2] if longer else 0.0


@njit
def to_dram(m, k, size, start):
    begins = max(sm.shared(m)[sm.DRAM], start)
    sm.shared(m)[sm.DRAM] = begins + size / k[sm.K_DRAM_RATE]
    sm.shared(m)[sm.BUSY_DRAM] += size / k[sm.K_DRAM_RATE]
    return begins


@njit
def find(m, k, line, serial):
    """Return set and way of a line in the L1, and whether it is there; else the way that was used longest ago."""
    key = (
        line ^ serial << 52
    )  # other blocks' data are others, though their addresses are the same here
    place = (line ^ line >> 9 ^ serial * 37) % sm.SETS
    oldest = 0
    for way in range(int(k[sm.K_WAYS])):
        if sm.keys(m)[place, way] == key:
            return key, place, way, True
        if sm.uses(m)[place, way] < sm.uses(m)[place, oldest]:
            oldest = way
    return key, place, oldest, False


@njit
def access_global(m, k, row, detail, block, scheduler, now):
    """Serve a load, a store, an atomic or a copy; return when its data are there and when its registers are read."""
    shared, kind, what = sm.shared(m), int(row[sm.KIND]), int(row[sm.X])
    copies, loads = kind == sm.COPY, kind == sm.COPY or what == sm.LOAD
    wavefronts = max(detail[e.COUNT] * k[sm.K_TAG], detail[e.B] / sm.LINE)
    start = served(m, scheduler, now)
    if copies:
        shared[sm.OWED] += detail[e.A]
        shared[sm.DATA_PATH] = (
            start + wavefronts * k[sm.K_COPY_SHARE] + max(0.0, shared[sm.OWED] - k[sm.K_OWED])
        )
        shared[sm.OWED] = min(shared[sm.OWED], k[sm.K_OWED])
    else:
        shared[sm.DATA_PATH] = start + wavefronts
    read, done = (
        start + wavefronts + k[sm.K_READ_OPERANDS],
        start + k[sm.K_L1] + 2 * (wavefronts - 1),
    )
    serial, absent = int(sm.blocks(m)[block, sm.SERIAL]), -float(detail[e.B])
    for place in range(detail[e.FIRST], detail[e.FIRST] + detail[e.COUNT]):
        line, missing = sm.lines(m)[place] >> 4, sm.lines(m)[place] & 15
        way, hit, key, at = 0, False, 0, 0
        if loads:
            key, at, way, hit = find(m, k, line, serial)
            if hit and not copies:
                missing &= ~sm.sectors(m)[at, way]
                sm.uses(m)[at, way] = now
                if not missing:
                    done = max(done, sm.arrivals(m)[at, way])
                    continue
        size = (
            32.0 * (missing & 1) + 16.0 * (missing & 2) + 8.0 * (missing & 4) + 4.0 * (missing & 8)
        )
        absent += size
        sent = max(shared[sm.PORT], start)
        shared[sm.PORT] = sent + size / k[sm.K_PORT]
        sent, loaded = from_l2(m, k, size, k[sm.K_L2_RATE], sent)
        if loads:
            sent, longer = from_dram(m, k, size, sent)
            there = sent + k[sm.K_L2] + loaded + longer
            sm.sectors(m)[at, way] = missing | (sm.sectors(m)[at, way] if hit else 0)
            sm.arrivals(m)[at, way] = max(there, sm.arrivals(m)[at, way] if hit else 0.0)
            sm.keys(m)[at, way], sm.uses(m)[at, way] = key, now
            done = max(done, there)
            continue
        if k[sm.K_STORES]:
            to_dram(m, k, size * k[sm.K_STORES], sent)
        if what >= sm.ATOMIC:
            if detail[e.COUNT] == 1 and missing in (
                1,
                2,
                4,
                8,
            ):  # all lanes add to one address, as other SMs do
                cost = detail[e.B] / max(row[sm.Y], 4.0) * k[sm.K_ATOMIC_SAME] * k[sm.K_SMS]
                shared[sm.ATOMICS] = max(shared[sm.ATOMICS], start) + cost
                sm.shared(m)[sm.BUSY_ATOMICS] += cost
                shared[sm.DATA_PATH] = max(shared[sm.DATA_PATH], shared[sm.ATOMICS] - 2000)
                shared[sm.END_OF_ALL] = max(shared[sm.END_OF_ALL], shared[sm.ATOMICS])
                done = max(done, shared[sm.ATOMICS] if what == sm.ATOMIC else 0.0)
            if what == sm.ATOMIC:
                done = max(done, sent + k[sm.K_ATOMIC])
        shared[sm.DATA_PATH] = max(shared[sm.DATA_PATH], shared[sm.PORT] - 256)
    if what == sm.STORE and not copies:
        if absent > 0:
            spent = math.ceil(absent / sm.MOST_ABSENT) * k[sm.K_PART]
            shared[sm.L2] = max(shared[sm.L2], start) + spent
            shared[sm.BUSY_L2] += spent
        return read, read
    return done, read


@njit
def access_shared(m, k, row, wavefronts, scheduler, now):
    start = served(m, scheduler, now)
    sm.shared(m)[sm.DATA_PATH] = start + wavefronts
    read = start + wavefronts + k[sm.K_READ_OPERANDS]
    if row[sm.KIND] == sm.SHUFFLE:
        return start + 24, read
    return read if row[sm.X] else start + 21 + 2 * wavefronts, read


@njit
def multiply(m, k, number, scheduler, row, now):
    """Put a product of a warpgroup into the tensor core's queue; return when it has left it."""
    unit, shared = sm.schedulers(m)[scheduler], sm.shared(m)
    start, lines = max(unit[sm.TENSOR], now + 4), abs(row[sm.Y])
    cycles = max(row[sm.X], lines)  # of shared memory: each of the four warps causes a quarter
    shared[sm.OPERANDS] = max(shared[sm.OPERANDS], now) + lines / sm.SCHEDULERS
    start = max(start, shared[sm.OPERANDS] - cycles)
    unit[sm.TENSOR] = start + cycles
    if row[sm.Y] < 0:
        count = sm.counts(m)[number, sm.SCOREBOARDS]
        sm.rings(m)[number, sm.SCOREBOARDS, count % sm.RING] = unit[sm.TENSOR] + k[sm.K_WGMMA]
        sm.counts(m)[number, sm.SCOREBOARDS] = count + 1
    return unit[sm.TENSOR]


@njit
def release(m, block, barrier, time):
    """Let the warps go on that wait at a barrier of a block."""
    count = len(sm.starts(m)) - 1
    views.fill(sm.barriers(m)[block, barrier], 0.0)
    for number in range(block * count, block * count + count):
        warp = sm.warps(m)[number]
        if warp[sm.AT_BARRIER] == barrier:
            warp[sm.AT_BARRIER], warp[sm.WHY] = -1, sm.BARRIER
            warp[sm.NEXT] = warp[sm.READY] = max(warp[sm.NEXT], time)


@njit
def meet(m, k, block, warp, detail, now):
    """Arrive at a barrier; return whether the warp goes on at once."""
    shared, barrier = sm.shared(m), sm.barriers(m)[block, detail[e.A]]
    shared[sm.BARRIER_UNIT] = max(shared[sm.BARRIER_UNIT], now) + k[sm.K_BARRIER_WARP]
    barrier[sm.CAME] += 1
    barrier[sm.LAST] = max(barrier[sm.LAST], shared[sm.BARRIER_UNIT])
    if not detail[e.C]:
        warp[sm.AT_BARRIER] = detail[e.A]
    if barrier[sm.CAME] >= (detail[e.B] or sm.blocks(m)[block, sm.ALIVE]):
        release(m, block, detail[e.A], barrier[sm.LAST] + k[sm.K_BARRIER])
        return True
    return detail[e.C] == 1


@njit
def complete(m, k, block, index, time, now):
    """Note an arrival at an mbarrier that counts from ``time`` on, and wake who waits if its phase is over."""
    mark, count = sm.mbarriers(m)[block, index], len(sm.starts(m)) - 1
    mark[sm.LATEST] = max(mark[sm.LATEST], time)
    if mark[sm.ARRIVED] < sm.needed(m)[index] or mark[sm.LANDED] < mark[sm.AWAITED]:
        return
    mark[sm.ARRIVED] -= sm.needed(m)[index]
    mark[sm.LANDED] -= mark[sm.AWAITED]
    mark[sm.AWAITED] = 0
    sm.phases(m)[block, index, int(mark[sm.OVER]) % sm.PHASES] = mark[sm.LATEST]
    mark[sm.OVER] += 1
    for number in range(block * count, block * count + count):
        warp = sm.warps(m)[number]
        if warp[sm.AT_MBARRIER] == index and mark[sm.OVER] >= warp[sm.PHASE]:
            warp[sm.AT_MBARRIER] = -1
            warp[sm.READY] = max(now + 1, mark[sm.LATEST] + k[sm.K_MBARRIER])
    mark[sm.LATEST] = 0


@njit
def copy_bulk(m, k, detail, storing, now):
    """Move a box by the TMA unit; return when it has landed."""
    shared, inside = sm.shared(m), float(detail[e.C])
    start = max(shared[sm.TMA], now)
    shared[sm.TMA] = (
        start + inside / k[sm.K_TMA_RATE] + (detail[e.B] - inside) / k[sm.K_OUTSIDE_RATE]
    )
    begins, loaded = from_l2(m, k, inside, k[sm.K_L2_RATE], start)
    if storing:
        return now + 20.0
    begins, longer = from_dram(m, k, inside, begins)
    latency = k[sm.K_TMA] + loaded + longer
    return max(begins + inside / k[sm.K_TMA_RATE], max(shared[sm.TMA], shared[sm.L2])) + latency


@njit
def issue(m, k, number, scheduler, now):
    """Issue a warp's next instruction; return whether the warp goes on by itself."""
    warp, unit, count = sm.warps(m)[number], sm.schedulers(m)[scheduler], len(sm.starts(m)) - 1
    at = int(warp[sm.AT])
    event = sm.events(m)[at]
    index = event if event >= 0 else -1 - event
    row, block, place = sm.table(m)[index], number // count, sm.places(m)[at]
    kind, pipe = int(row[sm.KIND]), int(row[sm.PIPE])
    sm.stalls(m)[index, int(warp[sm.WHY])] += now - warp[sm.SINCE]
    warp[sm.SINCE], warp[sm.WHY], unit[sm.GREEDY] = now, sm.ISSUED, number
    unit[sm.FREE] = now + 1
    if row[sm.REGISTER] >= -1 and (
        pipe == sm.FMA or pipe == sm.IMAD or pipe == sm.ALU or pipe == sm.FP64
    ):
        unit[sm.FREE] = read_registers(m, k, number, scheduler, row, now)
    warp[sm.NEXT] = now + max(row[sm.STALL], 1.0)
    waiting = max(sm.pipes(m)[scheduler, pipe], now) if kind == sm.PRODUCT else now
    if pipe:
        sm.pipes(m)[scheduler, pipe] = waiting + row[sm.INTERVAL]
    done, read, going = now + row[sm.LATENCY], now + 6.0, True
    warp[sm.AT] = at + 1
    if event < 0:
        pass
    elif kind == sm.SHARED_ACCESS or kind == sm.SHUFFLE:
        wavefronts = float(max(sm.details(m)[place, e.A], 1)) if place >= 0 else 1.0
        done, read = access_shared(m, k, row, wavefronts, scheduler, now)
    elif (kind == sm.GLOBAL_ACCESS or kind == sm.COPY) and place >= 0:
        done, read = access_global(m, k, row, sm.details(m)[place], block, scheduler, now)
        if kind == sm.COPY:
            warp[sm.COPIED] = max(warp[sm.COPIED], done)
            done = read
    elif kind == sm.COMMIT:
        done = max(warp[sm.COPIED], now + 10)
    elif kind == sm.WGMMA:
        done = multiply(m, k, number, scheduler, row, now)
    elif kind == sm.MEETING and place >= 0:
        going = meet(m, k, block, warp, sm.details(m)[place], now)
    elif kind == sm.ARRIVAL and place >= 0:
        detail = sm.details(m)[place]
        sm.mbarriers(m)[block, detail[e.A], sm.ARRIVED] += detail[e.B]
        sm.mbarriers(m)[block, detail[e.A], sm.AWAITED] += max(detail[e.C], 0)
        complete(m, k, block, detail[e.A], now + k[sm.K_MBARRIER] / 2, now)
    elif kind == sm.REMOTE and place >= 0:
        detail = sm.details(m)[place]
        start = served(m, scheduler, now)
        sm.shared(m)[sm.DATA_PATH] = start + detail[e.D] / sm.LINE
        read = start + 8
        sm.mbarriers(m)[block, detail[e.A], sm.LANDED] += detail[e.D]
        complete(m, k, block, detail[e.A], start + k[sm.K_REMOTE], now)
    elif kind == sm.BULK and place >= 0:
        detail, storing = sm.details(m)[place], row[sm.X] > 0
        landed = copy_bulk(m, k, detail, storing, now)
        if storing:
            done = landed
        elif detail[e.A] >= 0:
            sm.mbarriers(m)[block, detail[e.A], sm.LANDED] += detail[e.B] * detail[e.D]
            complete(m, k, block, detail[e.A], landed, now)
    elif kind == sm.CLUSTER and row[sm.X]:
        warp[sm.NEXT] = max(warp[sm.NEXT], now + k[sm.K_REMOTE])
    elif kind == sm.JUMP and at + 1 < warp[sm.END]:
        following = sm.events(m)[at + 1]
        if (following if following >= 0 else -1 - following) != index + 1:
            warp[sm.NEXT] = max(warp[sm.NEXT], now + row[sm.STALL] + k[sm.K_JUMP])
    elif kind == sm.SLEEP:
        warp[sm.NEXT] = max(warp[sm.NEXT], now + 40)
    board = int(row[sm.WRITES])
    if board >= 0:
        sm.boards(m)[number, board] = max(sm.boards(m)[number, board], done)
        entry = sm.counts(m)[number, board]
        before = sm.rings(m)[number, board, (entry - 1) % sm.RING] if entry else 0.0
        sm.rings(m)[number, board, entry % sm.RING] = max(before, done)
        sm.counts(m)[number, board] = entry + 1
    board = int(row[sm.READS])
    if board >= 0:
        sm.boards(m)[number, board] = max(sm.boards(m)[number, board], read)
    return going


@njit
def leave(m, k, block, now):
    """End a warp; return whether its block has ended. A barrier may wait for no other warp now."""
    sm.shared(m)[sm.END_OF_ALL] = max(sm.shared(m)[sm.END_OF_ALL], now)
    sm.blocks(m)[block, sm.ALIVE] -= 1
    alive, count = sm.blocks(m)[block, sm.ALIVE], len(sm.starts(m)) - 1
    for barrier in range(16):
        came = sm.barriers(m)[block, barrier, sm.CAME]
        if came and alive and came >= alive:
            for number in range(block * count, block * count + count):
                if sm.warps(m)[number, sm.AT_BARRIER] == barrier:
                    release(
                        m,
                        block,
                        barrier,
                        max(sm.barriers(m)[block, barrier, sm.LAST], now) + k[sm.K_BARRIER],
                    )
                    break
    return alive == 0


@njit
def ready(m, k, number, scheduler, now):
    """Return when a warp can issue, as far as known; note it, and why not before."""
    warp = sm.warps(m)[number]
    if warp[sm.READY] <= now:
        warp[sm.READY], why = earliest(m, k, number, scheduler, now)
        if warp[sm.READY] > now:
            warp[sm.WHY] = why
    return warp[sm.READY]


@njit
def chosen(m, k, scheduler, now):
    """Return the warp that issues now, -1 for none, and when to look again."""
    greedy, again = int(sm.schedulers(m)[scheduler, sm.GREEDY]), sm.NEVER
    if greedy >= 0:
        again = ready(m, k, greedy, scheduler, now)
        if again <= now:
            return greedy, again
    count = len(sm.starts(m)) - 1
    youngest = (count - 1 - scheduler) // sm.SCHEDULERS * sm.SCHEDULERS + scheduler
    for block in range(len(sm.blocks(m)) - 1, -1, -1):
        for number in range(block * count + youngest, block * count - 1, -sm.SCHEDULERS):
            time = sm.warps(m)[number, sm.READY]
            if time <= now and number != greedy:
                time = ready(m, k, number, scheduler, now)
                if time <= now:
                    return number, again
            again = min(again, time)
    return -1, again


@njit
def run(m, blocks, most):
    """Run ``blocks`` blocks and return the cycles until the last one ends; -1 if all wait, -2 after ``most`` cycles."""
    k, shared = sm.constants(m), sm.shared(m)
    count, now = len(sm.starts(m)) - 1, k[sm.K_START]
    views.fill(sm.fetched(m), sm.NEVER)
    views.fill(sm.keys(m), int64(-1))
    for scheduler in range(sm.SCHEDULERS):
        sm.schedulers(m)[scheduler, sm.GREEDY] = -1
    for warp in range(len(sm.warps(m))):
        sm.warps(m)[warp, sm.READY] = sm.NEVER
    for block in range(min(len(sm.blocks(m)), blocks)):
        begin_block(m, block, now)
    while shared[sm.FINISHED] < blocks:
        again, issued = sm.NEVER, False
        for scheduler in range(sm.SCHEDULERS):
            if sm.schedulers(m)[scheduler, sm.FREE] > now:
                again = min(again, sm.schedulers(m)[scheduler, sm.FREE])
                continue
            number, later = chosen(m, k, scheduler, now)
            again = min(again, later)
            if number < 0:
                continue
            issued = True
            going = issue(m, k, number, scheduler, now)
            warp, block = sm.warps(m)[number], number // count
            if warp[sm.AT] >= warp[sm.END]:
                warp[sm.READY] = sm.NEVER
                warp[sm.AT_BARRIER] = -1  # where events were cut
                if leave(m, k, block, now):
                    shared[sm.FINISHED] += 1
                    if shared[sm.STARTED] < blocks:
                        begin_block(m, block, now + k[sm.K_GAP])
            else:
                warp[sm.READY] = warp[sm.NEXT] if going else sm.NEVER
        if issued:
            now += 1
        elif again >= sm.NEVER:
            return -1.0
        else:
            now = max(now + 1, math.ceil(again))
        if now > most:
            return -2.0
    return shared[sm.END_OF_ALL]


@entry("timing")
def simulate(table, blocks, most):
    return int64(run(views.opened(table), blocks, most))
