"""Fail the run, after the page is written, where a figure was not drawn, or where the config is strict and a
case is not right."""

from pathlib import Path

from tilewave.pipeline import rules
from tilewave.report import verdict

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        given = snakemake.input
        text = verdict.judge(run.project, given.cases, given.records, given.figures)
        Path(snakemake.output[0]).write_text(text)
