"""Text of kernel files: one that includes the kernel's file, that file itself, or one that names a cubin."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tilewave.commands.wrapping import compiled
from tilewave.commands.wrapping.reading import Source
from tilewave.kernel.front_matter import FENCES

Front = Mapping[str, Any]
OPENING, CLOSING, _ = FENCES[".cu"]
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SIGNATURE = "# written by tilewave wrap"
"""Last line of front matter that may be written anew with --force."""
TRIAL = "tilewave_wrapped"
"""Stem of a trial's file; its name is part of the compiled code, and no user's file has it."""
ORDER = (
    "title operation cubin dtypes layouts macros block grid cluster shared_bytes requires "
    "architecture_specific reads_c compiler entry arguments"
).split()


def trial_path(source: Source, folder: Path) -> Path:
    """Return a file in a folder for trials; a cubin is copied beside it."""
    if source.path.suffix != compiled.SUFFIX:
        return folder / f"{TRIAL}.cu"
    shutil.copy(source.path, folder)
    return folder / f"{TRIAL}.yaml"


def front_matter(front: Front, ready: bool = False) -> str:
    """Return front matter as text, a line for each key; without a comment's fences for a cubin."""
    lines = [] if ready else [OPENING]
    for key in ORDER:
        if front.get(key) not in (None, {}, []):
            value = yaml.dump(
                front[key], None, DUMPER, default_flow_style=True, width=9999, sort_keys=False
            )
            text = f"{key}: {value.removesuffix(chr(10)).removesuffix('...').strip()}"
            mark = front.get("marks", {}).get(key)
            lines.append(f"{text}  # {mark}" if mark else text)
    lines.append(SIGNATURE)
    return "\n".join([*lines, *([] if ready else [CLOSING]), ""])


def without_front_matter(text: str) -> str:
    """Return a kernel file's text without front matter that `tilewave wrap` wrote; else the text as it is."""
    head, closing, rest = text.partition(CLOSING)
    ours = text.startswith(OPENING) and head.rstrip().endswith(SIGNATURE)
    return rest.lstrip("\n") if ours and closing else text


def text(front: Front, source: Source, folders: Sequence[Path], output: Path | None) -> str:
    """Return the text to write: of a file that names a cubin, of the kernel's file, of one that includes it, or,
    if ``output`` is None, the front matter to print."""
    if source.path.suffix == compiled.SUFFIX:
        return front_matter(front, ready=True)
    if output is None or output == source.path:
        head = front_matter(_including(front, folders, source.path.parent))
        return head if output is None else f"{head}\n{source.texts[source.path]}"
    # A header lies below the file or in a folder of front matter, and no file may include itself.
    home = output.parent
    if not source.path.is_relative_to(home):
        home = source.path.parent if output.name != source.path.name else source.path.parent.parent
    included = source.path.relative_to(home).as_posix()
    beside = [] if home == output.parent else [home]
    head = front_matter(_including(front, (*beside, *folders), output.parent))
    return f'{head}\n#include "{included}"\n'


def _including(front: Front, folders: Sequence[Path], home: Path) -> dict[str, Any]:
    """Add the folders of headers, relative to the kernel file's folder."""
    include = {"include": [os.path.relpath(folder, home) for folder in folders]} if folders else {}
    return {**front, "compiler": {**front.get("compiler", {}), **include}}
