"""Compilations of the tests' kernels. nvdisasm takes 0.2 s a kernel, and NVRTC up to 3 s, so they run only for new ones.

`python tests/support/keeping.py`, in a clone after `make smoke test` with an empty user cache, writes the listings and the
cubins of its store and of that cache, which has a command's trials, and of fixtures, but for those of the smoke study. They
are read without Arrow, for the process that compiles a trial sees no files for it. Listings are kept without addresses, and
cubins that no recording has without their PTX text, a third of what they take.
"""

import functools
import hashlib
import io
import itertools
import json
import lzma
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

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
DISASSEMBLING_S, COMPILING_S, LEAST_S = 0.2, 0.5, 0.1
"""Seconds that a listing saves, the cubin of a fixture, and any cubin."""
MOST_BYTES = 2_680_000
"""Most bytes of listings and cubins, compressed: a clone has them twice."""
SHORT, MADE = 16, {"key", "text", "sha256", "code", "source_sha256"}
"""Letters of a digest that name what is kept, and digests of an entry that are not kept."""
PACKED = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
TOGETHER = 1 << 23
"""Bytes of listings, or of cubins, that are compressed, and read, together."""
PTX = ".nv_debug_ptx_txt"
ROW, PREDICATE, COLUMN = re.compile(r"^ {8}/\*[0-9a-f]{4}\*/ +", re.M), re.compile(r"(@!?P. )?"), 19
"""What is before an instruction in a listing, and how many spaces before one without such a predicate."""


def bare(code: bytes) -> bytes:
    """Return a cubin with zeros for its PTX text, which neither execution nor nvdisasm reads."""
    for section in ELFFile(io.BytesIO(code)).iter_sections():
        if section.name == PTX:
            at, size = section["sh_offset"], section["sh_size"]
            return code[:at] + bytes(size) + code[at + size :]
    return code


def digest_of(code: bytes) -> str:
    """Return the SHA-256 of a cubin without its PTX text, which names its listing."""
    return hashlib.sha256(bare(code)).hexdigest()


def whole(short: str) -> str:
    """Return the listing that `_short` shortened."""
    rows, address = list[str](), 0
    for row in short.split("\n"):
        if row.startswith("\1"):
            spaces = COLUMN - len(PREDICATE.match(row, 1)[0])
            row = f"{'':8}/*{address:04x}*/{'':{spaces}}{row[1:]}"
            address += sass.BYTES
        elif row.startswith(".text."):
            address = 0
        rows.append(row)
    return "\n".join(rows)


def _short(listing: str) -> str:
    """Return a listing without its instructions' addresses, if these follow from their number."""
    short = ROW.sub("\1", listing)
    return short if whole(short) == listing else listing


@functools.cache
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
    """Return the kept listing of the cubin with that digest (`digest_of`), if any."""
    listing = kept(sha256)
    return None if listing is None else whole(listing.decode())


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
    return kept_listing(digest_of(path.read_bytes())) or sass.as_text(path)


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
    packed = {"listings": 35, "cubins": 18.4}
    saved = list[tuple[float, str, float]]()
    for digest, text in texts.items():
        saved.append((DISASSEMBLING_S, digest, len(text) / packed["listings"]))
    for key, data in cubins.items():
        entry = entries.get(key, {"seconds": COMPILING_S, "kernels": ""})
        listed = not entry["kernels"] or kept_listing(entry["sha256"])
        seconds = max(entry["seconds"] - (0 if listed else DISASSEMBLING_S), LEAST_S)
        saved.append((seconds, key, len(data) / packed["cubins"]))
    room = float(MOST_BYTES)
    for _, name, size in sorted(saved, key=lambda of: -of[0] / of[2]):
        room -= size
        if room < 0:
            for of in (texts, cubins, entries):
                of.pop(name, None)


def main() -> None:
    smoke = "".join(path.read_text() for path in ROOT.glob("results/smoke/compiled/*.json"))
    texts, entries = dict[str, bytes](), dict[str, dict[str, Any]]()
    cubins = {path.stem: bare(path.read_bytes()) for path in FIXTURES.glob("*.cubin")}
    for path in (*STORE.rglob("*.sass"), *cache.folder("kernels").rglob("*.sass")):
        code, about = path.with_suffix(".cubin").read_bytes(), path.with_suffix(".json")
        recorded = recorded_listing(hashlib.sha256(code).hexdigest())
        digest, entry = digest_of(code), {}
        if about.is_file():
            entry = json.loads(about.read_text("utf-8")) | {"sha256": digest}
        if entry.get("key", "") in smoke and entry:
            continue
        if entry:
            entries[entry["key"]] = entry
            cubins[entry["key"]] = code if recorded else bare(code)
        if not recorded:
            texts[digest] = _short(path.read_text("utf-8")).encode()
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
