"""Blocks to try for a kernel that no file launches, if the block of `guessing` decides nothing."""

import contextlib
import math
import re
from collections.abc import Iterator

from tilewave.commands.wrapping.arithmetic import Unknown, number, outside
from tilewave.commands.wrapping.guessing import constant
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.compiling.declarations import tokens
from tilewave.kernel.launches import BLOCK_LIMIT

FLAT, SQUARE = ("256", "1024", "128", "64", "32"), ("16,16", "32,32", "32,8", "8,8", "32,4")
"""Blocks that authors often write; they come after those that the numbers of a kernel suggest."""
SHARED = re.compile(r"__shared__ [^;\[]*? \w+ ((?:\[ [^\]]+ \] )+)")
SIDE = re.compile(r"\[ ([^\]]+?)(?: \+ \d)? \]")
WARPS = re.compile(r"(?:/|> >) (?:32|5|warpSize|WARP_?SIZE)\b")
"""How a kernel numbers its warps, which are several then."""
LINEAR = re.compile(r"threadIdx \. y \* blockDim \. x|blockDim \. x \* threadIdx \. y")
"""A thread's number in its block, which a block of one side has, too."""
PAIRS = re.compile(r"\b2 \* (?:threadIdx \. x|\w*tid\w*|t)\b")
"""The place of a thread that has two elements."""


def likely(function: Function, source: Source) -> Iterator[dict[str, str]]:
    """Yield flags of blocks, the likeliest first, and of a grid of one block for a kernel without a block index."""
    flat, alone = not function.mentions("threadIdx", ".", "y"), not function.mentions("blockIdx")
    sides, least = list[list[int]](), 64 if WARPS.search(function.text) else 32
    for array in SHARED.findall(function.text):
        with contextlib.suppress(Unknown):
            sides.append([number(tokens(of), outside(source)) for of in SIDE.findall(array)])
    named = [constant(source.near, of) for of in sorted(function.declaration.identifiers)]
    numbers = [of for of in named if of and of % 8 == 0]
    if flat:
        counts = [part for of in sides for part in (math.prod(of), math.prod(of) // 2, of[0])]
        blocks = [*map(str, (*counts, *numbers)), *FLAT]
        halves = ("{0} // 2", "{0}") if PAIRS.search(function.text) else ("{0}", "{0} // 2")
        sized = [text.format(of) for of in function.whole for text in halves]
        blocks = [*sized, *blocks] if alone else blocks
    else:
        tiles = [of[::-1] for of in sides if len(of) == 2] + [[of, of] for of in numbers]
        linear = LINEAR.search(function.text)
        blocks = [*(f"{x},{y}" for x, y in tiles), *SQUARE, *("32", "256") * bool(linear)]
    for block in dict.fromkeys(blocks):
        threads = math.prod(int(of) for of in block.split(",") if of.isdigit())
        if not block[0].isdigit() or least <= threads <= BLOCK_LIMIT:
            yield {"block": block} | ({"grid": "1"} if alone else {})
