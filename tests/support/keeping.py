"""Compilations of the tests' kernels. nvdisasm takes 0.3 s a kernel, and NVRTC up to 3 s, so they run only for new ones.

`python tests/support/keeping.py`, in a clone after `make smoke test` with an empty user cache, writes the listings of its
store and of that cache, and instead of a listing the cubin of a kernel that NVRTC takes long for, but for those of the
smoke study. They are read without Arrow, for the process that compiles a trial sees no files for it.
"""

import functools
import hashlib
import itertools
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave.basics import cache
from tilewave.compiling import sass
from tilewave.pipeline import compiling
from tilewave.pipeline.project import ROOT
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store, write_atomically

KEPT = Path(__file__).with_name("kept.zip")
STORE = ROOT / ".tilewave"
LONG_S = 0.5
"""Seconds of a compilation from which its cubin is kept."""
LISTINGS, CUBINS = 1 << 20, 1 << 21
"""Characters of the listings, or bytes of the cubins, that are compressed, and read, together."""


@functools.cache
def groups() -> dict[str, str]:
    """Return the name of the group that has the listing of each cubin, by the cubin's SHA-256."""
    with zipfile.ZipFile(KEPT) as file:
        return dict(json.loads(file.read("groups")))


def kept_listing(sha256: str) -> str | None:
    """Return the kept listing of the cubin with that digest, if any."""
    if sha256 not in groups():
        return None
    with zipfile.ZipFile(KEPT) as file:
        return str(json.loads(file.read(groups()[sha256]))[sha256])


@functools.cache
def compilations() -> dict[str, tuple[dict[str, Any], str, int, int]]:
    """Return the store's entry, the group, the place and the size of each kept cubin, by the key of its compilation."""
    with zipfile.ZipFile(KEPT) as file:
        return dict(json.loads(file.read("compilations")))


def restored(task: compiling.Task, store: Store) -> bool:
    """Put what is kept of a compilation into a store. Its key holds the compiler and all that it read."""
    if task.key not in compilations():
        return False
    entry, group, start, size = compilations()[task.key]
    with zipfile.ZipFile(KEPT) as file:
        cubin = file.read(group)[start : start + size]
    json_path, path, sass_path = (
        store.blob(compiling.KIND, task.key, suffix) for suffix in (".json", ".cubin", ".sass")
    )
    write_atomically(path, cubin)
    write_atomically(sass_path, of_file(path).encode())
    store.write(json_path, entry)
    return True


def of_trial(path: Path) -> str:
    """Return the listing of a cubin, as `of_file` does, without the recordings."""
    return kept_listing(hashlib.sha256(path.read_bytes()).hexdigest()) or sass.as_text(path)


def of_cubin(cubin: bytes) -> str:
    """Return the listing of a cubin of no variant, and keep it in the checkout's store."""
    digest = hashlib.sha256(cubin).hexdigest()
    path = STORE / "listings" / f"{digest}.cubin"
    if not path.with_suffix(".sass").is_file():
        write_atomically(path, cubin)
        write_atomically(path.with_suffix(".sass"), of_file(path).encode())
    return sass.of_cubin(path)


@functools.cache
def _recorded() -> dict[str, tuple[Recorded, str]]:
    """Return the recording and the key of each recorded cubin, by its SHA-256."""
    recordings = map(Recorded, folders(ROOT / "resources" / "recorded"))
    entries = [
        (recording, entry) for recording in recordings for entry in recording.compiled.values()
    ]
    return {entry["sha256"]: (recording, entry["key"]) for recording, entry in entries[::-1]
            if "sha256" in entry and "key" in entry}  # fmt: skip


def recorded_listing(sha256: str) -> str | None:
    """Return the shipped recordings' listing of the cubin with that digest, if any."""
    recording, key = _recorded().get(sha256, (None, ""))
    listing = recording.listing(key) if recording else None
    return listing[0] if listing else None


def of_file(path: Path) -> str:
    """Return the listing of a cubin; tests compare some of the kept ones with nvdisasm's."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return recorded_listing(digest) or of_trial(path)


def _grouped(sizes: Mapping[str, int], most: int, prefix: str) -> dict[str, list[str]]:
    """Return the keys by the name of their group, in their order: each group has about so much together."""
    ends = dict(zip(sizes, itertools.accumulate(sizes.values())))
    names = itertools.groupby(sizes, lambda key: f"{prefix}{ends[key] // most}")
    return {name: [*members] for name, members in names}


def main() -> None:
    smoke = "".join(path.read_text() for path in ROOT.glob("results/smoke/compiled/*.json"))
    texts, cubins, entries = dict[str, str](), dict[str, bytes](), dict[str, dict[str, Any]]()
    for path in (*STORE.rglob("*.sass"), *cache.folder("kernels").rglob("*.sass")):
        cubin, about = path.with_suffix(".cubin").read_bytes(), path.with_suffix(".json")
        digest, entry = hashlib.sha256(cubin).hexdigest(), {}
        if about.is_file():
            entry = json.loads(about.read_text("utf-8"))
        if entry.get("key", "") in smoke and entry:
            continue
        if entry.get("seconds", 0) >= LONG_S and STORE in path.parents:
            entries[entry["key"]], cubins[entry["key"]] = entry, cubin
        elif not recorded_listing(digest):
            texts[digest] = path.read_text("utf-8")
    # Similar kernels have similar listings of similar length, which compress well together.
    by_length = sorted(texts, key=lambda digest: (len(texts[digest]), digest))
    by_name = sorted(cubins, key=lambda key: (entries[key]["kernels"], len(cubins[key]), key))
    listed = _grouped({of: len(texts[of]) for of in by_length}, LISTINGS, "")
    compiled = _grouped({of: len(cubins[of]) for of in by_name}, CUBINS, "cubins-")
    group_of = {of: name for name, members in listed.items() for of in members}
    places = {
        of: (
            entries[of],
            name,
            sum(len(cubins[before]) for before in members[:at]),
            len(cubins[of]),
        )
        for name, members in compiled.items()
        for at, of in enumerate(members)
    }

    with zipfile.ZipFile(KEPT, "w") as file:

        def write(name: str, content: str | bytes) -> None:
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_LZMA)

        for name, members in listed.items():
            write(name, json.dumps({of: texts[of] for of in members}))
        for name, members in compiled.items():
            write(name, b"".join(cubins[of] for of in members))
        write("groups", json.dumps(group_of))
        write("compilations", json.dumps(places))
    print(f"{len(texts)} listings and {len(cubins)} cubins in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
