"""Listings of the tests' kernels. nvdisasm takes 0.35 s a kernel, so it runs only for new ones.

`python tests/support/listings.py`, in a clone after `make smoke test` with an empty user cache, writes the listings of
its store and of that cache. They are read without Arrow, for the process that compiles a trial sees no files for it.
"""

import functools
import hashlib
import itertools
import json
import zipfile
from pathlib import Path

from tilewave.basics import cache
from tilewave.compiling import sass
from tilewave.pipeline.project import ROOT
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import write_atomically

KEPT = Path(__file__).with_name("listings.zip")
STORE = ROOT / ".tilewave"
TOGETHER = 1 << 20
"""Characters of the listings that are compressed, and read, together."""


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


def main() -> None:
    texts = {}
    for path in (*STORE.rglob("*.sass"), *cache.folder("kernels").rglob("*.sass")):
        digest = hashlib.sha256(path.with_suffix(".cubin").read_bytes()).hexdigest()
        if not recorded_listing(digest):
            texts[digest] = path.read_text("utf-8")
    # Similar kernels have similar listings of similar length, which compress well together.
    digests = sorted(texts, key=lambda digest: (len(texts[digest]), digest))
    ends = itertools.accumulate(len(texts[digest]) for digest in digests)
    group_of = {digest: str(end // TOGETHER) for digest, end in zip(digests, ends, strict=True)}
    with zipfile.ZipFile(KEPT, "w") as file:
        for name, members in itertools.groupby(digests, group_of.get):
            content = json.dumps({digest: texts[digest] for digest in members})
            file.writestr(zipfile.ZipInfo(str(name)), content, zipfile.ZIP_LZMA)
        file.writestr(zipfile.ZipInfo("groups"), json.dumps(group_of), zipfile.ZIP_LZMA)
    print(f"{len(texts)} listings in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
