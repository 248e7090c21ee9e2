"""The README's images, from a report: `python tools/images.py` writes them, `--check` compares.

Figures are the report's own SVGs with a rule that turns them dark where the reader's screen is, and an access
that is executed and drawn; the picture of a kernel's page needs Chromium and is not compared.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FIGURES = ("ladder", "wave_quantization")
KERNEL = "matmul_async"
LANES = ("kernels/matmul_async.cu", "--shape", "256", "--lanes", "sgemm_tile.cuh:89")
"""The access with most of that kernel's excess wavefronts."""
DARK = (
    "<style>@media (prefers-color-scheme: dark)"
    " { svg { filter: invert(.91) hue-rotate(180deg); } }</style>"
)


def themed(svg: str) -> str:
    """The drawing with the rule for dark screens."""
    return re.sub(r"(<svg\b[^>]*>)", rf"\1{DARK}", svg, count=1)


def lanes() -> str:
    """The drawing of an access, executed here."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "lanes.svg"
        subprocess.run(
            [sys.executable, "-m", "tilewave", "execute", *LANES, "--output", str(made)],
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip
        return made.read_text(encoding="utf-8")


def screenshot(reports: Path) -> None:
    """A picture of a kernel's page, where there is a browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium: the picture of a kernel's page stays as it is", file=sys.stderr)
        return
    page = (reports / "kernel" / f"{KERNEL}.html").resolve().as_uri()
    picture = IMAGES / "kernel_page.png"
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--window-size=1100,1700", f"--screenshot={picture}", page],
        check=True, capture_output=True,
    )  # fmt: skip


def main() -> int:
    """Returns 1 where an image is not what the report has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=Path, default=ROOT / "reports")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    stale = []
    IMAGES.mkdir(exist_ok=True)
    figures = given.reports / "figures"
    texts = {one: themed((figures / f"{one}.svg").read_text(encoding="utf-8")) for one in FIGURES}
    for name, text in {**texts, "lanes": lanes()}.items():
        kept = IMAGES / f"{name}.svg"
        if given.check and (not kept.is_file() or kept.read_text(encoding="utf-8") != text):
            stale.append(str(kept.relative_to(ROOT)))
        elif not given.check:
            kept.write_text(text, encoding="utf-8")
    if not given.check:
        screenshot(given.reports)
    for name in stale:
        print(f"{name} is not the report's figure: run `make images`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
