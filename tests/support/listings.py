"""Listings of the tests' own kernels: nvdisasm takes 0.2 s a kernel to begin, and is asked for new ones only.

`python tests/support/listings.py`, in a clone where `make smoke test` has run, writes those of its store.
"""

import functools
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tilewave.compiling import sass
from tilewave.pipeline.project import ROOT
from tilewave.records.recorded import Recorded, folders
from tilewave.records.store import write_atomically

KEPT = Path(__file__).with_name("listings.parquet")
STORE = ROOT / ".tilewave"
TOGETHER = 8
"""Listings that are compressed together, and read together."""


@functools.cache
def _file() -> tuple[pq.ParquetFile, dict[str, int]]:
    """The listings, and the place of each by the SHA-256 of its cubin."""
    file = pq.ParquetFile(KEPT)
    digests = file.read(columns=["sha256"])["sha256"].to_pylist()
    return file, {digest: place for place, digest in enumerate(digests)}


def known(sha256: str) -> str | None:
    """The listing of the cubin with that digest, if it is kept."""
    file, places = _file()
    if sha256 not in places:
        return None
    group, place = divmod(places[sha256], TOGETHER)
    return str(file.read_row_group(group, columns=["sass"])["sass"][place].as_py())


def of_cubin(cubin: bytes) -> str:
    """The listing of a cubin that no variant was compiled to; the checkout's store gets it."""
    digest = hashlib.sha256(cubin).hexdigest()
    path = STORE / "listings" / f"{digest}.cubin"
    if not path.with_suffix(".sass").is_file():
        write_atomically(path, cubin)
        write_atomically(path.with_suffix(".sass"), (known(digest) or sass.as_text(path)).encode())
    return sass.of_cubin(path)


class WithListings(Recorded):
    """A recording that knows the tests' kernels, too."""

    def listing_of_cubin(self, sha256: str) -> str | None:
        return super().listing_of_cubin(sha256) or known(sha256)


def main() -> None:
    recordings = list(map(Recorded, folders(ROOT / "resources" / "recorded")))
    found = {}
    for path in STORE.rglob("*.cubin"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if not any(one.listing_of_cubin(digest) for one in recordings):
            found[digest] = path.with_suffix(".sass").read_text("utf-8")
    # Those of alike kernels are alike, also in length.
    digests = sorted(found, key=lambda one: (len(found[one]), one))
    table = pa.table({"sha256": digests, "sass": [found[one] for one in digests]})
    pq.write_table(
        table, KEPT, row_group_size=TOGETHER, write_batch_size=TOGETHER, data_page_size=1 << 28,
        use_dictionary=False, write_statistics=False, compression="zstd", compression_level=19,
    )  # fmt: skip
    print(f"{len(found)} listings in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
