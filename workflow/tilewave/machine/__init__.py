"""The machine: its code, its threads and its memory. Knows nothing of GEMM, records or files.

`launch.execute` takes a `program.load`ed kernel through a launch. From a cubin to counts and
faults the way leads through these modules:

What a kernel is, in plain Python

    cubin         sizes, constants, symbols of an ELF file
    operands      operands as nvdisasm prints them
    families      the opcodes of each family: their rules, the numbers of what they do
    registry      the rule of each opcode, put together from the families
    form          an instruction on its way to a row of numbers
    decode        an opcode and its operands -> a row of numbers, by its rule
    maps          tensor maps: what an argument of that type holds here
    codes         what the numbers of a row mean whatever its family is
    liveness      which words of a wide shared load nobody reads
    program       all of it together: instructions as text and as rows
    errors        what is not known, and launches that no GPU accepts

What runs, compiled by numba

    state         the arrays of the block that runs, their sizes, and what their columns mean
    views         the same arrays as compiled functions see them, made from those
    blocks        blocks of a grid one after the other, turns of the warps, when to stop
    warp          one warp: groups of lanes, control flow, barriers, counting instructions
    lanes         the commonest instructions, straight from register to register
    handlers      all others: the function of each family
    registers     sources of an instruction, and its results to where they belong
    integer, floating, halves, conversion, special (with coefficients), votes
                  what the families compute, 32 lanes at once
    tensor, dmma, imma, fp8 (with fragments, vectors)
                  matrix products of the tensor cores
    accesses      loads and stores: what moves
    copies, atomics
                  asynchronous copies of a warp; atomics
    validity      where the lanes of an access stand, whether they may, and faults
    races         who read and wrote what, and whether it was ordered
    patterns      what an access costs (`theory.wavefronts`), counted and remembered
    orders        who knows of whose accesses where some are asynchronous
    mbarrier      counters that threads and copies arrive at, phase after phase
    bulk          boxes and runs of bytes that one thread has copied (TMA)
    hgmma         products of a warpgroup out of shared memory
    system        functions that the driver provides: printf, a failing assert
    cluster       the barrier of a cluster's blocks, registers that warps hand on
    compiling     where compiled code is kept, and how it gets there
    building      compiles it, in a process of its own

What comes before and after

    arguments     what a kernel gets: buffers, structs
    launch        a launch: arguments to memory, state, limits; counts and buffers back
    findings      faults in words
    printing      what printf and assert said, as text
    tracing       a block once more, to learn the other side of a race
    access        one access to shared memory, lane by lane
    marking       which bytes of global memory were read and written
    spreading     blocks on several cores at once, where their order makes no difference
    capturing     where the lanes of accesses to shared memory stood, and which wavefront serves which
"""

from __future__ import annotations

VERSION = 3  # raised when what is executed, counted or caught changes; part of every key
