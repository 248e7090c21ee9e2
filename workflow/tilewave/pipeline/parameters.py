"""What the Snakefile reads: folders, studies, and the digests that make a rule run again.

With the standard library alone, because every job of a run reads the Snakefile again. What is wrong with a config or a
kernel file, `project.load` says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics import dependencies
from tilewave.basics.paths import HEADERS, LIBRARY, PARTS, RECORDED, ROOT, SHIPPED, has_parts, place
from tilewave.compiling import source
from tilewave.records.environment import fingerprint, has_gpu

WANTS = ("cases", "time", "tune", "counters", "execute")
"""What of a study the plan depends on."""
LOOKS = ("style", "strict", "base", "head", "output", "studies")
"""What of a config it does not depend on."""
SOURCES, DATA = (".cu", ".cuh", ".h", ".hpp"), (".py", ".yaml", ".cubin")
"""Files of a folder of kernels; comments in the first are no code."""
FRONT = re.compile(r"/\*---\n.*?---\*/", re.DOTALL)

MARKER, MARK = ".tilewave-run", "Tilewave's runs write here, and delete what they wrote before.\n"

Document = Mapping[str, Any]


def _digest(parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_name(files: Sequence[Any]) -> str:
    """The config file's path for messages, relative where it can be."""
    path = Path(str(files[-1])) if files else ROOT / "config" / "config.yaml"
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def folders(config: Document) -> tuple[str, str]:
    """Where results and the report go."""
    output = config.get("output") or {}
    return output.get("results", "results"), output.get("reports", "reports")


def mark(*made: str) -> None:
    """Make the folders of a run and leave the mark by which the next one knows them."""
    for folder in map(Path, made):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).is_file():
            (folder / MARKER).write_text(MARK, encoding="utf-8")


def studies(config: Document) -> list[str]:
    """The studies whose figures a run draws: all, or those that `only` names. Where it names kernels, dtypes or shapes
    besides, a study may have no case and no figure."""
    named, words = config.get("studies", {}), _words(config.get("only"))
    members = [one for word in words for one in (config.get("parts") or {}).get(word, [word])]
    chosen = [name for name in named if name in members]
    return chosen or list(named)


def narrowed(config: Document) -> bool:
    """Whether `only` names more than studies, so that nobody knows yet which of them have cases."""
    known = {*config.get("studies", {}), *(config.get("parts") or {})}
    return not known.issuperset(_words(config.get("only")))


def _words(given: Any) -> list[str]:
    """The words of `only`, which is a list or a text with commas or blanks."""
    listed = given if isinstance(given, list) else re.split(r"[\s,]+", str(given or ""))
    return [str(word) for word in listed if word]


def planned(config: Document) -> str:
    """Digest of what the config and the kernels ask for. A comment in a kernel changes nothing."""
    asked = {
        name: {want: study.get(want) for want in WANTS}
        for name, study in config.get("studies", {}).items()
    }
    rest = {name: value for name, value in config.items() if name not in LOOKS}
    return _digest([rest, asked, [_code(path) for path in _kernel_files(config)], modules(config)])


def drawn(config: Document, names: Iterable[str]) -> list[str]:
    """Digest of what each of these studies says of its figure."""
    style, found = config.get("style"), config.get("studies", {})
    return [
        _digest([{k: v for k, v in found[name].items() if k not in WANTS}, style]) for name in names
    ]


def texts(config: Document) -> str:
    """Digest of the kernels' files, comments and all: pages show them."""
    return _digest([_content(path) for path in _kernel_files(config)])


def modules(config: Document) -> list[str]:
    """Digests of the users' own operations and plots."""
    named = (*(config.get("operation_folders") or ()), *(config.get("plot_folders") or ()))
    return [_content(path) for one in named for path in sorted(place(one).glob("*.py"))]


def code(*names: str) -> str:
    """Digest of these modules of the library and of all that they import; a plot of the user's own is left to `modules`.

    Raises KeyError for a module that does not exist.
    """
    plots = {path.stem for path in (LIBRARY / "plots").iterdir()}  # modules and packages
    own = {name for name in names if name.startswith("plots.") and name[6:] not in plots}
    return dependencies.digest(*(name for name in names if name not in own))


templates = dependencies.templates_digest


def machine() -> str:
    """What this machine can measure: a GPU, ncu or a permission that was not there before makes a run plan anew."""
    return json.dumps(fingerprint(), sort_keys=True)


def recorded(config: Document, root: Path = ROOT) -> str:
    """Digest of the recorded figures that a run may show; none where it measures live."""
    target = config.get("target", "auto")
    if target == "live" or (target == "auto" and has_gpu(fingerprint())):
        return ""
    return _digest([_content(path) for path in sorted(place(RECORDED, root).glob("*/*"))])


def tried(results: str) -> str:
    """When a run last tried something in vain: the next one looks at it again (see `Pipeline.attempts`)."""
    files = (Path(results) / "attempts").rglob("*.json")
    return str(max((path.stat().st_mtime_ns for path in files), default=""))


def _kernel_files(config: Document) -> Iterator[Path]:
    for named in config.get("kernel_folders") or [SHIPPED]:
        folder = place(named)
        folder = folder if folder.is_dir() else folder.parent
        parts = [folder / part for part in (*PARTS, HEADERS)] if has_parts(folder) else []
        for one in (folder, *parts):
            with contextlib.suppress(OSError):
                yield from (p for p in sorted(one.iterdir()) if p.suffix in (*SOURCES, *DATA))


def _code(path: Path) -> str:
    """Name and code of a kernel's file, without comments."""
    if path.suffix not in SOURCES:
        return _content(path)
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return str(path)
    return "\n".join([str(path), *FRONT.findall(text), source.code(text)])


def _content(path: Path) -> str:
    try:
        return f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError:
        return str(path)
