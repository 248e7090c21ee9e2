"""A cubin as the source of front matter. It has only sizes of parameters: 8 bytes are taken for a pointer, 4
for a whole number. Triton's JSON file beside it has warps and dynamic shared memory."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics import elf as images
from tilewave.basics import files
from tilewave.basics.errors import UserError
from tilewave.basics.paths import relative
from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping.reading import Function, Parameter, Source, shortened
from tilewave.compiling import cubin as parts
from tilewave.compiling import sass
from tilewave.compiling.declarations import Declaration, Token
from tilewave.theory import architectures

SUFFIX = ".cubin"
POINTER, NUMBER = 8, 4
SCRATCH, TRITON = 2, re.compile("8+4+88")
"""Number of scratch pointers after the parameters of a Triton kernel, and the sizes of all its parameters."""
INSTRUCTIONS: dict[str, str] = table_beside(__file__)
"""Instructions that multiply elements, and their dtype, the rarest first."""
MOST_WARPS = 32
"""Limit of the warps of a block."""
SHARED = re.compile(r"\b(?:LDS|STS|LDSM|STSM|ATOMS|LDGSTS|UTMALDG|HGMMA|IGMMA|QGMMA)\b")
SUMS = re.compile(r"HG?MMA\.\S*F32")


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel of a cubin. front: front matter from it and its JSON file; dtype: of what it multiplies;
    dynamic: whether the launch sets its shared memory; scratch: number of last pointers that may be null."""

    function: Function
    front: dict[str, Any]
    arch: int
    dtype: str
    dynamic: bool
    scratch: int


def read(path: Path) -> tuple[Source, dict[str, CompiledKernel]]:
    """Read a cubin, and return its source and its kernels by name. Raises UserError."""
    data = files.content(path, files.MOST_DATA)
    source = Source(path, {path: ""}, (path,))
    try:
        kernels = {name: images.read(data, name) for name in parts.kernels(data)}
        listing = sass.as_text(path)
    except Exception as error:  # a file that is no cubin may raise anything
        problem = f"it is no cubin ({error})"
        raise UserError.because(relative(path), problem, "Give an ELF file") from error
    beside = _beside(path)
    return source, {name: _kernel(path, image, listing, beside) for name, image in kernels.items()}


def _beside(path: Path) -> dict[str, Any]:
    """Return Triton's metadata beside a cubin; empty if there is none."""
    try:
        metadata = json.loads(files.content(path.with_suffix(".json")))
    except (UserError, ValueError, RecursionError):
        return {}
    warps = metadata.get("num_warps") if isinstance(metadata, dict) else None
    return metadata if isinstance(warps, int) and 0 < warps <= MOST_WARPS else {}


def _kernel(
    path: Path, image: images.Image, listing: str, beside: dict[str, Any]
) -> CompiledKernel:
    code = listing.partition(f".text.{image.entry}")[2]
    dtype = next((name for sign, name in INSTRUCTIONS.items() if re.search(sign, code)), "f32")
    sizes = image.parameter_sizes
    taken = sizes[:-SCRATCH] if beside or TRITON.fullmatch("".join(map(str, sizes))) else sizes
    types = {POINTER: (dtype, 1), NUMBER: ("int", 0)}
    parameters = [
        Parameter(f"p{at}", *types.get(size, (f"struct of {size} bytes", 0)), constant=False)
        for at, size in enumerate(taken)
    ]
    tokens = [Token("float", 0, word=True), Token("sum", 1, word=True), Token(";", 2)]
    body = tuple(tokens) if SUMS.search(code) else ()
    declaration = Declaration("function", (image.entry,), (), 0, 0, (), body)
    tree = tuple(range(len(taken)))
    front: dict[str, Any] = {"cubin": path.name}
    if image.block:
        front["block"] = shortened(image.block)
    if beside:
        front |= {"block": [32 * beside["num_warps"]], "shared_bytes": beside.get("shared", 0)}
    if max(image.cluster, default=1) > 1:
        front["cluster"] = shortened(image.cluster)
    function = Function(image.entry, path, declaration, (), tuple(parameters), (), tree)
    stated = beside or architectures.of(image.arch).declared(image.shared_size)
    dynamic, scratch = not stated and bool(SHARED.search(code)), len(sizes) - len(taken)
    return CompiledKernel(function, front, image.arch, dtype, dynamic, scratch)
