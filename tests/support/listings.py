"""Listings of the tests' kernels. nvdisasm takes 0.2 s a kernel, so it runs only for new ones.

`python tests/support/listings.py`, in a clone after `make smoke test`, writes the listings of its store.
"""

import functools
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tilewave.compiling import sass
from tilewave.pipeline.project import ROOT
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import write_atomically

KEPT = Path(__file__).with_name("listings.parquet")
STORE = ROOT / ".tilewave"
TOGETHER = 8
"""Listings in a compressed group, which is read as a whole."""


@functools.cache
def _file() -> tuple[pq.ParquetFile, dict[str, int]]:
    """Return the file of listings, and the index of each by the SHA-256 of its cubin."""
    file = pq.ParquetFile(KEPT)
    digests = file.read(columns=["sha256"])["sha256"].to_pylist()
    return file, {digest: index for index, digest in enumerate(digests)}


def kept_listing(sha256: str) -> str | None:
    """Return the kept listing of the cubin with that digest, if any."""
    file, indices = _file()
    if sha256 not in indices:
        return None
    group, index = divmod(indices[sha256], TOGETHER)
    return str(file.read_row_group(group, columns=["sass"])["sass"][index].as_py())


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
    return recorded_listing(digest) or kept_listing(digest) or sass.as_text(path)


def main() -> None:
    texts = {}
    for path in STORE.rglob("*.sass"):
        digest = hashlib.sha256(path.with_suffix(".cubin").read_bytes()).hexdigest()
        if not recorded_listing(digest):
            texts[digest] = path.read_text("utf-8")
    # Similar kernels have similar listings of similar length, which compress well together.
    digests = sorted(texts, key=lambda digest: (len(texts[digest]), digest))
    table = pa.table({"sha256": digests, "sass": [texts[digest] for digest in digests]})
    pq.write_table(
        table, KEPT, row_group_size=TOGETHER, write_batch_size=TOGETHER, data_page_size=1 << 28,
        use_dictionary=False, write_statistics=False, compression="zstd", compression_level=19,
    )  # fmt: skip
    print(f"{len(texts)} listings in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
