"""Compilations of the tests' kernels. nvdisasm takes 0.3 s a kernel, and NVRTC up to 3 s, so they run only for new ones.

`python tests/support/keeping.py`, in a clone after `make smoke test` with an empty user cache, writes the listings and the
cubins of its store and of that cache, which has a command's trials, and of fixtures, but for those of the smoke study. They
are read without Arrow, for the process that compiles a trial sees no files for it.
"""

import functools
import hashlib
import itertools
import json
import lzma
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewave.basics import cache
from tilewave.compiling import cubin, sass
from tilewave.kernel.digests import source_digest
from tilewave.pipeline import compiling
from tilewave.pipeline.project import ROOT
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store, write_atomically

KEPT = Path(__file__).with_name("kept.zip")
STORE = ROOT / ".tilewave"
FIXTURES = STORE / "fixtures"
DISASSEMBLING_S, COMPILING_S, LEAST_S = 0.35, 0.5, 0.1
"""Seconds that a listing saves, the cubin of a fixture, and any cubin."""
MOST_BYTES = 2_680_000
"""Most bytes of listings and cubins, compressed: a clone has them twice."""
SHORT, MADE = 16, {"key", "text", "sha256", "code", "source_sha256"}
"""Letters of a digest that name what is kept, and digests of an entry that are not kept."""
PACKED = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
TOGETHER = 1 << 22
"""Bytes of listings, or of cubins, that are compressed, and read, together."""


@functools.lru_cache(maxsize=4)  # what is asked for is mostly like what was before
def _read(name: str) -> bytes:
    with zipfile.ZipFile(KEPT) as file:
        return lzma.decompress(file.read(name))


@functools.cache
def places() -> dict[str, tuple[str, int, int]]:
    """Return the group, the place and the size of a listing by its cubin's SHA-256, of a cubin by its compilation's key."""
    return dict(json.loads(_read("places")))


@functools.cache
def compilations() -> dict[str, dict[str, Any]]:
    """Return the store's entry of each compilation of a kernel, by its key, which holds the compiler and all that it read."""
    return dict(json.loads(_read("compilations")))


def kept(of: str) -> bytes | None:
    """Return what is kept of that key or SHA-256, if anything."""
    if of[:SHORT] not in places():
        return None
    group, start, size = places()[of[:SHORT]]
    return _read(group)[start : start + size]


def kept_listing(sha256: str) -> str | None:
    """Return the kept listing of the cubin with that digest, if any."""
    listing = kept(sha256)
    return None if listing is None else listing.decode()


def restored(task: compiling.Task, store: Store) -> bool:
    """Put what is kept of a compilation into a store."""
    if task.key not in compilations():
        return False
    path, code = store.blob(compiling.KIND, task.key, ".cubin"), kept(task.key) or b""
    write_atomically(path, code)
    write_atomically(store.blob(compiling.KIND, task.key, ".sass"), of_file(path).encode())
    entry = compilations()[task.key] | {"key": task.key, "text": task.text_key}
    entry |= {"sha256": hashlib.sha256(code).hexdigest(), "code": cubin.code_digest(code)}
    entry |= {"source_sha256": source_digest(task.variant.kernel)}
    store.write(store.blob(compiling.KIND, task.key, ".json"), entry)
    return True


def stored(task: compiling.Task, store: Store, read: Callable[..., Any]) -> Any:
    """Return what `compiling._stored` reads; the user cache gets what the checkout's store has, or what is kept."""
    entry, here = read(task, store), Store(STORE)
    if entry is None and store.root == cache.folder("kernels"):
        if read(task, here):
            for suffix in (*compiling.KEPT, ".json"):
                content = here.blob(compiling.KIND, task.key, suffix).read_bytes()
                write_atomically(store.blob(compiling.KIND, task.key, suffix), content)
        else:
            restored(task, store)
        entry = read(task, store)
    return entry


def of_trial(path: Path) -> str:
    """Return the listing of a cubin, as `of_file` does, without the recordings."""
    return kept_listing(hashlib.sha256(path.read_bytes()).hexdigest()) or sass.as_text(path)


def of_cubin(code: bytes) -> str:
    """Return the listing of a cubin of no variant, and keep it in the checkout's store."""
    digest = hashlib.sha256(code).hexdigest()
    path = STORE / "listings" / f"{digest}.cubin"
    if not path.with_suffix(".sass").is_file():
        write_atomically(path, code)
        write_atomically(path.with_suffix(".sass"), of_file(path).encode())
    return sass.of_cubin(path)


@functools.cache
def _recorded() -> dict[str, tuple[Recorded, str]]:
    """Return the recording and the key of each recorded cubin, by its SHA-256."""
    recordings = map(Recorded, folders(ROOT / "resources" / "recorded"))
    entries = [(of, entry) for of in recordings for entry in of.compiled.values()]
    complete = [(of, entry) for of, entry in entries[::-1] if {"sha256", "key"} <= entry.keys()]
    return {entry["sha256"]: (of, entry["key"]) for of, entry in complete}


def recorded_listing(sha256: str) -> str | None:
    """Return the shipped recordings' listing of the cubin with that digest, if any."""
    recording, key = _recorded().get(sha256, (None, ""))
    listing = recording.listing(key) if recording else None
    return listing[0] if listing else None


def of_file(path: Path) -> str:
    """Return the listing of a cubin; tests compare some of the kept ones with nvdisasm's."""
    return recorded_listing(hashlib.sha256(path.read_bytes()).hexdigest()) or of_trial(path)


def _grouped(items: Mapping[str, bytes], prefix: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield groups of about so many bytes with their names, in the order of the items."""
    ends = dict(zip(items, itertools.accumulate(map(len, items.values()))))
    for number, members in itertools.groupby(items, lambda of: ends[of] // TOGETHER):
        yield f"{prefix}-{number}", {of: items[of] for of in members}


def _choose(
    texts: dict[str, bytes], cubins: dict[str, bytes], entries: dict[str, dict[str, Any]]
) -> None:
    """Leave out what saves the least time for its bytes, so that the file has at most `MOST_BYTES`."""
    packed = {"listings": 26, "cubins": 11, "cubins of several kernels": 22}
    saved = list[tuple[float, str, float]]()
    for digest, text in texts.items():
        saved.append((DISASSEMBLING_S, digest, len(text) / packed["listings"]))
    for key, data in cubins.items():
        entry = entries.get(key, {"seconds": COMPILING_S, "kernels": ""})
        listed = not entry["kernels"] or kept_listing(entry["sha256"])
        seconds = max(entry["seconds"] - (0 if listed else DISASSEMBLING_S), LEAST_S)
        of = "cubins of several kernels" if len(entry["kernels"]) > 2 else "cubins"
        saved.append((seconds, key, len(data) / packed[of]))
    room = float(MOST_BYTES)
    for _, name, size in sorted(saved, key=lambda of: -of[0] / of[2]):
        room -= size
        if room < 0:
            for of in (texts, cubins, entries):
                of.pop(name, None)


def main() -> None:
    smoke = "".join(path.read_text() for path in ROOT.glob("results/smoke/compiled/*.json"))
    texts, entries = dict[str, bytes](), dict[str, dict[str, Any]]()
    cubins = {path.stem: path.read_bytes() for path in FIXTURES.glob("*.cubin")}
    for path in (*STORE.rglob("*.sass"), *cache.folder("kernels").rglob("*.sass")):
        code, about = path.with_suffix(".cubin").read_bytes(), path.with_suffix(".json")
        digest, entry = hashlib.sha256(code).hexdigest(), {}
        if about.is_file():
            entry = json.loads(about.read_text("utf-8"))
        if entry.get("key", "") in smoke and entry:
            continue
        if entry:
            entries[entry["key"]], cubins[entry["key"]] = entry, code
        if not recorded_listing(digest):
            texts[digest] = path.read_bytes()
    _choose(texts, cubins, entries)
    # Variants of a kernel, and kernels of similar length, compress well together.
    names = {of["sha256"]: of["kernels"] for of in entries.values()} | {
        key: of["kernels"] for key, of in entries.items()
    }
    places = dict[str, tuple[str, int, int]]()
    with zipfile.ZipFile(KEPT, "w") as file:

        def write(name: str, content: bytes) -> None:
            file.writestr(zipfile.ZipInfo(name), lzma.compress(content, filters=[PACKED]))

        for prefix, items in {"listings": texts, "cubins": cubins}.items():
            order = sorted(items, key=lambda of: (names.get(of, []), len(items[of]), of))
            for name, members in _grouped({of: items[of] for of in order}, prefix):
                write(name, b"".join(members.values()))
                starts = itertools.accumulate(map(len, members.values()), initial=0)
                for (of, member), start in zip(members.items(), starts):
                    places[of[:SHORT]] = name, start, len(member)
        write("places", json.dumps(places).encode())
        short = {
            key: {name: of for name, of in entry.items() if name not in MADE}
            for key, entry in entries.items()
        }
        write("compilations", json.dumps(short).encode())
    print(f"{len(texts)} listings and {len(cubins)} cubins in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
