"""The parts of a report that the documents show: `python tools/documents.py` writes them, `--check` compares.

Images are the report's SVGs with a rule for dark screens, the lanes of an executed access, and the house (`house`).
The picture of a kernel's page needs Chromium and is not compared. A table stands in a document between two
comments; the first names the report's table and, for the ladder, dtypes:

    <!-- ladder.csv: f32, f16_f32 -->
    <!-- end -->
    <!-- best.csv -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
from PIL import Image

import house

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DOCUMENTS = ("docs/measured.md",)
TABLE = re.compile(r"(<!-- (ladder|best)\.csv(?:: (.*?))? -->\n).*?(?=<!-- end -->)", re.S)
SIZES = (1024, 2048, 4096, 8192)
RATED = 4096
"""The size with cuBLAS' TFLOP/s in the table."""
FIGURES = ("ladder", "wave_quantization")
KERNEL = "matmul_async"
LANES = ("kernels/ladder/matmul_async.cu", "--shape", "256", "--lanes", "sgemm_tile.cuh:102")
"""The access with most of that kernel's excess wavefronts."""
DARK = (
    "<style>@media (prefers-color-scheme: dark)"
    " { svg { filter: invert(.91) hue-rotate(180deg); } }</style>"
)


def themed(svg: str) -> str:
    """Return the drawing with a rule for dark screens."""
    return re.sub(r"(<svg\b[^>]*>)", rf"\1{DARK}", svg, count=1)


def markdown(lines: Iterable[Iterable[str]]) -> str:
    """Return rows of cells as a table in Markdown; the first row is its head."""
    head, *rows = lines
    head = list(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["-"] * len(head), *rows))


def share(percent: float) -> str:
    """Return percent of cuBLAS as text, empty if it was not measured."""
    return "" if pd.isna(percent) else f"{percent:.1f}"


def ladder(table: pd.DataFrame, dtypes: str) -> str:
    """Return the ladder's table in Markdown: a row with cuBLAS' TFLOP/s per dtype, then its rungs' shares by size."""
    table = table.dropna(subset=[f"TFLOP/s, {n}³" for n in SIZES], how="all")
    lines = [["% of cuBLAS", *(f"{n}³" for n in SIZES)]]
    for dtype in (name.strip() for name in dtypes.split(",")):
        rows = table[table["dtype"] == dtype]
        vendor = rows["kernel"] == "cublas"
        (rate,) = rows.loc[vendor, f"TFLOP/s, {RATED}³"]
        lines.append([f"**{dtype}**, cuBLAS {rate:.4g} TFLOP/s", *[""] * len(SIZES)])
        lines += [
            [row["variant"], *(share(row[f"% of cuBLAS, {n}³"]) for n in SIZES)]
            for row in rows[~vendor].to_dict("records")
        ]
    return markdown(lines)


def best(table: pd.DataFrame, _: str) -> str:
    """Return the fastest variant's share of cuBLAS, by shape and dtype, in Markdown."""
    sizes = table[["m", "n", "k"]].astype(int).astype(str)
    names = sizes.apply(
        lambda row: "x".join(dict.fromkeys(row) if row.nunique() == 1 else row), axis=1
    )
    shares = table.assign(shape=names).pivot(index="shape", columns="dtype", values="% of cuBLAS")
    dtypes = table["dtype"].drop_duplicates()
    rows = ([shape, *map(share, shares.loc[shape, dtypes])] for shape in dict.fromkeys(names))
    return markdown([["% of cuBLAS", *dtypes], *rows])


MAKERS = {"ladder": ladder, "best": best}


def with_tables(text: str, tables: Mapping[str, pd.DataFrame]) -> str:
    """Return a document's text with the report's tables."""
    return TABLE.sub(
        lambda match: match[1] + MAKERS[match[2]](tables[match[2]], match[3] or ""), text
    )


def lanes() -> str:
    """Return the drawing of an access, executed here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lanes.svg"
        subprocess.run(
            [sys.executable, "-m", "tilewave", "execute", *LANES, "--output", str(path)],
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip
        return path.read_text(encoding="utf-8")


def screenshot(reports: Path) -> None:
    """Take a picture of a kernel's page, if there is a browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium: the picture of a kernel's page stays as it is", file=sys.stderr)
        return
    page = (reports / "kernel" / f"{KERNEL}.html").resolve().as_uri()
    picture = IMAGES / "kernel_page.png"
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--window-size=1100,1700", f"--screenshot={picture}", page],
        check=True, capture_output=True,
    )  # fmt: skip
    with Image.open(picture) as image:  # its few colours take a third of the room
        image.convert("RGB").quantize(dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> int:
    """Write or check the documents. Returns 1 if `--check` finds one out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=Path, default=ROOT / "reports")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    figures = arguments.reports / "figures"
    tables = {
        "ladder": pd.read_csv(arguments.reports / "tables" / "ladder.csv"),
        "best": pd.read_csv(figures / "best.csv"),
    }
    documents = {
        ROOT / name: with_tables((ROOT / name).read_text("utf-8"), tables) for name in DOCUMENTS
    }
    documents |= {
        IMAGES / f"{figure}.svg": themed((figures / f"{figure}.svg").read_text("utf-8"))
        for figure in FIGURES
    }
    documents[IMAGES / "lanes.svg"] = lanes()
    documents[IMAGES / "house.svg"] = themed(house.drawing())
    stale = [
        path
        for path, text in documents.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if arguments.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date. Run `make documents`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(documents[path], encoding="utf-8")
    screenshot(arguments.reports)
    return 0


if __name__ == "__main__":
    sys.exit(main())
