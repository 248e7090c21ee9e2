"""A cubin as the source of front matter: what its ELF says of its kernels, in the place of their code.

It has no names and no types of parameters but their sizes: 8 bytes are taken for a pointer, and 4 for a whole
number. Triton's caches have a JSON file beside a cubin, which knows dynamic shared memory and warps.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics import elf as images
from tilewave.basics import files
from tilewave.basics.errors import UserError
from tilewave.commands.wrapping.reading import Function, Parameter, Source, shortened
from tilewave.compiling import cubin as parts
from tilewave.compiling import sass
from tilewave.compiling.declarations import Declaration, Token
from tilewave.kernel.front_matter import MOST_CUBIN
from tilewave.theory import architectures

SUFFIX = ".cubin"
POINTER, NUMBER = 8, 4
SCRATCH, TRITON = 2, re.compile("8+4+88")
"""Pointers to memory that Triton's kernels take behind their own parameters, and what it then looks like."""
INSTRUCTIONS = {
    r"[HQ]G?MMA\.\S*E4M3": "e4m3", r"[HQ]G?MMA\.\S*E5M2": "e5m2", r"HG?MMA\.\S*BF16": "bf16",
    r"HG?MMA\.\S*TF32": "tf32", r"HG?MMA\.": "f16", r"IG?MMA\.": "i8", r"\bD(?:MMA|FMA|ADD|MUL)\b": "f64",
}  # fmt: skip
"""What multiplies elements of which type, the rarest first."""
SHARED = re.compile(r"\b(?:LDS|STS|LDSM|STSM|ATOMS|LDGSTS|UTMALDG|HGMMA|IGMMA|QGMMA)\b")
SUMS = re.compile(r"HG?MMA\.\S*F32")


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel of a cubin. front: keys of front matter that the file, or the one beside it, says; dtype: of what
    it multiplies, as its instructions tell; dynamic: whether it has shared memory whose size the launch says; scratch: pointers
    behind its parameters that may be null."""

    function: Function
    front: dict[str, Any]
    arch: int
    dtype: str
    dynamic: bool
    scratch: int


def read(path: Path) -> tuple[Source, dict[str, CompiledKernel]]:
    """A cubin's kernels by name. Raises UserError for a file that is none."""
    data = files.content(path, MOST_CUBIN)
    source = Source(path, {path: ""}, (path,))
    try:
        kernels = {name: images.read(data, name) for name in parts.kernels(data)}
    except Exception as error:  # whatever a file that is no cubin makes of the reader
        problem = f"{type(error).__name__}: {error}"
        raise UserError(path, "cubin", problem, "an ELF file with kernels") from error
    listing, beside = sass.of_cubin(path), _beside(path)
    return source, {name: _kernel(path, image, listing, beside) for name, image in kernels.items()}


def _beside(path: Path) -> dict[str, Any]:
    """What Triton keeps of a compilation beside it; empty where there is nothing of the kind."""
    try:
        metadata = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) and "num_warps" in metadata else {}


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
        front |= {"block": [32 * int(beside["num_warps"])], "shared_bytes": beside.get("shared", 0)}
    if max(image.cluster, default=1) > 1:
        front["cluster"] = shortened(image.cluster)
    function = Function(image.entry, path, declaration, (), tuple(parameters), (), tree)
    unknown_shared = not architectures.of(image.arch).declared(image.shared_size) and not beside
    scratch = len(sizes) - len(taken)
    return CompiledKernel(
        function, front, image.arch, dtype, unknown_shared and bool(SHARED.search(code)), scratch
    )
