"""The verdict, after the page is written. The run fails if a figure was not drawn, or if the config is strict
and a case is not correct."""

import json
from pathlib import Path

from tilewave.report import ending

if __name__ == "__main__":
    judged = json.loads(Path(snakemake.input.judged).read_text())
    text = ending.announce(judged, snakemake.input.figures)
    Path(snakemake.output[0]).write_text(text)
