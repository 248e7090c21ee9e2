"""Stage compile: what every variant is for every architecture, known or compiled now.

A compilation is a result like any other: it has a key (`nvrtc.cache_key`), and the first that knows it
gives it, the store or a recording. A recording holds no cubin, only what is known of one; a variant that
is to run here and has none is compiled.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.paths import ROOT
from tilewave.compiling import cubin, nvrtc, origins, ready, sass, source
from tilewave.compiling.origins import Origin
from tilewave.kernel import includes, result
from tilewave.kernel.front_matter import Kernel, host_code, source_digest
from tilewave.kernel.variants import Variant
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store, write_atomically, write_where_other
from tilewave.workers import pool
from tilewave.workers.pool import Ended, ProcessLimits

KEPT = (".cubin", ".sass")
"""What the store keeps of a compiled variant beside what is known of it."""
KIND = "compiled"
LIMIT_S, MEMORY = 120, 4 << 30
"""Seconds of processor time and bytes that one compilation may take; the longest of Tilewave's own takes
4 s and 0.2 GB."""
MOST_LOG = 1 << 20
"""Letters of the compiler's log that are kept."""

Entry = dict[str, Any]
Listing = tuple[str, dict[str, list[int]]]
"""nvdisasm's listing, and by file the numbers of the lines that had code when it was compiled."""


@dataclass(frozen=True)
class Task:
    """One compilation: a variant for an architecture (``sm_90``)."""

    variant: Variant
    wanted: str

    @property
    def id(self) -> str:
        return f"{self.variant.id} {self.wanted}"

    @property
    def arch(self) -> str:
        """What it is compiled for: ``sm_90a`` where the kernel asks for it."""
        return nvrtc.target_of(self.variant.kernel, self.wanted)

    @property
    def compiler(self) -> Any:
        """Who makes the cubin."""
        return nvrtc if self.variant.kernel.front.cubin is None else ready

    @functools.cached_property
    def key(self) -> str:
        return str(self.compiler.cache_key(self.variant.kernel, self.arch, self.variant.names))

    @functools.cached_property
    def text_key(self) -> str:
        return str(self.compiler.text_key(self.variant.kernel, self.arch, self.variant.names))


def _stored(task: Task, store: Store) -> Entry | None:
    """What the store knows of a compilation whose files it has."""
    found = store.read(store.blob(KIND, task.key, ".json"))
    if not isinstance(found, dict) or found.get("key") != task.key:
        return None
    if found.get("status") == result.FAILED_TO_COMPILE:
        return found
    if found.get("status") != result.OK or not {"sha256", "code", "kernels", "resources"} <= set(
        found
    ):
        return None
    return found if all(store.blob(KIND, task.key, one).is_file() for one in KEPT) else None


def _kept(entry: Mapping[str, Any], store: Store, suffix: str) -> bytes | None:
    """A file that the store has of a compilation; None where it has none."""
    try:
        return store.blob(KIND, str(entry.get("key", "")), suffix).read_bytes()
    except OSError:
        return None


def _entry(task: Task, done: nvrtc.Compiled) -> Entry:
    """What is known of a compilation but for its code."""
    kernel = task.variant.kernel
    return {
        "status": result.OK if done.cubin else result.FAILED_TO_COMPILE,
        "reason": done.message,
        "arch": task.arch,
        "macros": dict(task.variant.macros),
        "options": list(done.options),
        "nvrtc": done.version,
        "source_sha256": source_digest(kernel),
        "log": done.log if len(done.log) <= MOST_LOG else f"{done.log[:MOST_LOG]}\n[cut]\n",
        "key": task.key,
        "text": task.text_key,
        "lines": {
            name: source.line_numbers(text) for name, text in origins.kernel_texts(kernel).items()
        },
    }


def _keep(task: Task, store: Store, entry: Entry) -> None:
    store.write(store.blob(KIND, task.key, ".json"), entry)


WAITS = "ACQBULK"
"""The instruction by which a kernel waits for the launch before it (griddepcontrol.wait)."""


def compile_now(task: Task, store: Store, recorded: Recorded | None = None) -> Entry:
    """Compile a variant into the store; also a refusal by the compiler is kept.

    recorded: may have the listing of a cubin of the same bytes, which is then not made again.
    """
    kernel, begun = task.variant.kernel, time.monotonic()
    done: nvrtc.Compiled = task.compiler.compile_kernel(kernel, task.arch, task.variant.names)
    entry = _entry(task, done)
    if done.cubin:
        path = store.blob(KIND, task.key, ".cubin")
        write_atomically(path, done.cubin)
        listing = recorded.listing_of_cubin(done.sha256) if recorded is not None else None
        text = listing or sass.as_text(path)
        write_atomically(store.blob(KIND, task.key, ".sass"), text.encode())
        entry |= {
            "sha256": done.sha256,
            "code": cubin.code_digest(done.cubin),
            "kernels": cubin.kernels(done.cubin),
            "resources": done.resources,
            "waiting": sass.functions_with(text, WAITS),
        }
    if done.named:
        entry["named"] = done.named
    if done.warning:
        entry |= {"warning": done.warning, "log": f"{done.warning}\n{done.log}"}
    entry["seconds"] = round(time.monotonic() - begun, 3)
    _keep(task, store, entry)
    return _with_symbol(kernel, entry)


def _with_symbol(kernel: Kernel, entry: Entry) -> Entry:
    """What was compiled, with the names in it of the kernels that front matter means now; where it lacks
    one, refused. Front matter is no part of a compilation's key: another `entry` compiles nothing.

    ``symbol`` is the name of the one that leads; with several, ``symbols`` has each entry's."""
    if "kernels" not in entry:  # refused by the compiler, or recorded with its symbol
        return entry
    try:
        named = entry.get("named", {})
        symbols = {
            one: named.get(one) or nvrtc.symbol(one, entry["kernels"]) for one in kernel.entries
        }
    except nvrtc.NoSymbol as error:
        refused = {name: entry[name] for name in entry if name not in ("code", "sha256")}
        return refused | {"status": result.FAILED_TO_COMPILE, "reason": str(error)}
    used = entry["resources"]
    used = {**used, **{one: used[name] for one, name in symbols.items() if name in used}}
    more = {"symbols": symbols} if len(symbols) > 1 else {}
    return entry | {"symbol": symbols[kernel.entry], "resources": used, **more}


def compiled(
    tasks: Iterable[Task], store: Store, cores: int, recorded: Recorded | None = None
) -> Iterator[tuple[Task, Entry]]:
    """Compile into the store; each task and what came of it, as it is done.

    In as many processes as there are cores to use, forked before this returns: a compiler is single
    threaded, changes its process's working folder, and may take more than there is. One that goes over its
    limits is *failed to compile*, as one that the compiler refuses; where somebody else ended it, it is
    tried again by the next run.
    """
    waiting = list({task.key: task for task in tasks}.values())
    limits = ProcessLimits(LIMIT_S, MEMORY, *_opened(waiting, store, recorded))
    done = pool.each(lambda task: compile_now(task, store, recorded), waiting, cores, limits)
    return (
        (task, _ended(task, store, made) if isinstance(made, Ended) else made)
        for task, made in done
    )


def _ended(task: Task, store: Store, why: Ended) -> Entry:
    kernel = task.variant.kernel
    options = nvrtc.options(kernel, task.arch, task.variant.names)
    entry = _entry(
        task, nvrtc.Compiled(None, options, nvrtc.version(), "", f"compiling it: {why.reason}")
    )
    if why.lasting:
        _keep(task, store, entry)
    return entry


def _opened(
    tasks: Iterable[Task], store: Store, recorded: Recorded | None
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What compiling reads and writes: kernels, headers and Tilewave itself; the store."""
    kernels = [task.variant.kernel for task in tasks]
    named = [Path(word) for word in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if word]
    tool = sass.disassembler()
    read = [
        *(folder for kernel in kernels for folder in kernel.folders),
        *includes.folders(),
        *([] if tool is None else [Path(tool).parent]),
        *([] if recorded is None else [recorded.folder]),
        ROOT,
        *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path))),
        *named,
        *map(
            Path,
            ("/usr", "/lib", "/lib64", "/opt", "/nix", "/proc", "/dev/urandom", "/etc/ld.so.cache"),
        ),
    ]
    store.root.mkdir(parents=True, exist_ok=True)
    return tuple(map(Path.resolve, read)), (store.root.resolve(), Path("/dev/null"))


def compile_all(
    tasks: Iterable[Task],
    store: Store,
    cores: int,
    done: Callable[[Task, Entry], object] = lambda task, made: None,
    recorded: Recorded | None = None,
) -> None:
    """`compiled`, and ``done`` is called for each."""
    for task, made in compiled(tasks, store, cores, recorded):
        done(task, made)


class Compilations:
    """What is known of compilations, from the store and a recording."""

    def __init__(self, store: Store, recorded: Recorded | None, folder: Path) -> None:
        self._store, self._recorded, self._folder = store, recorded, folder
        self._why = nvrtc.available()

    def entry(self, variant: Variant, wanted: str) -> Entry | None:
        """What a variant is for an architecture; None where it has to be compiled first.

        ``cubin`` and ``sass`` are where its files are put; without a compiler there is no cubin.
        """
        kernel = variant.kernel
        if kernel.provider != "nvrtc":
            return {
                "status": result.OK,
                "reason": "",
                "code": host_code(kernel),
                "macros": dict(variant.macros),
                "source_sha256": source_digest(kernel),
            }
        task = Task(variant, wanted)
        found = None if self._why else _stored(task, self._store)
        found = found and _with_symbol(kernel, found)
        if found is None and self._recorded is not None:
            found = self._of_recording(task)
        if found is None and self._why:
            found = {
                "status": result.NOT_MEASURED,
                "reason": self._why,
                "arch": task.arch,
                "macros": dict(variant.macros),
                "source_sha256": source_digest(kernel),
            }
        if found is not None and "code" in found:
            place = self._folder / kernel.name / f"{variant.id}.{wanted}"
            found |= {"sass": f"{place}.sass", **({} if self._why else {"cubin": f"{place}.cubin"})}
        return found

    def _of_recording(self, task: Task) -> Entry | None:
        """The recorded compilation of the same text; by the same NVRTC where there is one here."""
        assert self._recorded is not None
        found = self._recorded.compiled.get(f"{task.variant.id}.{task.wanted}")
        if found is None or found.get("text") != task.text_key:
            return None
        if not self._why and found.get("key") != task.key:
            return None
        status = result.NOT_MEASURED if self._why else result.OK
        known = {"status": status, "reason": self._why, "arch": task.arch, "log": ""}
        return {**known, "macros": dict(task.variant.macros), **found, "recorded": True}

    def missing_cubin(self, variant: Variant, wanted: str) -> bool:
        """Whether a variant that is to run here must be compiled first (and can be)."""
        if variant.kernel.provider != "nvrtc" or self._why:
            return False
        return _stored(Task(variant, wanted), self._store) is None

    def as_compiled(self, entry: Mapping[str, Any]) -> Listing | None:
        """A variant's listing as it was made."""
        key = str(entry.get("key", ""))
        text = _kept(entry, self._store, ".sass")
        if text is None and sass.disassembler() and _kept(entry, self._store, ".cubin"):
            text = sass.as_text(self._store.blob(KIND, key, ".cubin")).encode()
            write_atomically(self._store.blob(KIND, key, ".sass"), text)
        if text is not None:
            return text.decode(errors="replace"), entry.get("lines", {})
        return self._recorded.listing(key) if self._recorded is not None and key else None

    def listing(self, variant: Variant, entry: Mapping[str, Any]) -> str | None:
        """nvdisasm's listing of a compiled variant, its line numbers those of the files as they are now."""
        return self._relined(variant, self.as_compiled(entry))

    @staticmethod
    def _relined(variant: Variant, found: Listing | None) -> str | None:
        if found is None:
            return None
        text, lines = found
        return sass.relined(text, source.moved(lines, origins.kernel_texts(variant.kernel)))

    def origins(
        self, variant: Variant, entry: Mapping[str, Any], function: str = ""
    ) -> Mapping[int, Origin]:
        """Address -> the line as it is now that an instruction of a compiled variant came from.

        function: a symbol of the cubin; default: that of the kernel that leads.
        """
        found, key = self.as_compiled(entry), str(entry.get("key", ""))
        if found is None and self._recorded is not None:
            found = self._recorded.places(key)
        listing = self._relined(variant, found)
        if listing is None:
            return {}
        function = function or entry.get("symbol", variant.kernel.entry)
        return origins.of_listing(listing, function, origins.kernel_texts(variant.kernel))

    def provide(self, variant: Variant, wanted: str) -> None:
        """Put a variant's cubin and listing where its entry says; what is not known stays away."""
        entry = self.entry(variant, wanted)
        if entry is None or "cubin" not in entry:
            return
        made = _kept(entry, self._store, ".cubin")
        text = self.listing(variant, entry)
        if text is not None:
            write_where_other(Path(entry["sass"]), text)
        if made is not None:
            write_atomically(Path(entry["cubin"]), made)
