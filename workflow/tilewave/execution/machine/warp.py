"""Execution of a warp, instruction after instruction, until it waits or its turn is over.
Diverged lanes form groups, each with its program counter. BSSY names the lanes that a BSYNC joins
again, as the hardware does since sm_70. Groups that only meet by chance are not joined."""

from numpy import int32, int64, uint32, uint64

from tilewave.basics.bits import count_ones, lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import cluster, copies, exchanges, orders, system
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import control as ops
from tilewave.execution.machine.handlers import call
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.lanes import fast
from tilewave.execution.machine.registers import commit_predicate, fetch, pin
from tilewave.execution.machine.validity import fault

ALL = uint32(0xFFFFFFFF)
FUNCTIONS = system.FIRST // system.BYTES
ANYWHERE = int64(1) << int64(32)  # flag in the mask of a WARPSYNC: lanes meet at any instruction


# ---------------------------------------------------------------- groups of lanes


@njit
def new_group(m, warp, pc, lanes, doing, waits):
    """Suspend lanes as a new group."""
    groups = view.groups(m)[warp]
    for slot in range(s.SLOTS):
        if groups[slot, 2] == s.FREE:
            groups[slot, 0] = pc
            groups[slot, 1] = int64(lanes)
            groups[slot, 2] = doing
            groups[slot, 3] = waits
            return
    view.control(m)[s.STOP] = 1


@njit
def take_group(m, warp):
    """Remove and return a group that can run: its program counter and lanes (none: -1, 0)."""
    groups = view.groups(m)[warp]
    for slot in range(s.SLOTS):
        if groups[slot, 2] == s.READY:
            groups[slot, 2] = s.FREE
            return groups[slot, 0], uint32(groups[slot, 1])
    return int64(-1), uint32(0)


@njit(inline="always")
def _waits(group, doing, waits, pc):
    """Return whether a group waits for something, at pc or (-1) anywhere."""
    return group[2] == doing and group[3] == waits and (pc < 0 or group[0] == pc)


@njit
def gather_waiting(m, warp, doing, waits, pc, following):
    """Join all groups that wait for the same thing into one that can run."""
    groups = view.groups(m)[warp]
    lanes = uint32(0)
    for slot in range(s.SLOTS):
        if _waits(groups[slot], doing, waits, pc):
            lanes |= uint32(groups[slot, 1])
            if following < 0:
                following = groups[slot, 0] + 1
            groups[slot, 2] = s.FREE
    if lanes:
        new_group(m, int64(warp), int64(following), uint32(lanes), int64(s.READY), int64(0))


@njit
def waiting_lanes(m, warp, doing, waits, pc):
    """Return the lanes of a warp that wait for something, at pc or (-1) anywhere."""
    groups = view.groups(m)[warp]
    lanes = uint32(0)
    for slot in range(s.SLOTS):
        if _waits(groups[slot], doing, waits, pc):
            lanes |= uint32(groups[slot, 1])
    return lanes


@njit
def partners(m, warp, register, pc, lanes):
    """Return lanes that wait at BSYNC for the same meeting as ``lanes``, and all that it needs.
    Each lane has its own B registers, and diverged lanes may use the same one. So register, instruction
    and lanes identify a meeting."""
    converge, groups = view.converge(m)[warp, register], view.groups(m)[warp]
    members = converge[int64(lowest_one(lanes))]
    here = uint32(0)
    for slot in range(s.SLOTS):
        if _waits(groups[slot], s.AT_CONVERGE, register, pc):
            waiting = uint32(groups[slot, 1])
            if converge[int64(lowest_one(waiting))] == members:
                here |= waiting
    return here, members & view.live(m)[warp]


@njit
def settle(m, warp):
    """Wake the groups whose partners are complete, after lanes arrived or left."""
    groups = view.groups(m)[warp]
    for slot in range(s.SLOTS):
        doing = groups[slot, 2]
        if doing == s.AT_CONVERGE:
            register, pc = groups[slot, 3], groups[slot, 0]
            here, needed = partners(m, warp, register, pc, uint32(groups[slot, 1]))
            if needed & ~here == uint32(0):
                for other in range(s.SLOTS):
                    waits = groups[other, 2] == s.AT_CONVERGE and groups[other, 0] == pc
                    if waits and uint32(groups[other, 1]) & here:
                        groups[other, 2] = s.FREE
                new_group(m, int64(warp), int64(pc + 1), uint32(here), int64(s.READY), int64(0))
        elif doing == s.AT_WARPSYNC:
            waits = int64(groups[slot, 3])
            pc = int64(-1 if waits & ANYWHERE else groups[slot, 0])
            waiting = waiting_lanes(m, int64(warp), int64(doing), waits, pc)
            if uint32(waits) & view.live(m)[warp] & ~waiting == uint32(0):
                gather_waiting(m, int64(warp), int64(doing), waits, pc, int64(-1))


# ---------------------------------------------------------------- barriers of the block


@njit
def arrive(m, warp, barrier, lanes, threads):
    """Arrive at a barrier with some lanes, and merge their warp's clock into its clock."""
    view.arrived(m)[barrier, warp] |= lanes
    if threads:
        view.expected(m)[barrier, 0] = threads
    exchanges.share(m, warp)
    merged, clock = view.barrier_clocks(m)[barrier], view.clocks(m)[warp]
    for actor in range(view.control(m)[s.CLUSTER_ACTORS]):
        merged[actor] = max(merged[actor], clock[actor])
    merged[warp] = uint32(view.control(m)[s.TICK])
    # The warp's later accesses are not covered by this arrival.
    view.control(m)[s.TICK] += 1


@njit
def release(m, barrier):
    """Release the threads at a barrier if all that it waits for have arrived."""
    warps = view.control(m)[s.WARPS]
    threads = view.expected(m)[barrier, 0]
    count = int64(0)
    arrived = False
    for warp in range(warps):
        here, live = view.arrived(m)[barrier, warp], view.live(m)[warp]
        if here:
            arrived = True
        complete = live & ~here == uint32(0)
        if threads == 0 and not complete:
            return
        if here and complete:
            count += 32
        else:
            count += int64(count_ones(here))
    if not arrived or (threads and count < threads):
        return
    votes_all, first = view.expected(m)[barrier, 1], int64(-1)
    for warp in range(warps):
        view.arrived(m)[barrier, warp] = uint32(0)
        if not waiting_lanes(m, int64(warp), int64(s.AT_BARRIER), int64(barrier), int64(-1)):
            continue
        clock, barrier_clock = view.clocks(m)[warp], view.barrier_clocks(m)[barrier]
        safe = ALL
        for other in range(view.control(m)[s.CLUSTER_ACTORS]):
            clock[other] = max(clock[other], barrier_clock[other])
        for other in range(warps):
            if other != warp:
                safe = min(safe, clock[other])
        view.safe(m)[warp] = safe
        view.results(m)[warp] = uint32(votes_all)
        exchanges.met(m, warp)
        # Groups that wait at different instructions continue after their own.
        groups = view.groups(m)[warp]
        for slot in range(s.SLOTS):
            if groups[slot, 2] == s.AT_BARRIER and groups[slot, 3] == barrier:
                at = groups[slot, 0]
                first = at if first < 0 else first
                if at != first and barrier == 0 and threads == 0:
                    fault(m, s.SPLIT_BARRIER, at, warp, groups[slot, 1], -1, first, 0)
                gather_waiting(m, warp, int64(s.AT_BARRIER), barrier, at, int64(-1))
    view.fill(view.barrier_clocks(m)[barrier], uint32(0))
    view.expected(m)[barrier, 0] = 0
    view.expected(m)[barrier, 1] = 0
    view.control(m)[s.TICK] += 1


@njit
def exit_lanes(m, warp, lanes):
    """End threads: nothing waits for them any more."""
    view.live(m)[warp] &= ~lanes
    settle(m, int64(warp))
    for barrier in range(len(view.arrived(m))):
        arrived = False
        for other in range(view.control(m)[s.WARPS]):
            arrived = arrived or view.arrived(m)[barrier, other] != uint32(0)
        if arrived:
            release(m, int64(barrier))
    if view.block_control(m)[s.BLOCKS] > 1:
        cluster.wake(m)


@njit
def scalar_source(m, warp, row, slot, mask):
    """Return a source's value in the first active lane, both words."""
    T = view.scratch(m)
    at = c.SOURCES + slot * c.SOURCE_COLUMNS
    fetch(row, at, view.registers(m)[warp], view.uniforms(m)[warp], T[slot], T[4 + slot])
    lane = int64(lowest_one(mask))
    if row[at + c.WORDS] == 2:
        return joined(T[4 + slot, lane], T[slot, lane])
    return uint64(T[slot, lane])


@njit
def barrier_operands(m, warp, row, mask):
    """Return the number of the barrier and how many threads meet there, 0 for all of the block."""
    barrier = int64(scalar_source(m, int64(warp), row, int64(0), uint32(mask))) & 15
    threads = int64(0)
    if row[c.NSRC] > 1:
        threads = int64(scalar_source(m, int64(warp), row, int64(1), uint32(mask)))
        number_at, count_at = c.SOURCES, c.SOURCES + c.SOURCE_COLUMNS
        twice = (
            row[number_at + c.KIND] == row[count_at + c.KIND]
            and row[number_at + c.INDEX] == row[count_at + c.INDEX]
        )
        if twice and row[number_at + c.KIND] != c.VALUE_KIND:
            threads = (threads >> 16) & 0xFFF  # a register that holds number and count
    return barrier, threads


@njit
def barrier_instruction(m, warp, pc, row, mask, group):
    """Execute BAR.SYNC, BAR.ARV, BAR.RED; return whether the group goes on."""
    view.counts(m)[pc, s.BARRIER_WARPS] += 1
    barrier, threads = barrier_operands(m, warp, row, mask)
    op = row[c.OP]
    if op == ops.BLOCK_REDUCE:
        votes = pin(row, int64(c.PIN0), view.predicates(m)[warp])
        first = True
        for other in range(view.control(m)[s.WARPS]):
            first = first and view.arrived(m)[barrier, other] == uint32(0)
        true, all_true = int64(count_ones(votes & mask)), votes & mask == mask
        if row[c.SUB] == 0:
            before = 1 if first else view.expected(m)[barrier, 1]
            view.expected(m)[barrier, 1] = 1 if before and all_true else 0
        elif row[c.SUB] == 1:
            view.expected(m)[barrier, 1] = 1 if view.expected(m)[barrier, 1] or true else 0
        else:
            view.expected(m)[barrier, 1] += true
    arrive(m, int64(warp), int64(barrier), uint32(mask), int64(threads))
    if op == ops.BLOCK_ARRIVE:
        release(m, int64(barrier))
        return True
    rest = group & ~mask
    if rest:
        new_group(m, int64(warp), int64(pc + 1), uint32(rest), int64(s.READY), int64(0))
    new_group(m, int64(warp), int64(pc), uint32(mask), int64(s.AT_BARRIER), int64(barrier))
    release(m, int64(barrier))
    return False


@njit
def run_warp(m, warp, budget):
    """Execute a warp until all its groups wait, its threads ended, or ``budget`` is used up.
    Returns the number of warp instructions."""
    code, counts, control = view.code(m), view.counts(m), view.control(m)
    P, handlers = view.predicates(m)[warp], view.handlers(m)
    registers, uniforms = view.registers_of(m, warp), view.uniforms_of(m, warp)
    done = int64(0)
    pc, active = take_group(m, warp)
    while active and done < budget:
        row = code[pc]
        done += 1
        control[s.NOW] += 1
        family = row[c.FAMILY]
        guard = P[row[c.GUARD]]
        if row[c.GUARD_NOT]:
            guard = ~guard
        mask = uint32(active & guard)
        counts[pc, s.EXECUTED] += 1
        if active == ALL:
            counts[pc, s.THREADS] += 32
        else:
            counts[pc, s.THREADS] += int64(count_ones(active))
        if mask == ALL:
            counts[pc, s.THREADS_ON] += 32
        else:
            counts[pc, s.THREADS_ON] += int64(count_ones(mask))
        if not mask:
            pc += 1
            continue
        kind = row[c.FAST]
        short = False
        if kind:
            address = view.code_of(m, pc)
            short = fast(int64(kind), row, address, registers, uniforms, P, mask)
        if short:
            pc += 1
        elif 0 <= family < c.CONTROL:
            call(handlers[family], m, int64(warp), int64(pc), mask)
            if control[s.PARKED]:
                pc, active, going = park(m, int64(warp), int64(pc), uint32(active), uint32(mask))
                done -= 1 - going
                if control[s.STOP] or going:
                    break
                continue
            pc += 1
        elif family == c.CONTROL:
            pc, lanes = control_flow(m, warp, int64(pc), row, uint32(active), uint32(mask))
            active = uint32(lanes)
            if not active:
                pc, active = take_group(m, warp)
        else:
            fault(m, s.NOT_KNOWN, pc, warp, mask, -1, 0, 1)
        if control[s.STOP]:
            break
    if active:
        new_group(m, int64(warp), int64(pc), uint32(active), int64(s.READY), int64(0))
    control[s.BUDGET] -= done
    return done


@njit
def park(m, warp, pc, active, mask):
    """Suspend a group whose instruction must wait, or whose turn is over.
    Returns what runs now, and 1 if the group can go on in its next turn. A waiting group executes
    its instruction again, and counts it then."""
    control, counts = view.control(m), view.counts(m)[pc]
    doing = control[s.PARKED]
    control[s.PARKED] = 0
    if doing == s.TURN_OVER:
        return pc + 1, active, int64(1)
    counts[s.EXECUTED] -= 1
    counts[s.THREADS] -= int64(count_ones(active))
    counts[s.THREADS_ON] -= int64(count_ones(mask))
    new_group(m, int64(warp), int64(pc), uint32(active), int64(doing), control[s.PARKED_FOR])
    following, lanes = take_group(m, int64(warp))
    return following, lanes, int64(0)


@njit
def split(m, warp, to, going, pc, staying):
    """Branch with some lanes; the others go on at pc. Returns what runs now."""
    if not staying:
        return to, going
    if not going:
        return pc, staying
    new_group(m, int64(warp), int64(to), uint32(going), int64(s.READY), int64(0))
    return pc, staying


@njit
def control_flow(m, warp, pc, row, active, mask):
    """Execute a control instruction; return program counter and lanes."""
    op = row[c.OP]
    P = view.predicates(m)[warp]
    following = pc + 1
    rest = active & ~mask
    if op == ops.BRANCH:
        going = mask & pin(row, int64(c.PIN0), P) & pin(row, int64(c.PIN1), P)
        if row[c.SUB] and going:
            going = active
        staying = uint32(active & ~going)
        return split(m, warp, int64(row[c.TARGET]), uint32(going), int64(following), staying)
    if op == ops.EXIT:
        going = mask & pin(row, int64(c.PIN0), P)
        if going:
            exit_lanes(m, int64(warp), uint32(going))
        staying = active & ~going
        return following, staying
    if op == ops.SET_CONVERGE:
        converge = view.converge(m)[warp, row[c.BARRIER]]
        for lane in range(32):
            if (mask >> uint32(lane)) & uint32(1):
                converge[lane] = mask
        return following, active
    if op == ops.CONVERGE:
        if rest:
            new_group(m, int64(warp), int64(following), uint32(rest), int64(s.READY), int64(0))
        register = int64(row[c.BARRIER])
        _, needed = partners(m, int64(warp), int64(register), int64(pc), uint32(mask))
        if needed & ~mask == uint32(0):
            return following, mask
        new_group(m, int64(warp), int64(pc), uint32(mask), int64(s.AT_CONVERGE), int64(register))
        settle(m, int64(warp))
        return pc, uint32(0)
    if op == ops.BLOCK_SYNC or op == ops.BLOCK_ARRIVE or op == ops.BLOCK_REDUCE:
        if barrier_instruction(m, int64(warp), int64(pc), row, uint32(mask), uint32(active)):
            return following, active
        return pc, uint32(0)
    if op == ops.COPY_COMMIT:
        view.queued(m)[warp, 2] += 1
        return following, active
    if op == ops.COPY_WAIT:
        copies.land(m, int64(warp), int64(row[c.SUB]))
        orders.waited(m, int64(warp), uint32(mask), int64(row[c.SUB]))
        return following, active
    if op == ops.WARP_SYNC:
        exchanges.met(m, int64(warp))
        waits = int64(uint32(scalar_source(m, int64(warp), row, int64(0), uint32(mask))))
        if row[c.SUB]:
            # Exclusive: lanes outside this mask meet separately.
            outside = mask & ~uint32(waits)
            if outside:
                new_group(m, int64(warp), int64(pc), uint32(outside), int64(s.READY), int64(0))
            if rest:
                new_group(m, int64(warp), int64(following), uint32(rest), int64(s.READY), int64(0))
            mask &= ~outside
            active, rest = mask, uint32(0)
        wanted = uint32(waits) & view.live(m)[warp]
        if row[c.TARGET] >= 0:
            # A collective: lanes meet from different instructions, execute the same code, and
            # ENDCOLLECTIVE sends each back to where it came from.
            waits |= ANYWHERE
            for lane in range(32):
                if (mask >> uint32(lane)) & uint32(1):
                    view.resume(m)[warp, lane] = uint32(row[c.TARGET])
        if wanted & ~active == uint32(0):
            return following, active
        if rest:
            new_group(m, int64(warp), int64(following), uint32(rest), int64(s.READY), int64(0))
        new_group(m, int64(warp), int64(pc), uint32(mask), int64(s.AT_WARPSYNC), int64(waits))
        settle(m, int64(warp))
        return pc, uint32(0)
    if op == ops.END_COLLECTIVE:
        resume = view.resume(m)[warp]
        to = resume[int64(lowest_one(mask))]
        together, elsewhere = uint32(0), uint32(0)
        for lane in range(32):
            if (mask >> uint32(lane)) & uint32(1):
                if resume[lane] == to:
                    together |= uint32(1) << uint32(lane)
                else:
                    elsewhere |= uint32(1) << uint32(lane)
        if elsewhere:  # they execute this again, and go elsewhere
            new_group(m, int64(warp), int64(pc), uint32(elsewhere), int64(s.READY), int64(0))
        return int64(to), together
    if op == ops.BREAK:
        leaving = mask & pin(row, int64(c.PIN0), P)
        if leaving:
            converge = view.converge(m)[warp, row[c.BARRIER]]
            together = converge[int64(lowest_one(leaving))]
            for lane in range(32):
                if (together >> uint32(lane)) & uint32(1):
                    converge[lane] &= ~leaving
            settle(m, int64(warp))
        return following, active
    if op == ops.BRANCH_DIVERGENT:
        wanted = uint32(scalar_source(m, int64(warp), row, int64(0), uint32(mask)))
        if row[c.SUB] & 1:
            wanted = ~wanted
        apart = wanted & view.live(m)[warp] & ~active != uint32(0)
        # BRA.DIV goes if lanes of the mask are elsewhere, BRA.CONV if none is.
        going = mask if apart == (row[c.SUB] & 2 == 0) else uint32(0)
        staying = uint32(active & ~going)
        return split(m, warp, int64(row[c.TARGET]), uint32(going), int64(following), staying)
    if op == ops.CALL:
        return split(m, warp, int64(row[c.TARGET]), uint32(mask), int64(following), uint32(rest))
    if op == ops.RETURN or op == ops.BRANCH_INDEXED:
        return indirect(m, warp, pc, row, active, mask)
    if op == ops.BARRIER_MOVE:
        converge, d = view.converge(m)[warp, row[c.BARRIER]], row[c.DST]
        R, T = view.registers(m)[warp], view.scratch(m)
        if row[c.SUB]:
            fetch(row, int64(c.SOURCES), R, view.uniforms(m)[warp], T[0], T[4])
        for lane in range(32):
            if (mask >> uint32(lane)) & uint32(1):
                if row[c.SUB]:
                    converge[lane] = T[0, lane]
                elif d != 255:
                    R[d, lane] = converge[lane]
        return following, active
    if op == ops.B2R:
        result = view.results(m)[warp]
        d = row[c.DST]
        if d != 255:
            R = view.registers(m)[warp]
            for lane in range(32):
                if (mask >> uint32(lane)) & uint32(1):
                    R[d, lane] = result
        commit_predicate(P, int64(row[c.PD0]), uint32(ALL if result else 0), mask)
        return following, active
    # __syncwarp of lanes that are together is a NOP.
    if op == ops.NOTHING or op == ops.PUBLISH or op == ops.FENCE:
        if view.live(m)[warp] & ~active:
            view.recent(m)[warp, 0, 0] = view.loaded(m)[warp, 0, 0] = 0
        else:
            exchanges.met(m, int64(warp))
    if op == ops.FENCE:
        if row[c.SUB]:
            orders.fence(m, int64(warp), orders.BLOCKS)
        orders.release(m, row[c.SUB])
    if op == ops.PUBLISH:
        orders.publish_mbarriers(m, int64(warp))
    if op == ops.TRAP:
        fault(m, s.TRAPPED, pc, warp, mask, -1, 0, 1)
    return following, active


@njit
def indirect(m, warp, pc, row, active, mask):
    """Execute RET and BRX: every lane jumps to its register's address."""
    R, T = view.registers(m)[warp], view.scratch(m)
    fetch(row, int64(c.SOURCES), R, view.uniforms(m)[warp], T[0], T[4])
    base = int64(0)
    if row[c.OP] == ops.RETURN:
        if row[c.TARGET] >= 0 and row[c.SUB]:
            base = int64(row[c.TARGET]) * 16
    else:
        base = (pc + 1) * 16 + int64(row[c.SUB])
    remaining = mask
    target = int64(-1)
    first = uint32(0)
    while remaining:
        lane = int64(lowest_one(remaining))
        word = T[0, lane]
        to = (base + int64(int32(word))) // 16
        together = uint32(0)
        for other in range(lane, 32):
            if (remaining >> uint32(other)) & uint32(1) and T[0, other] == word:
                together |= uint32(1) << uint32(other)
        if row[c.OP] == ops.RETURN and to >= FUNCTIONS:
            system.called(m, int64(warp), int64(pc), to - FUNCTIONS, uint32(together))
            if view.control(m)[s.STOP]:
                return pc, active
            to = int64(R[system.RETURN_TO, lane]) // 16
        if to < 0 or to >= len(view.code(m)):
            fault(m, s.BAD_TARGET, pc, warp, together, to * 16, 0, 1)
            return pc, active
        remaining &= ~together
        if target < 0:
            target, first = to, together
        else:
            new_group(m, int64(warp), int64(to), uint32(together), int64(s.READY), int64(0))
    rest = active & ~mask
    if rest:
        new_group(m, int64(warp), int64(pc + 1), uint32(rest), int64(s.READY), int64(0))
    return target, first
