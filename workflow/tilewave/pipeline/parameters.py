"""Values for the Snakefile: folders, studies, and the digests that make a rule run again.
Only the standard library is imported: every job reads the Snakefile. `project.load` reports mistakes."""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics import dependencies, files
from tilewave.basics.errors import UserError
from tilewave.basics.paths import HEADERS, LIBRARY, PARTS, RECORDED, ROOT, SHIPPED, has_parts, place
from tilewave.compiling import source
from tilewave.records.environment import fingerprint, has_gpu

WANTS = ("cases", "time", "tune", "counters", "execute")
"""Keys of a study that the plan depends on."""
LOOKS = ("style", "strict", "base", "head", "output", "studies")
"""Keys of a config that it does not depend on."""
SOURCES, DATA = (".cu", ".cuh", ".h", ".hpp"), (".py", ".yaml", ".cubin")
"""Suffixes in a folder of kernels; only the first kind has comments that are no code."""
FRONT = re.compile(r"/\*---\n.*?---\*/", re.DOTALL)

MARKER, MARK = ".tilewave-run", "Tilewave's runs write here, and delete what they wrote before.\n"

Document = Mapping[str, Any]


def digest(parts: Any) -> str:
    """Return a short digest of a JSON document."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_name(files: Sequence[Any]) -> str:
    """Return the config file's path for messages, relative if it can be."""
    path = Path(str(files[-1])) if files else ROOT / "config" / "config.yaml"
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def folders(config: Document) -> tuple[str, str]:
    output = config.get("output") or {}
    return output.get("results", "results"), output.get("reports", "reports")


def mark(*paths: str) -> None:
    """Make a run's folders, with the mark by which the next run knows them."""
    for folder in map(Path, paths):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).is_file():
            (folder / MARKER).write_text(MARK, encoding="utf-8")


def studies(config: Document) -> list[str]:
    """Return the studies whose figures a run draws: all, or those that `only` names."""
    named, names = config.get("studies", {}), split_names(config.get("only"))
    members = [study for name in names for study in (config.get("parts") or {}).get(name, [name])]
    chosen = [name for name in named if name in members]
    return chosen or list(named)


def narrowed(config: Document) -> bool:
    """Return whether `only` names more than studies: which of them have cases is then not known yet."""
    defined = {*config.get("studies", {}), *(config.get("parts") or {})}
    return not defined.issuperset(split_names(config.get("only")))


def split_names(value: Any) -> list[str]:
    """Return the items of `only` or `shapes`: a list, a number, or text separated by commas or blanks."""
    listed = value if isinstance(value, list) else re.split(r"[\s,]+", str(value or ""))
    return [str(name) for name in listed if name]


def planned(config: Document) -> str:
    """Return the digest of all that the plan depends on. A comment in a kernel changes nothing."""
    wants = {
        name: {want: study.get(want) for want in WANTS}
        for name, study in config.get("studies", {}).items()
    }
    rest = {name: value for name, value in config.items() if name not in LOOKS}
    return digest([rest, wants, [_code(path) for path in _kernel_files(config)], modules(config)])


def drawn(config: Document, names: Iterable[str]) -> list[str]:
    """Return, for each of these studies, the digest of its figure's keys."""
    style, studies = config.get("style"), config.get("studies", {})
    return [
        digest([{k: v for k, v in studies[name].items() if k not in WANTS}, style])
        for name in names
    ]


def texts(config: Document) -> str:
    """Return the digest of the kernels' files with comments, because pages show them."""
    return digest([_content(path) for path in _kernel_files(config)])


def modules(config: Document) -> list[str]:
    """Return the digests of user-defined operations and plots."""
    named = (*(config.get("operation_folders") or ()), *(config.get("plot_folders") or ()))
    paths = (path for folder in named for path in sorted(place(folder).glob("*.py")))
    return [_content(path, Path.read_bytes) for path in paths]


def code(*names: str) -> str:
    """Return the digest of these modules of the library and all that they import (user-defined plots: `modules`)."""
    plots = {path.stem for path in (LIBRARY / "plots").iterdir()}  # modules and packages
    user_defined = {name for name in names if name.startswith("plots.") and name[6:] not in plots}
    return dependencies.digest(*(name for name in names if name not in user_defined))


templates = dependencies.templates_digest


def machine() -> str:
    """Return what this machine can measure: a new GPU, ncu or permission makes a run plan anew."""
    return json.dumps(fingerprint(), sort_keys=True)


def recorded(config: Document) -> str:
    """Return the digest of the recorded values that a run may show, empty if it measures live."""
    target = config.get("target", "auto")
    if target == "live" or (target == "auto" and has_gpu(fingerprint())):
        return ""
    return digest([_content(path) for path in sorted(place(RECORDED).glob("*/*"))])


def tried(results: str) -> str:
    """Return the time of the last failed attempt, which the next run looks at again (`Pipeline.failed_attempts`)."""
    attempts = (Path(results) / "attempts").rglob("*.json")
    return str(max((path.stat().st_mtime_ns for path in attempts), default=""))


def _kernel_files(config: Document) -> Iterator[Path]:
    for named in config.get("kernel_folders") or [SHIPPED]:
        folder = place(named)
        folder = folder if folder.is_dir() else folder.parent
        parts = [folder / part for part in (*PARTS, HEADERS)] if has_parts(folder) else []
        for part in (folder, *parts):
            with contextlib.suppress(OSError):
                yield from (p for p in sorted(part.iterdir()) if p.suffix in (*SOURCES, *DATA))


def _code(path: Path) -> str:
    """Return name and code of a kernel's file, without comments."""
    if path.suffix not in SOURCES:
        return _content(path)
    try:
        text = files.content(path).decode("utf-8", "replace")
    except UserError:
        return str(path)
    return "\n".join([str(path), *FRONT.findall(text), source.code(text)])


def _content(path: Path, read: Callable[[Path], bytes] | None = None) -> str:
    try:
        content = read(path) if read else files.content(path, files.MOST_DATA)
        return f"{path} {hashlib.sha256(content).hexdigest()}"
    except (OSError, UserError):
        return str(path)
