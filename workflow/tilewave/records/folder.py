"""The folder of a recording: its files with their checksums, and its environments. Its tables: `recorded`."""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tilewave.basics import memory
from tilewave.basics.errors import UNPRINTABLE
from tilewave.basics.tables import table_beside

RESULTS, ENVIRONMENTS, COMPILED = "results.parquet", "environments.json", "compiled.json"
LISTINGS, ACCESSES = "listings.parquet", "accesses.parquet"
SUMS = "SHA256SUMS"
TABLES = table_beside(__file__)
LOST: Mapping[str, str] = TABLES["lost"]
NUMBERS = frozenset(TABLES["numbers"])
MOST = 1e300
"""Limit of a figure."""
OTHERS = {"packages": dict, "dirty": bool, "recorded": bool}
"""Facts of an environment of other types; all further ones are texts."""
MISSING = "it is missing"

Parsed = TypeVar("Parsed")


def objects(data: bytes, name: str) -> dict[str, dict[str, Any]]:
    """Read a JSON object of objects. Raises ValueError."""
    entries: dict[str, dict[str, Any]] = json.loads(data)
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise ValueError("it is no JSON object of objects")
    return entries


def environments(data: bytes, name: str) -> dict[str, dict[str, Any]]:
    """Read the JSON document of environments. Raises ValueError."""
    entries = objects(data, name)
    for identity, facts in entries.items():
        for key, value in facts.items():
            if value is None:
                continue
            right = isinstance(value, OTHERS.get(key, str))
            if key in NUMBERS:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                right = number and 0 < value < MOST
            texts = [key, value] if isinstance(value, str) else [key]
            if isinstance(value, dict):
                texts += [*value, *value.values()]
            plain = (isinstance(text, str) and not UNPRINTABLE.search(text) for text in texts)
            if not right or not all(plain):
                raise ValueError(f"{identity}.{key} has another type, or control characters")
    return entries


class Folder:
    """Read access to the files of a folder of recorded values, and to its environments."""

    unreadable: tuple[type[Exception], ...] = (ValueError, TypeError, OSError, RecursionError)
    """What a parser raises for a file of another form."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self._lost: dict[str, str] = {}

    @functools.cached_property
    def _sums(self) -> dict[str, set[str]]:
        """Checksums by file; two while `record` writes."""
        sums: dict[str, set[str]] = {}
        reason = "it holds no checksums"
        try:
            for line in (self.folder / SUMS).read_text("utf-8").splitlines():
                checksum, _, name = line.partition("  ")
                sums.setdefault(name, set()).add(checksum)
        except FileNotFoundError:
            reason = MISSING
        except (OSError, UnicodeDecodeError):
            pass
        if not sums:
            self._lost[SUMS] = reason
        return sums

    def _load(self, name: str, parse: Callable[[bytes, str], Parsed]) -> Parsed | None:
        """Return the content of a file; None if it is missing or damaged."""
        checksums = self._sums.get(name, set())
        try:
            data = (self.folder / name).read_bytes()
        except FileNotFoundError:
            if checksums or name in (RESULTS, ENVIRONMENTS):
                self._lost[name] = MISSING
            return None
        except OSError as error:
            self._lost[name] = f"it cannot be read: {error.strerror}"
            return None
        if digest(data) not in checksums:
            self._lost[name] = f"its checksum is not the one in {SUMS}"
            return None
        try:
            with memory.limited():
                return parse(data, name)
        except MemoryError:
            self._lost[name] = memory.exceeded()
            return None
        except self.unreadable as error:
            detail = (str(error).splitlines() or ["it has another form"])[0][:120]
            self._lost[name] = f"it cannot be understood: {detail}"
            return None

    @functools.cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        return self._load(ENVIRONMENTS, environments) or {}

    @functools.cached_property
    def main_environment(self) -> str:
        """The environment with a GPU that has the most results; empty if there is none."""
        with_gpu = {name: facts for name, facts in self.environments.items() if facts.get("gpu")}
        counts = ((facts.get("results", 0), name) for name, facts in with_gpu.items())
        return max(counts, default=(0, ""))[1]

    @functools.cached_property
    def size(self) -> int:
        """Number of results."""
        return int(sum(facts.get("results", 0) for facts in self.environments.values()))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folders(root: Path) -> list[Path]:
    """Return the recorded folders under ``root``, by name."""
    paths = (path for name in (ENVIRONMENTS, SUMS) for path in root.glob(f"*/{name}"))
    # Since Python 3.12 `glob` also finds broken links.
    return sorted({path.parent for path in paths if path.exists()})


def largest_first(root: Path) -> list[Folder]:
    """Return the recordings under ``root``, the one with the most results first."""
    recordings = (Folder(path) for path in folders(root))
    return sorted(recordings, key=lambda recording: (recording.size, recording.name), reverse=True)
