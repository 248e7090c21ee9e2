"""Listings of the tests' own kernels: nvdisasm takes 0.2 s a kernel to begin, and is asked for new ones only.

`python tests/listings.py`, in a clone where `make smoke test` has run, writes those of its store.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tilewave.project import ROOT
from tilewave.records.recorded import Recorded, folders

KEPT = Path(__file__).with_name("listings.parquet")
LONGEST = 200_000
"""Characters of a listing; longer ones are few, and most of the bytes."""


@functools.cache
def known() -> dict[str, str]:
    """Listings by the SHA-256 of the cubin."""
    table = pq.read_table(KEPT).to_pydict()
    return dict(zip(table["sha256"], table["sass"], strict=True))


class WithListings(Recorded):
    """A recording that knows the tests' kernels, too."""

    def listing_of_cubin(self, sha256: str) -> str | None:
        return super().listing_of_cubin(sha256) or known().get(sha256)


def main() -> None:
    recordings = list(map(Recorded, folders(ROOT / "resources" / "recorded")))
    found = {}
    for path in (ROOT / ".tilewave").rglob("*.cubin"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        text = path.with_suffix(".sass").read_text("utf-8")
        if len(text) <= LONGEST and not any(one.listing_of_cubin(digest) for one in recordings):
            found[digest] = text
    digests = sorted(found)
    table = pa.table({"sha256": digests, "sass": [found[one] for one in digests]})
    pq.write_table(table, KEPT, compression="zstd", compression_level=19)
    print(f"{len(found)} listings in {KEPT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
