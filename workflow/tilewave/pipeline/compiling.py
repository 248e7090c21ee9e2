"""Stage compile: the code of every variant for every architecture, looked up or compiled now.

A compilation is a result like any other: it has a key (`nvrtc.cache_key`), and comes from the store or a
recording. A recording holds no cubin, only facts about it, so a variant that runs here is compiled here, and its
machine code is what nvdisasm says: a recorded listing is for pages only.
"""

from __future__ import annotations

import functools
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave.basics.files import lies_in
from tilewave.basics.paths import ROOT
from tilewave.compiling import cubin, nvrtc, origins, ready, sass, source
from tilewave.compiling.origins import Origin
from tilewave.kernel import includes, result
from tilewave.kernel.digests import host_code, source_digest
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.variants import Variant
from tilewave.records.store import Store, write_atomically, write_where_other
from tilewave.workers import pool
from tilewave.workers.pool import Ended, ProcessLimits

if TYPE_CHECKING:
    from tilewave.records.recorded import Recorded  # it needs Arrow

KEPT = (".cubin", ".sass")
"""Suffixes of the files that the store keeps of a compiled variant, beside its entry."""
KIND = "compiled"
NEEDED = {"sha256", "code", "kernels", "resources"}
"""Keys of the entry of a compiled variant."""
LIMIT_S, MEMORY = 120, 4 << 30
"""Limits of one compilation: seconds of processor time, bytes. The largest shipped kernel takes 4 s and 0.2 GB."""
MOST_LOG = 1 << 20
"""Largest number of characters kept of the compiler's log."""

Entry = dict[str, Any]
Listing = tuple[str, dict[str, list[int]]]
"""nvdisasm's listing, and by file the line numbers that had code when it was compiled."""


@dataclass(frozen=True)
class Task:
    """A compilation: a variant for an architecture (``sm_90``)."""

    variant: Variant
    wanted: str

    @property
    def id(self) -> str:
        return f"{self.variant.id} {self.wanted}"

    @property
    def arch(self) -> str:
        """The architecture it is compiled for: ``sm_90a`` if the kernel asks for it."""
        return nvrtc.target_of(self.variant.kernel, self.wanted)

    @property
    def compiler(self) -> Any:
        """The module that makes the cubin."""
        return nvrtc if self.variant.kernel.front.cubin is None else ready

    @functools.cached_property
    def key(self) -> str:
        return str(self.compiler.cache_key(self.variant.kernel, self.arch, self.variant.names))

    @functools.cached_property
    def text_key(self) -> str:
        return str(self.compiler.text_key(self.variant.kernel, self.arch, self.variant.names))


def _stored(task: Task, store: Store) -> Entry | None:
    """Return the store's entry of a compilation, None if it or one of its files is missing."""
    entry = store.read(store.blob(KIND, task.key, ".json"))
    if not isinstance(entry, dict) or entry.get("key") != task.key:
        return None
    if entry.get("status") == result.FAILED_TO_COMPILE:
        return entry
    if entry.get("status") != result.OK or not entry.keys() >= NEEDED:
        return None
    return entry if all(store.blob(KIND, task.key, suffix).is_file() for suffix in KEPT) else None


def _kept(entry: Mapping[str, Any], store: Store, suffix: str) -> bytes | None:
    """Return a file that the store has of a compilation, None if it has none."""
    try:
        return store.blob(KIND, str(entry.get("key", "")), suffix).read_bytes()
    except OSError:
        return None


def _entry(task: Task, done: nvrtc.Compiled) -> Entry:
    """Return the entry of a compilation without its code."""
    kernel = task.variant.kernel
    texts = origins.kernel_texts(kernel)
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
        "lines": {name: source.line_numbers(text) for name, text in texts.items()},
    }


WAITS = "ACQBULK"
"""The instruction by which a kernel waits for the launch before it (griddepcontrol.wait)."""


def compile_now(
    task: Task, store: Store, listing_of: Callable[[Path], str] = sass.as_text
) -> Entry:
    """Compile a variant into the store, also a refusal. listing_of: returns nvdisasm's listing of a cubin."""
    kernel, begun = task.variant.kernel, time.monotonic()
    done: nvrtc.Compiled = task.compiler.compile_kernel(kernel, task.arch, task.variant.names)
    entry = _entry(task, done)
    if done.cubin:
        path = store.blob(KIND, task.key, ".cubin")
        write_atomically(path, done.cubin)
        text = listing_of(path)
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
    store.write(store.blob(KIND, task.key, ".json"), entry)
    return _with_symbol(kernel, entry)


def _with_symbol(kernel: Kernel, entry: Entry) -> Entry:
    """Return the entry with the symbols of the kernels that front matter, which is not in its key, names now:
    the leading one's ``symbol``, of several all ``symbols``. One that lacks any is *failed to compile*."""
    if "kernels" not in entry:  # refused by the compiler, or recorded with its symbol
        return entry
    try:
        named = entry.get("named", {})
        there = entry["kernels"]
        symbols = {name: named.get(name) or nvrtc.symbol(name, there) for name in kernel.entries}
    except nvrtc.NoSymbol as error:
        refused = {name: entry[name] for name in entry if name not in ("code", "sha256")}
        return refused | {"status": result.FAILED_TO_COMPILE, "reason": str(error)}
    used = entry["resources"]
    used = {**used, **{function: used[name] for function, name in symbols.items() if name in used}}
    more = {"symbols": symbols} if len(symbols) > 1 else {}
    return entry | {"symbol": symbols[kernel.entry], "resources": used, **more}


def compiled(tasks: Iterable[Task], store: Store, cores: int) -> Iterator[tuple[Task, Entry]]:
    """Compile into the store, and yield each task with its entry as it is done. NVRTC has one thread and may
    run out of memory: each core has a process, forked first; one over its limits is *failed to compile*."""
    waiting = list({task.key: task for task in tasks}.values())
    limits = ProcessLimits(LIMIT_S, MEMORY, *_opened(waiting, store))
    done = pool.each(lambda task: compile_now(task, store), waiting, cores, limits)
    return (
        (task, _ended(task, store, outcome) if isinstance(outcome, Ended) else outcome)
        for task, outcome in done
    )


def _ended(task: Task, store: Store, end: Ended) -> Entry:
    narrow = 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < MEMORY
    if "can't start new thread" in end.reason or (narrow and isinstance(end.error, MemoryError)):
        raise end.error  # the machine's limit, not the kernel's fault
    options = nvrtc.options(task.variant.kernel, task.arch, task.variant.names)
    message = f"compiling it: {end.reason}"
    entry = _entry(task, nvrtc.Compiled(None, options, nvrtc.version(), "", message))
    if end.lasting:
        store.write(store.blob(KIND, task.key, ".json"), entry)
    return entry


def _opened(tasks: Iterable[Task], store: Store) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the paths that compiling reads (kernels, headers, Tilewave itself) and writes (the store)."""
    kernels = [task.variant.kernel for task in tasks]
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    tool = sass.disassembler()
    read = [
        *(folder for kernel in kernels for folder in kernel.folders if lies_in(folder, [folder])),
        *includes.folders(),
        *([] if tool is None else [Path(tool).parent]),
        ROOT,
        *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path), *libraries)),
        *map(Path, "/usr /lib /lib64 /opt /nix /dev/urandom /etc/ld.so.cache".split()),
    ]
    store.root.mkdir(parents=True, exist_ok=True)
    return tuple(map(Path.resolve, read)), (store.root.resolve(), Path("/dev/null"))


class Compilations:
    """The compilations that the store and a recording know."""

    def __init__(self, store: Store, recorded: Recorded | None, folder: Path) -> None:
        self._store, self._recorded, self._folder = store, recorded, folder
        self._unavailable = nvrtc.available()

    def entry(self, variant: Variant, wanted: str) -> Entry | None:
        """Return a variant's entry for an architecture, None if it must be compiled first.
        ``cubin`` and ``sass`` are the paths of its files; without a compiler there is no cubin."""
        kernel = variant.kernel
        about = {"macros": dict(variant.macros), "source_sha256": source_digest(kernel)}
        if kernel.provider != "nvrtc":
            return {"status": result.OK, "reason": "", "code": host_code(kernel), **about}
        task = Task(variant, wanted)
        entry = None if self._unavailable else _stored(task, self._store)
        entry = entry and _with_symbol(kernel, entry)
        if entry is None and self._recorded is not None:
            entry = self._of_recording(task)
        if entry is None and self._unavailable:
            status = {"status": result.NOT_MEASURED, "reason": self._unavailable, "arch": task.arch}
            entry = {**status, **about}
        if entry is not None and "code" in entry:
            stem = self._folder / kernel.name / f"{variant.id}.{wanted}"
            entry["sass"] = f"{stem}.sass"
            if not self._unavailable:
                entry["cubin"] = f"{stem}.cubin"
        return entry

    def _of_recording(self, task: Task) -> Entry | None:
        """Return the recorded compilation of the same text, by this machine's NVRTC if it has one."""
        assert self._recorded is not None
        recorded = self._recorded.compiled.get(f"{task.variant.id}.{task.wanted}")
        if recorded is None or recorded.get("text") != task.text_key:
            return None
        if not self._unavailable and recorded.get("key") != task.key:
            return None
        status = result.NOT_MEASURED if self._unavailable else result.OK
        entry = {"status": status, "reason": self._unavailable, "arch": task.arch, "log": ""}
        return {**entry, "macros": dict(task.variant.macros), **recorded, "recorded": True}

    def missing_cubin(self, variant: Variant, wanted: str) -> bool:
        """Return whether a variant that is to run here must be compiled first, and can be."""
        if variant.kernel.provider != "nvrtc" or self._unavailable:
            return False
        return _stored(Task(variant, wanted), self._store) is None

    def _compiled_here(self, entry: Mapping[str, Any]) -> Listing | None:
        """Return nvdisasm's listing of a cubin in the store, the only one that may be executed."""
        text = _kept(entry, self._store, ".sass")
        if text is None and sass.disassembler() and _kept(entry, self._store, ".cubin"):
            key = str(entry.get("key", ""))
            text = sass.as_text(self._store.blob(KIND, key, ".cubin")).encode()
            write_atomically(self._store.blob(KIND, key, ".sass"), text)
        return None if text is None else (text.decode(errors="replace"), entry.get("lines", {}))

    def as_compiled(self, entry: Mapping[str, Any]) -> Listing | None:
        """Return a variant's listing as it was made."""
        listing, key = self._compiled_here(entry), str(entry.get("key", ""))
        return listing or (self._recorded.listing(key) if self._recorded and key else None)

    def listing(self, variant: Variant, entry: Mapping[str, Any]) -> str | None:
        """Return nvdisasm's listing of a compiled variant, with the line numbers of the current files."""
        return self._relined(variant, self.as_compiled(entry))

    @staticmethod
    def _relined(variant: Variant, listing: Listing | None) -> str | None:
        if listing is None:
            return None
        text, lines = listing
        return sass.relined(text, source.moved(lines, origins.kernel_texts(variant.kernel)))

    def origins(
        self, variant: Variant, entry: Mapping[str, Any], function: str = ""
    ) -> Mapping[int, Origin]:
        """Return the current source line of each instruction of a compiled variant, by address.
        function: a symbol of the cubin; default: the leading kernel's."""
        listing, key = self.as_compiled(entry), str(entry.get("key", ""))
        listing = listing or (self._recorded.places(key) if self._recorded else None)
        text = self._relined(variant, listing)
        if text is None:
            return {}
        function = function or entry.get("symbol", variant.kernel.entry)
        return origins.of_listing(text, function, origins.kernel_texts(variant.kernel))

    def provide(self, variant: Variant, wanted: str) -> Entry | None:
        """Write a variant's known cubin and listing to the paths in its entry, which is returned."""
        entry = self.entry(variant, wanted)
        if entry is not None and "cubin" in entry:
            content = _kept(entry, self._store, ".cubin")
            text = self._relined(variant, self._compiled_here(entry))
            if content is not None and text is not None:
                write_where_other(Path(entry["sass"]), text)
                write_atomically(Path(entry["cubin"]), content)
        return entry
